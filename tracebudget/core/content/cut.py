"""Texts that an emitter or an SDK cut off."""

from __future__ import annotations

from tracebudget.core.dialects.facts import SpanFacts

OPENED, CLOSED = frozenset("[{"), frozenset("]}")  # how a JSON text begins and ends


def is_cut(facts: SpanFacts) -> bool:
    """A prompt or an answer that is JSON ends in the middle."""
    attributes = facts.span.attributes
    for key in facts.present.texts:
        text = attributes[key]
        if (
            type(text) is str
            and text[:1] in OPENED
            and text[-1:] not in CLOSED
            and text.rstrip()[-1:] not in CLOSED
        ):
            return True
    return False
