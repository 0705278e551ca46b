"""Which dialect a span speaks, and which role it plays in it.

A span is read by the first dialect, in order of rank, that recognises it and has a role for it: a
processor may add a second dialect's keys to a span of the first, and the native one knows more. A
span that no dialect claims is plain.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import NamedTuple

from tracebudget.core.dialects import common
from tracebudget.core.dialects.facts import LIFTED, Places, Present
from tracebudget.core.dialects.matcher import declares_kind, spelling
from tracebudget.core.dialects.table import BY_KEY, Candidate, Dialect, load_tables
from tracebudget.core.span import Attributes, Span

DIALECTS: tuple[Dialect, ...] = tuple(load_tables())

REMEMBERED = 8192  # span shapes kept: an app has dozens; made-up keys must not fill memory

# Facts that only some roles are asked for; all others are for every role.
MODEL_ROLES = frozenset({"model_call", "server_call", "stream_log", "copy"})
TOOL_ROLES = frozenset({"tool_call", "tool_server"})
FOR_ALL = frozenset({"agent_name", "error", "error_type", "http_status", "success"})


# Of the names of a span's events those that tell something; None where it has no events.
Events = frozenset[str] | None


class Reading(NamedTuple):
    """The role a span plays, in which dialect, and where its facts can stand. A plain span has
    neither role nor dialect.
    """

    role: str | None
    dialect: Dialect | None
    present: Present


PLAIN = Reading(None, None, Present({}))


class Keys:
    """What rules and facts can see in the attribute keys of one scope's spans."""

    def __init__(self, keys: tuple[str, ...], values: tuple[str, ...]) -> None:
        self.keys = dict.fromkeys(keys)  # a set in the order of the span
        self.text = "\n".join(keys)  # searched for a part of a pattern before the keys are
        self.values = values  # the keys whose values some rule looks at
        self.readings: dict[tuple[object, ...], Reading] = {}

    def reading(self, role: str | None, dialect: Dialect, events: Events, span: Span) -> Reading:
        """The one reading of all spans with these keys that play this role in this dialect; `span`
        is one of them.
        """
        shape = (role, dialect.id, events)
        if shape not in self.readings:
            present = self._present(role, dialect, events, span)
            self.readings[shape] = Reading(role, dialect, present)
        return self.readings[shape]

    def _present(self, role: str | None, dialect: Dialect, events: Events, span: Span) -> Present:
        """The dialect's candidates for what this role is asked for, less those whose place is not
        here.
        """
        rows = {fact: dialect.candidates(fact) for fact in dialect.facts if _concerns(fact, role)}
        rows["http_status"] = dialect.candidates("http_status") + common.HTTP_STATUS
        if role in MODEL_ROLES and dialect.facts.get("ttft") != ():
            claimed = dict.fromkeys((*dialect.candidates("ttft"), *common.TTFT_FALLBACK))
            rows["ttft"] = tuple(claimed)
        facts = {
            fact: here for fact, row in rows.items() if (here := self._here(row, events, span))
        }
        asked = role in MODEL_ROLES
        prompts = self._here(common.PROMPTS, events, span) if asked else ()
        answers = self._here(common.ANSWERS, events, span) if asked else ()
        return Present(
            facts=facts,
            plain=tuple((f, row[0].key, row[1:]) for f, row in facts.items() if row[0].is_plain),
            other=tuple((f, row) for f, row in facts.items() if not row[0].is_plain),
            prompts=prompts,
            answers=answers,
            texts=tuple(place.key for place in prompts + answers if place.source == "attr"),
            hidden={
                fact: hidden
                for fact, row in facts.items()
                if fact not in CONTENT_FACTS and (hidden := tuple(filter(_is_hidden, row)))
            },
            is_lifted=LIFTED in self.keys,
        )

    def _here(self, row: Places, events: Events, span: Span) -> Places:
        likely = [place for place in row if not place.needed_key or place.needed_key in self.keys]
        if not likely:
            return ()
        named = {place.key for place in row}
        possible = (place for place in likely if _may_hold(place, span))
        here = (self._found(place, events, named) for place in possible)
        return tuple(place for place in here if place is not None)

    def _found(self, candidate: Candidate, events: Events, named: set[str]) -> Candidate | None:
        """The candidate, if its place can be in such a span; what its key leaves open filled in,
        but not by a key that another candidate names.
        """
        if candidate.source in BY_KEY and not candidate.needed_key:
            return self._filled(candidate, named)
        if candidate.source == "indexed":
            messages = _numbered(self.keys, candidate.key) if candidate.key in self.text else ()
            return replace(candidate, messages=messages) if messages else None
        if candidate.source in BY_EVENT and events is None:
            return None
        needed = candidate.needed_event
        return candidate if not needed or needed in (events or ()) else None

    def _filled(self, candidate: Candidate, named: set[str]) -> Candidate | None:
        """The candidate with the first key that its pattern means and that no other one names."""
        if max(candidate.key.split("*"), key=len) not in self.text:
            return None
        free = (key for key in sorted(self.keys) if key not in named)
        key = next((key for key in free if fnmatchcase(key, candidate.key)), None)
        if key is None:
            return None
        named.add(key)
        return replace(candidate, key=key)


