"""Reading a fact where its dialect says that it stands."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tracebudget.core.dialects.table import Candidate, Dialect
from tracebudget.core.record import record
from tracebudget.core.span import Event, Span

LIFTED = "tracebudget.lifted"  # where the privacy door leaves what it lifted out of content


class Fact(NamedTuple):
    """A value, where it was read (attribute, `event:NAME`, `span name`) and the candidate that led
    there.
    """

    value: Any
    where: str
    candidate: Candidate


@record
class SpanFacts:
    """A span as its dialect reads it. `present`: where each fact can stand in it."""

    span: Span
    dialect: Dialect
    present: Mapping[str, tuple[Candidate, ...]]

    def find(self, name: str) -> Fact | None:
        """A fact from its own place, or from what was lifted out of content before that was
        dropped.
        """
        candidates = self.present.get(name)
        fact = read_fact(self.span, candidates) if candidates else None
        return self._lifted(name) if fact is None and LIFTED in self.span.attributes else fact

    def all(self, name: str) -> list[Fact]:
        """The fact from every place that holds it, in the dialect's order."""
        read = [read_candidate(self.span, candidate) for candidate in self.present.get(name, ())]
        return [fact for fact in read if fact is not None]

    def text(self, name: str) -> str | None:
        found = self.find(name)
        return str(found.value) if found is not None and type(found.value) in (str, int) else None

    def _lifted(self, name: str) -> Fact | None:
        row = follow(self.span.attributes[LIFTED], ("facts", name))
        if not isinstance(row, list):
            return None
        value, key = row
        candidate = next((c for c in self.dialect.candidates(name) if c.key == key), None)
        return Fact(value, key, candidate) if candidate else None


def read_fact(span: Span, candidates: Sequence[Candidate]) -> Fact | None:
    """The first usable candidate: there, not redacted, not a value that says nothing."""
    for candidate in candidates:
        fact = read_candidate(span, candidate)
        if fact is not None:
            return fact
    return None


def read_candidate(span: Span, candidate: Candidate) -> Fact | None:
    """One candidate's value, None where it has none."""
    if candidate.is_plain:  # the hot path: most facts are an attribute as it stands
        value = span.attributes.get(candidate.key)
        if type(value) is str:
            value = unquoted(value) or None
        return (
            None if value is None or is_redacted(value) else Fact(value, candidate.key, candidate)
        )
    if candidate.when is not None and not candidate.when(span):
        return None
    value, where = READERS[candidate.source](span, candidate)
    if candidate.matches and isinstance(value, str):
        value = re.search(candidate.matches, value) is not None
    elif candidate.equals:
        value = True if value == candidate.equals else None
    if value in (None, "") or value == (candidate.unknown or None) or is_redacted(value):
        return None
    return Fact(value, where, candidate)


def is_redacted(value: Any) -> bool:
    """The privacy door took this value away and left its length, digest and whether it parsed."""
    return type(value) is dict and "redacted" in value


def _attribute(span: Span, candidate: Candidate) -> tuple[Any, str]:
    return unquoted(span.attributes.get(candidate.key)), candidate.key


def _json(span: Span, candidate: Candidate) -> tuple[Any, str]:
    return follow(parsed(span.attributes.get(candidate.key)), candidate.path), candidate.key


def _span_name(span: Span, candidate: Candidate) -> tuple[Any, str]:
    return span.name, "span name"


def _resource(span: Span, candidate: Candidate) -> tuple[Any, str]:
    return span.resource.get(candidate.key), candidate.key


def _event_time(span: Span, candidate: Candidate) -> tuple[Any, str]:
    """The time of an event; none where events were dropped, since SDKs drop the oldest first."""
    times = [event.time_ns for event in span.events if _names(event, candidate)]
    required = not candidate.require or any(
        event.name == candidate.require for event in span.events
    )
    if not times or not required or (span.dropped_events and not candidate.pick_latest):
        return None, ""
    return max(times) if candidate.pick_latest else min(times), f"event:{candidate.key}"


def _names(event: Event, candidate: Candidate) -> bool:
    return (
        event.name.startswith(candidate.key) if candidate.is_prefix else event.name == candidate.key
    )


def _event_attribute(span: Span, candidate: Candidate) -> tuple[Any, str]:
    for event in span.events:
        if candidate.event in ("", event.name) and candidate.key in event.attributes:
            return event.attributes[candidate.key], f"event:{candidate.event}"
    return None, ""


READERS: dict[str, Callable[[Span, Candidate], tuple[Any, str]]] = {
    "attr": _attribute,
    "json": _json,
    "span_name": _span_name,
    "resource": _resource,
    "event_time": _event_time,
    "event_attr": _event_attribute,
}


def unquoted(value: Any) -> Any:
    """MLflow and Langfuse write text as JSON: `"LLM"` with its quotes."""
    if isinstance(value, str) and len(value) > 1 and value[0] == value[-1] == '"':
        inner = parsed(value)
        return inner if isinstance(inner, str) else value
    return value


def parsed(value: Any) -> Any:
    """A JSON text as what it says; anything else as it is; None where the text is no JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def follow(value: Any, path: Sequence[str | int]) -> Any:
    """Walk into nested mappings and lists; None where the path breaks off."""
    for part in path:
        if type(part) is int and type(value) is list and part < len(value):
            value = value[part]
        elif isinstance(part, str) and type(value) is dict:
            value = value.get(part)
        else:
            return None
    return value
