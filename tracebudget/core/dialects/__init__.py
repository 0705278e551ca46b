"""Which dialect a span speaks, and which role it plays in it.

A span is read by the first dialect, in order of rank, that recognises it and has a role for it: a
processor may add a second dialect's keys to a span of the first, and the native one knows more. A
span that no dialect claims is plain.
"""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from typing import NamedTuple

from tracebudget.core.dialects import common
from tracebudget.core.dialects.facts import Places, Present
from tracebudget.core.dialects.matcher import spelling
from tracebudget.core.dialects.table import Candidate, Dialect, load_tables
from tracebudget.core.span import Span

DIALECTS: tuple[Dialect, ...] = tuple(load_tables())

REMEMBERED = 8192  # span shapes kept: an app has dozens; made-up keys must not fill memory

# Facts that only some roles are asked for; all others are for every role.
MODEL_ROLES = frozenset({"model_call", "server_call", "stream_log", "copy"})
TOOL_ROLES = frozenset({"tool_call", "tool_server"})
FOR_ALL = frozenset({"agent_name", "error", "error_type", "http_status", "success"})


class Reading(NamedTuple):
    """The role a span plays, in which dialect, and where its facts can stand. A plain span has
    neither role nor dialect.
    """

    role: str | None
    dialect: Dialect | None
    present: Present


PLAIN = Reading(None, None, Present({}))


class Keys:
    """What rules and facts can see in one set of attribute keys."""

    def __init__(self, keys: tuple[str, ...], signals: frozenset[str], values: tuple[str, ...]):
        self.keys = frozenset(keys)
        self.signals = signals
        self.values = values  # the keys whose values some rule looks at
        self.readings: dict[tuple[str | None, str, bool], Reading] = {}

    def reading(self, role: str | None, dialect: Dialect, *, has_events: bool) -> Reading:
        """The reading of all spans with these keys that play this role in this dialect."""
        known = self.readings.get((role, dialect.id, has_events))
        if known is None:
            known = Reading(role, dialect, self._present(role, dialect, has_events))
            self.readings[role, dialect.id, has_events] = known
        return known

    def _present(self, role: str | None, dialect: Dialect, has_events: bool) -> Present:
        """The dialect's candidates for what this role is asked for, less those whose attribute is
        not here.
        """
        rows = {fact: dialect.candidates(fact) for fact in dialect.facts if _concerns(fact, role)}
        if role in MODEL_ROLES and dialect.facts.get("ttft") != ():
            claimed = dict.fromkeys((*dialect.candidates("ttft"), *common.TTFT_FALLBACK))
            rows["ttft"] = tuple(claimed)
        facts = {fact: here for fact, row in rows.items() if (here := self._here(row, has_events))}
        asked = role in MODEL_ROLES
        prompts = self._here(common.PROMPTS, has_events) if asked else ()
        answers = self._here(common.ANSWERS, has_events) if asked else ()
        plain = {fact: row[0] for fact, row in facts.items() if row[0].is_plain}
        other = {fact: row[1:] if fact in plain else row for fact, row in facts.items()}
        return Present(
            facts=facts,
            plain=tuple((fact, place.key, place) for fact, place in plain.items()),
            other=tuple((fact, row) for fact, row in other.items() if row),
            prompts=prompts,
            answers=answers,
            texts=tuple(place.key for place in prompts + answers if place.source == "attr"),
            hidden={
                fact: hidden
                for fact, row in facts.items()
                if fact not in CONTENT_FACTS and (hidden := tuple(filter(_is_hidden, row)))
            },
        )

    def _here(self, row: Places, has_events: bool) -> Places:
        return tuple(found for place in row if (found := self._found(place, has_events)))

    def _found(self, candidate: Candidate, has_events: bool) -> Candidate | None:
        """The candidate, if its place can be in such a span; a `*` in its key filled in."""
        if candidate.source in BY_KEY:
            if "*" not in candidate.key:
                return candidate if candidate.key in self.keys else None
            key = next((key for key in sorted(self.keys) if fnmatchcase(key, candidate.key)), None)
            return replace(candidate, key=key) if key is not None else None
        if candidate.source == "indexed":
            is_here = any(key.startswith(candidate.key) for key in self.keys)
        else:
            is_here = has_events or candidate.source not in BY_EVENT
        return candidate if is_here else None


