"""Reading a fact where its dialect says that it stands."""

from __future__ import annotations

import json
from ast import literal_eval
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from tracebudget.core.dialects.table import OF_CHILDREN, Candidate, Dialect
from tracebudget.core.span import Span

Places = tuple[Candidate, ...]

DECODER = json.JSONDecoder()
BLANKS = " \t\r\n"  # what JSON allows around a value

UNQUOTED = "#"  # text that sorts before it may begin with a quote, or be empty
NOWHERE: Mapping[str, Candidate] = {}
HOLLOW = frozenset({type(None), dict})  # kinds of values that may say nothing
LASTING_NS = 10_000_000  # a shorter child is a record of what it stands for, written at its end
LIFTED = "tracebudget.lifted"  # where the privacy door leaves what it lifted out of content


class Fact(NamedTuple):
    """A value, and the candidate that led to it."""

    value: Any
    source: Candidate


class Child(NamedTuple):
    """What a span's facts may need of a child."""

    name: str
    start_ns: int  # Unix
    duration_ns: int


@dataclass(frozen=True, slots=True)
class Present:
    """Where spans of one shape may hold what is asked of their role: made once for all of them.

    Facts are read at once, content only when a rule asks for it: `content` does so.
    """

    facts: Mapping[str, Places]
    # Facts whose first place is a plain attribute (fact, its key, the other places); then the rest.
    plain: tuple[tuple[str, str, Places], ...] = ()
    other: tuple[tuple[str, Places], ...] = ()
    prompts: Places = ()
    answers: Places = ()
    texts: tuple[str, ...] = ()  # the keys of prompts and answers that stand as one text
    hidden: Mapping[str, Places] = field(default_factory=dict)  # facts that stand inside content
    is_lifted: bool = False  # the privacy door lifted something out of content


class SpanFacts:
    """A span as its dialect reads it. `present`: where each fact can stand in it; `values`: each
    fact from the first place that holds it, or as it was lifted out of content before that was
    dropped.
    """

    __slots__ = ("_elsewhere", "dialect", "present", "span", "values")

    def __init__(self, span: Span, dialect: Dialect, present: Present) -> None:
        self.span, self.dialect, self.present = span, dialect, present
        self._elsewhere: Mapping[str, Candidate] = NOWHERE  # what children told, or was lifted
        attributes = span.attributes
        values: dict[str, Any] = {}
        self.values = values
        for name, key, others in present.plain:
            value = attributes[key]
            kind = type(value)
            if value < UNQUOTED if kind is str else kind in HOLLOW:
                value = _as_told(value)
                if value is None:
                    self._read(name, others)
                    continue
            values[name] = value
        for name, places in present.other:
            self._read(name, places)
        if present.is_lifted:
            self._add_lifted()

    def _read(self, name: str, places: Places) -> None:
        """A fact from the first of these places that holds it."""
        for place in places:
            value = read_value(self.span, place)
            if value is not None:
                self.values[name] = value
                return

    def source(self, name: str) -> Candidate:
        """The place that a fact came from, found again, for few ask. Raises KeyError for a fact
        that is not here.
        """
        if name in self._elsewhere:
            return self._elsewhere[name]
        *others, last = self.present.facts[name]
        told = (place for place in others if read_value(self.span, place) is not None)
        return next(told, last) if others else last

    def all(self, name: str) -> list[Fact]:
        """The fact from each place that holds it, in the dialect's order; else as it was lifted."""
        if name not in self.values:
            return []
        places = self.present.facts.get(name, ())
        if len(places) > 1:
            read = [(read_value(self.span, place), place) for place in places]
            found = [Fact(value, source) for value, source in read if value is not None]
            if found:
                return found
        return [Fact(self.values[name], self.source(name))]

    def others(self, name: str) -> list[Any]:
        """What is told of a fact at the places after the first that holds it."""
        places = self.present.facts.get(name, ())
        if len(places) <= 1:
            return []
        read = (read_value(self.span, place) for place in places)
        return [value for value in read if value is not None][1:]

    def text(self, name: str) -> str | None:
        """A fact that is a name or an id."""
        value = self.values.get(name)
        if type(value) is str:
            return value
        return str(value) if type(value) is int else None

    def learn(self, children: Sequence[Child]) -> None:
        """Add the facts that children tell, the first one of a name each."""
        for name, candidates in self.present.facts.items():
            for candidate in candidates if name not in self.values else ():
                if candidate.source in OF_CHILDREN:
                    value = _told_by(children, candidate)
                    if value is not None:
                        self._add(name, value, candidate)

    def _add_lifted(self) -> None:
        lifted = follow(self.span.attributes[LIFTED], ("facts",))
        for name, row in lifted.items() if type(lifted) is dict else ():
            if name not in self.values and type(row) is list:
                value, key = row
                rows = self.dialect.candidates(name)
                source = next((c for c in rows if fnmatchcase(key, c.key)), None)
                if source is not None:
                    self._add(name, value, source)

    def _add(self, name: str, value: Any, source: Candidate) -> None:
        self.values[name] = value
        self._elsewhere = {**self._elsewhere, name: source}


