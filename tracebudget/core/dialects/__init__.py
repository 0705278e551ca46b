"""Which dialect a span speaks, and which role it plays in it.

A span is read by the first dialect, in order of rank, that recognises it and has a role for it: a
processor may add a second dialect's keys to a span of the first, and the native one knows more. A
span that no dialect claims is plain.
"""

from __future__ import annotations

from typing import NamedTuple

from tracebudget.core.dialects import common
from tracebudget.core.dialects.matcher import spelling
from tracebudget.core.dialects.table import Dialect, load_tables
from tracebudget.core.span import Span

DIALECTS: tuple[Dialect, ...] = tuple(load_tables())

REMEMBERED = 8192  # span shapes kept: an app has dozens; made-up keys must not fill memory


class Reading(NamedTuple):
    """The role a span plays, in which dialect. Both None for a plain span."""

    role: str | None
    dialect: Dialect | None


PLAIN = Reading(None, None)


class Recogniser:
    """Recognises spans, remembering the answer per shape: the parts of a span that any rule looks
    at.
    """

    def __init__(self, dialects: tuple[Dialect, ...]) -> None:
        self.dialects = dialects
        looked_at = {signal for dialect in dialects for signal in dialect.signals}
        self.value_keys = tuple(sorted(key for kind, key in looked_at if kind == "value"))
        self.resource_keys = tuple(sorted(key for kind, key in looked_at if kind == "resource"))
        self.keys = frozenset(key for kind, key in looked_at if kind in {"key", "value"})
        self.prefixes = tuple(sorted(key for kind, key in looked_at if kind == "prefix"))
        self.events = frozenset(key for kind, key in looked_at if kind == "event")
        self.signal_of: dict[str, str | None] = {}
        self.readings: dict[tuple[object, ...], Reading] = {}

    def read(self, span: Span) -> Reading:
        shape = self.shape(span)
        reading = self.readings.get(shape)
        if reading is None:
            if len(self.readings) >= REMEMBERED:
                self.readings.clear()
            reading = self.readings[shape] = self.recognise(span)
        return reading

    def shape(self, span: Span) -> tuple[object, ...]:
        attributes, signal_of = span.attributes, self.signal_of
        seen = set()
        for key in attributes:
            try:
                seen.add(signal_of[key])
            except KeyError:
                seen.add(self.learn(key))
        values = [spelling(attributes[key]) for key in self.value_keys if key in seen]
        senders = [str(span.resource.get(key)) for key in self.resource_keys]
        events = (
            self.events.intersection(event.name for event in span.events) if span.events else ()
        )
        return (
            span.scope,
            span.name,
            span.kind,
            frozenset(seen),
            *values,
            *senders,
            *sorted(events),
        )

    def learn(self, key: str) -> str | None:
        """What the rules see in a key: itself, the prefix they ask for, or nothing."""
        if len(self.signal_of) >= REMEMBERED:
            self.signal_of.clear()
        signal = (
            key if key in self.keys else next((p for p in self.prefixes if key.startswith(p)), None)
        )
        self.signal_of[key] = signal
        return signal

    def recognise(self, span: Span) -> Reading:
        for dialect in self.dialects:
            if dialect.detect(span):
                for rule in dialect.roles:
                    if rule.when(span):
                        return Reading(rule.role, dialect)
        return PLAIN


_recogniser = Recogniser(DIALECTS)
recognise = _recogniser.read


def _fact_keys() -> frozenset[str]:
    """Every key whose value a rule or a fact reads and that carries no content: the allowlist of
    *timings only*.

    Facts that stand inside content (JSON, a result) are not on it: the privacy door lifts them out
    first.
    """
    keys = {key for dialect in DIALECTS for kind, key in dialect.signals if kind == "value"}
    lists = [rows for dialect in DIALECTS for rows in dialect.facts.values()] + [
        common.TTFT_FALLBACK
    ]
    keys |= {
        row.key
        for rows in lists
        for row in rows
        if row.source == "attr" or (row.source == "event_attr" and row.event)
    }
    keys |= {*common.SESSION_KEYS, *common.PLAIN_KEYS}
    return frozenset(key for key in keys if not common.is_content(key))


FACT_KEYS = _fact_keys()
