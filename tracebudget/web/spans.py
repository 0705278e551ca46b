"""Spans as they were stored: one in full, or all of a request as a tree.

A value that the privacy door took away is shown as its length. Its digest is never shown: whoever
sees one could test guesses against it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from django.utils.translation import ngettext

from tracebudget.core.dialects.facts import LIFTED, is_redacted
from tracebudget.core.span import Attributes, Event, Span
from tracebudget.templatetags.duration import count

MAX_SHOWN = 20_000  # characters of one value; all of them are in the export of the trace
DEEPEST = 12  # levels told apart by indentation
TREE_ROWS = 500  # spans on one page of the tree

KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")
STATUSES = ("unset", "ok", "error")


@dataclass(frozen=True, slots=True)
class Value:
    """One attribute as text. `is_redacted`: the text says how long the value was."""

    key: str
    text: str
    is_redacted: bool = False
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Moment:
    """An event of a span, ns after the span's start."""

    name: str
    after_ns: int
    values: list[Value]


@dataclass(frozen=True, slots=True)
class StoredSpan:
    """A span with everything that was stored of it."""

    span: Span
    kind: str
    status: str
    values: list[Value]
    events: list[Moment]
    resource: list[Value]
    scope: list[Value]

    @property
    def duration_ns(self) -> int | None:
        """As sent; None where the span says no end."""
        return self.span.end_ns - self.span.start_ns if self.span.end_ns else None


def read_span(span: Span) -> StoredSpan:
    """A span, its values as text."""
    return StoredSpan(
        span=span,
        kind=KINDS[span.kind] if 0 <= span.kind < len(KINDS) else str(span.kind),
        status=STATUSES[span.status] if 0 <= span.status < len(STATUSES) else str(span.status),
        values=values_of(span.attributes),
        events=[_moment(event, span.start_ns) for event in span.events],
        resource=values_of(span.resource),
        scope=values_of(span.scope_attributes),
    )


def values_of(attributes: Attributes) -> list[Value]:
    """Attributes in the order of their keys."""
    return [_value(key, attributes[key]) for key in sorted(attributes)]


def _moment(event: Event, start_ns: int) -> Moment:
    return Moment(event.name, event.time_ns - start_ns, values_of(event.attributes))


def _value(key: str, value: Any) -> Value:
    if is_redacted(value):
        return Value(key, _length(value), is_redacted=True)
    shown = _lifted(value) if key == LIFTED else _without_digests(value)
    text = shown if isinstance(shown, str) else _json(shown)
    return Value(key, text[:MAX_SHOWN], is_cut=len(text) > MAX_SHOWN)


def _length(value: Mapping[str, Any]) -> str:
    length = value["redacted"]
    return ngettext(
        "not stored, %(length)s character", "not stored, %(length)s characters", length
    ) % {"length": count(length)}


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def _lifted(value: Any) -> Any:
    """Of what was lifted out of content only the facts: all else is digests."""
    facts = value.get("facts", {}) if isinstance(value, Mapping) else {}
    return {name: fact[0] for name, fact in facts.items()}


def _without_digests(value: Any) -> Any:
    """Redacted values inside others, as their lengths."""
    if is_redacted(value):
        return _length(value)
    if isinstance(value, Mapping):
        return {key: _without_digests(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_digests(inner) for inner in value]
    return value


# --- the tree ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TreeLine:
    """A span in its place. `step` is what the analysis made of it, None for a plain span."""

    span: Span
    depth: int
    step: Mapping[str, Any] | None

    @property
    def css(self) -> str:
        return f"depth-{min(self.depth, DEEPEST)}"

    @property
    def duration_ns(self) -> int | None:
        return self.span.end_ns - self.span.start_ns if self.span.end_ns else None


def tree_of(spans: Sequence[Span], steps: Mapping[str, Mapping[str, Any]]) -> list[TreeLine]:
    """Spans below the parents they name, those without one here at the top. As sent: the analysis
    may hang a step elsewhere, and says so."""
    return [TreeLine(span, depth, steps.get(span.span_id)) for span, depth in _walk(spans)]


def _walk(spans: Sequence[Span]) -> Iterator[tuple[Span, int]]:
    """Depth first, without recursion; what only a ring of parents holds comes last."""
    below: defaultdict[str, list[Span]] = defaultdict(list)
    here = {span.span_id for span in spans}
    tops: list[Span] = []
    for span in reversed(spans):  # the stack turns the order round
        is_top = span.parent_id not in here or span.parent_id == span.span_id
        (tops if is_top else below[span.parent_id]).append(span)
    seen: set[int] = set()
    for start in (tops, list(reversed(spans))):
        stack = [(span, 0) for span in start]
        while stack:
            span, depth = stack.pop()
            if id(span) in seen:
                continue
            seen.add(id(span))
            yield span, depth
            stack.extend((child, depth + 1) for child in below.get(span.span_id, ()))