def _told_by(children: Sequence[Child], candidate: Candidate) -> int | None:
    named = [child for child in children if fnmatchcase(child.name, candidate.key)]
    if candidate.source == "child_span_duration":
        return named[0].duration_ns if named else None
    return next((child.start_ns for child in named if child.duration_ns >= LASTING_NS), None)


def read_value(span: Span, candidate: Candidate) -> Any:
    """What stands at a candidate's place; None for nothing, for what says nothing, and for what was
    redacted.
    """
    if candidate.is_plain:
        return _as_told(span.attributes.get(candidate.key))
    if candidate.when is not None and not candidate.when(span):
        return None
    value = READERS[candidate.source](span, candidate)
    if value is None or value == "" or (type(value) is dict and is_redacted(value)):
        return None
    return value if candidate.is_bare else _judged(value, candidate)


def _judged(value: Any, candidate: Candidate) -> Any:
    """A value under its candidate's conditions."""
    is_text = isinstance(value, str)
    if candidate.extract is not None:
        found = candidate.extract.search(value) if is_text else None
        return (found[1] or None) if found else None
    if candidate.proves is not None:
        return (is_text and candidate.proves.match(value) is not None) or None
    if candidate.matches is not None and is_text:
        return candidate.matches.search(value) is not None
    if candidate.equals:
        return value == candidate.equals or None
    return None if value == candidate.unknown else value


def _as_told(value: Any) -> Any:
    if type(value) is str:
        return (unquoted(value) if value[:1] == '"' else value) or None
    return None if type(value) is dict and is_redacted(value) else value


def is_redacted(value: Any) -> bool:
    """The privacy door took this value away and left its length, digest and whether it parsed."""
    return type(value) is dict and "redacted" in value


def _attribute(span: Span, candidate: Candidate) -> Any:
    return _as_told(span.attributes.get(candidate.key))


def _json(span: Span, candidate: Candidate) -> Any:
    value = span.attributes.get(candidate.key)
    if type(value) is str and candidate.leaf not in value and "\\u" not in value:
        return None  # what does not name it does not hold it
    return follow(parsed(value), candidate.path)


def _literal(span: Span, candidate: Candidate) -> Any:
    return follow(python_literal(span.attributes.get(candidate.key)), candidate.path)


def _span_name(span: Span, candidate: Candidate) -> str:
    return span.name


def _resource(span: Span, candidate: Candidate) -> Any:
    return span.resource.get(candidate.key)


def _event_time(span: Span, candidate: Candidate) -> int | None:
    """The time of an event; none where events were dropped, since SDKs drop the oldest first."""
    key = candidate.key
    if candidate.is_prefix:
        times = [event.time_ns for event in span.events if event.name.startswith(key)]
    else:
        times = [event.time_ns for event in span.events if event.name == key]
    required = not candidate.require or any(
        event.name == candidate.require for event in span.events
    )
    if not times or not required or (span.dropped_events and not candidate.pick_latest):
        return None
    return max(times) if candidate.pick_latest else min(times)


def _event_attribute(span: Span, candidate: Candidate) -> Any:
    for event in span.events:
        if candidate.event in ("", event.name) and candidate.key in event.attributes:
            return event.attributes[candidate.key]
    return None


READERS: dict[str, Callable[[Span, Candidate], Any]] = {
    "attr": _attribute,
    "json": _json,
    "literal": _literal,
    "span_name": _span_name,
    "resource": _resource,
    "event_time": _event_time,
    "event_attr": _event_attribute,
    # told by the tree: `SpanFacts.learn`
    "child_span_start": lambda span, candidate: None,
    "child_span_duration": lambda span, candidate: None,
}


def unquoted(value: Any) -> Any:
    """MLflow and Langfuse write text as JSON: `"LLM"` with its quotes."""
    if type(value) is str and value[:1] == '"' == value[-1:] and len(value) > 1:
        inner = parsed(value)
        return inner if isinstance(inner, str) else value
    return value


def parsed(value: Any) -> Any:
    """A JSON text as what it says; anything else as it is; None where the text is no JSON."""
    if not isinstance(value, str):
        return value
    try:
        text = value.strip(BLANKS)
        body, end = DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return body if end == len(text) else None


def python_literal(value: Any) -> Any:
    """A text in Python's spelling of lists and mappings (`repr`) as what it says; None for what is
    none.
    """
    try:
        return literal_eval(value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
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