BY_EVENT = frozenset({"event_time", "event_attr"})


def _may_hold(place: Candidate, span: Span) -> bool:
    """Nothing says already that there is nothing at this place in spans like this one."""
    return place.when is None or not place.is_decided_by_keys or place.when(span)


def _numbered(keys: Iterable[str], prefix: str) -> tuple[tuple[tuple[str, str], ...], ...]:
    """`prefix0.role`, `prefix0.content`, `prefix1...`: for each message the parts that stand as an
    attribute of their own, and the attribute's key.
    """
    found: dict[int, list[tuple[str, str]]] = {}
    for key in keys:
        if key.startswith(prefix):
            index, dot, part = key[len(prefix) :].partition(".")
            if dot and index.isdecimal():
                found.setdefault(int(index), []).append((part, key))
    return tuple(tuple(found[index]) for index in sorted(found))


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
        places = {place for dialect in dialects for row in dialect.facts.values() for place in row}
        places.update(common.TTFT_FALLBACK, common.PROMPTS, common.ANSWERS)
        self.events = frozenset(key for kind, key in looked_at if kind == "event") | frozenset(
            place.needed_event for place in places
        )
        self.keys: dict[tuple[str, ...], Keys] = {}  # by scope and keys
        self.readings: dict[tuple[object, ...], Reading] = {}
        self.sender: tuple[Attributes | None, tuple[str, ...]] = (None, ())  # the last one

    def read(self, span: Span) -> Reading:
        """Role, dialect and places of facts, from memory where spans of its shape were seen."""
        attributes = span.attributes
        names = (span.scope, *attributes)
        keys = self.keys.get(names) or self._learn(names)
        events = self.events.intersection(e.name for e in span.events) if span.events else None
        values: tuple[str, ...] = ()
        for key in keys.values:  # as a comprehension it would take 0.1 us more
            value = attributes[key]
            values += (value if type(value) is str else spelling(value),)
        resource, senders = self.sender
        if resource is not span.resource:  # spans of one export share theirs
            senders = tuple(map(str, map(span.resource.get, self.resource_keys)))
            self.sender = (span.resource, senders)
        shape = (keys, span.name, span.kind, events, values, senders)
        return self.readings.get(shape) or self._learn_shape(shape, span, keys, events)

    def _learn(self, names: tuple[str, ...]) -> Keys:
        keys = names[1:]
        asked = {key for key in keys if key in self.value_keys or declares_kind(key)}
        known = self.keys[names] = Keys(keys, tuple(sorted(asked)))
        return known

    def _learn_shape(
        self, shape: tuple[object, ...], span: Span, keys: Keys, events: Events
    ) -> Reading:
        if len(self.readings) >= REMEMBERED:  # of each of its keys there is a shape
            self.readings.clear()
            self.keys.clear()
        role, dialect = self.recognise(span)
        reading = PLAIN if dialect is None else keys.reading(role, dialect, events, span)
        self.readings[shape] = reading
        return reading

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
FACT_PATTERNS = tuple(sorted(key for key in FACT_KEYS if "*" in key))


def fits_fact_pattern(key: str) -> bool:
    """A key with a `*` in the tables means this one, and it carries no content."""
    is_meant = any(fnmatchcase(key, pattern) for pattern in FACT_PATTERNS)
    return is_meant and not common.is_content(key)