BY_KEY = frozenset({"attr", "json", "literal", "event_list"})
BY_EVENT = frozenset({"event_time", "event_attr"})


CONTENT_FACTS = frozenset({"tool_arguments", "tool_result"})


def _is_hidden(place: Candidate) -> bool:
    """The privacy door drops what it finds there."""
    return place.source in ("json", "literal") or common.is_content(place.key)


def _concerns(fact: str, role: str | None) -> bool:
    if fact.startswith("tool_"):
        return role in TOOL_ROLES
    return fact in FOR_ALL or role in MODEL_ROLES


class Recogniser:
    """Recognises spans, remembering the answer per shape: what of a span any rule looks at."""

    def __init__(self, dialects: tuple[Dialect, ...]) -> None:
        self.dialects = dialects
        looked_at = {signal for dialect in dialects for signal in dialect.signals}
        self.value_keys = frozenset(key for kind, key in looked_at if kind == "value")
        self.resource_keys = tuple(sorted(key for kind, key in looked_at if kind == "resource"))
        self.exact = frozenset(key for kind, key in looked_at if kind in {"key", "value"})
        self.prefixes = tuple(sorted(key for kind, key in looked_at if kind == "prefix"))
        self.events = frozenset(key for kind, key in looked_at if kind == "event")
        self.keys: dict[tuple[str, ...], Keys] = {}
        self.readings: dict[tuple[object, ...], tuple[str | None, Dialect | None]] = {}

    def read(self, span: Span) -> Reading:
        names = tuple(span.attributes)
        keys = self.keys.get(names) or self._learn(names)
        shape = self._shape(span, keys)
        found = self.readings.get(shape)
        if found is None:
            if len(self.readings) >= REMEMBERED:
                self.readings.clear()
            found = self.readings[shape] = self.recognise(span)
        role, dialect = found
        if dialect is None:
            return PLAIN
        return keys.reading(role, dialect, has_events=bool(span.events))

    def _learn(self, names: tuple[str, ...]) -> Keys:
        if len(self.keys) >= REMEMBERED:
            self.keys.clear()
        signals = frozenset(signal for key in names if (signal := self._signal(key)))
        values = tuple(sorted(self.value_keys.intersection(names)))
        keys = self.keys[names] = Keys(names, signals, values)
        return keys

    def _signal(self, key: str) -> str | None:
        """What the rules see in a key: itself, the prefix they ask for, or nothing."""
        if key in self.exact:
            return key
        return next((prefix for prefix in self.prefixes if key.startswith(prefix)), None)

    def _shape(self, span: Span, keys: Keys) -> tuple[object, ...]:
        values = map(spelling, map(span.attributes.get, keys.values))
        senders = map(str, map(span.resource.get, self.resource_keys))
        events = self.events.intersection(e.name for e in span.events) if span.events else ()
        return (span.scope, span.name, span.kind, keys.signals, *values, *senders, *sorted(events))

    def recognise(self, span: Span) -> tuple[str | None, Dialect | None]:
        """Role and dialect, asked of every rule in order."""
        for dialect in self.dialects:
            if dialect.detect(span):
                for rule in dialect.roles:
                    if rule.when(span):
                        return rule.role, dialect
        return None, None


_recogniser = Recogniser(DIALECTS)
recognise = _recogniser.read


def _fact_keys() -> frozenset[str]:
    """Every key whose value a rule or a fact reads and that carries no content: the allowlist of
    *timings only*.

    Facts that stand inside content (JSON, a result) are not on it: the privacy door lifts them out
    first.
    """
    keys = {key for dialect in DIALECTS for kind, key in dialect.signals if kind == "value"}
    rows = list(common.TTFT_FALLBACK)
    content: set[str] = set()
    for dialect in DIALECTS:
        for fact, candidates in dialect.facts.items():
            if fact in CONTENT_FACTS:
                content |= {candidate.key for candidate in candidates}
            else:
                rows += candidates
    keys |= {row.key for row in rows if row.source in {"attr", "event_attr"}}
    keys |= {*common.SESSION_KEYS, *common.PLAIN_KEYS}
    return frozenset(key for key in keys - content if not common.is_content(key))


FACT_KEYS = _fact_keys()
