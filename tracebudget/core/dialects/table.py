"""Dialect tables: one TOML file a dialect in `tables/`, read once. Adding a dialect is adding a
file.

A table holds `id`, `label`, `rank` (first match by rank wins), `evidence` ("recorded" when a trace
proves it, else "documentation"), `detect` and `roles` (see matcher.py), `facts`: for each fact an
ordered list of candidates, and optionally `extends` (another table's candidates follow its own, and
its roles stand in for none), `input_includes_cache` (yes, no, varies), `zero_cache_is_unknown`,
`stream_flag` rules. An empty list of candidates says that the fact has no source here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from tracebudget.core.dialects.matcher import Predicate, compile_matcher, signals

PATH_PART = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


# Attributes as they stand, or as JSON or a Python literal with a path into it, or one for each of a
# list of messages; events' times, attributes and lists of them; what children tell.
SOURCES = frozenset(
    {
        "attr",
        "json",
        "literal",
        "indexed",
        "span_name",
        "resource",
        "event_time",
        "event_attr",
        "event_list",
        "child_span_start",
        "child_span_duration",
    }
)


BY_KEY = frozenset({"attr", "json", "literal", "event_list"})  # in one attribute
OF_CHILDREN = frozenset({"child_span_start", "child_span_duration"})


@dataclass(frozen=True, slots=True)
class Candidate:
    """One place where a fact may stand. `source` is one of SOURCES; a `*` in the key of an
    attribute stands for any word.
    """

    source: str
    key: str
    path: tuple[str | int, ...] = ()
    event: str = ""
    is_prefix: bool = False
    pick_latest: bool = False
    require: str = ""
    unit: str = ""
    origin: str = ""
    is_bound: bool = False  # the emitter stamps a role chunk or `response.created` in some cases
    is_end_before_tools: bool = False  # it stamps the end of some answers that ask for tools
    equals: str = ""
    matches: re.Pattern[str] | None = None  # true where it is in the text, else false
    proves: re.Pattern[str] | None = None  # true where the text begins so; else it says nothing
    extract: re.Pattern[str] | None = None  # what of a text is the fact: its first group
    unknown: str = ""  # a value that says nothing
    includes_cache: bool | None = None
    from_ancestor: str = ""
    when: Predicate | None = None
    # What follows from the above, worked out once.
    is_bare: bool = True  # without conditions, but for `when`
    is_plain: bool = False  # an attribute as it stands, without any condition
    is_decided_by_keys: bool = False  # `when` looks at the scope and the attributes' keys alone
    needed_key: str = ""  # the attribute without which there is nothing at this place
    leaf: str = ""  # the last name on the path
    # In spans of one shape: for each message of an indexed place the names and keys of its parts.
    messages: tuple[tuple[tuple[str, str], ...], ...] = ()

    @property
    def needed_event(self) -> str:
        """The event without which there is nothing at this place; "" where no single one is."""
        if self.source == "event_time":
            return self.require or ("" if self.is_prefix else self.key)
        return "" if "*" in self.event else self.event

    @property
    def _is_family(self) -> bool:
        return self.is_prefix and not self.require

    @property
    def where(self) -> str:
        """The place, as a reader would name it: `key`, `event:NAME` or `span name`."""
        if self.source == "span_name":
            return "span name"
        if self.source in OF_CHILDREN:
            return f"child:{self.key}"
        if self.source == "event_time":
            return f"event:{self.require or self.key}{'*' if self._is_family else ''}"
        return f"event:{self.event}" if self.source == "event_attr" else self.key


@dataclass(frozen=True, slots=True)
class Role:
    role: str
    when: Predicate


@dataclass(frozen=True, slots=True)
class StreamFlag:
    """What a missing or a false stream flag means, by instrumentation scope: emitters differ.

    A missing flag means false only where the attribute `carrier`, if named, is there.
    """

    carrier: str = ""
    absent_means_false: tuple[str, ...] = ()
    false_means_unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dialect:
    id: str
    label: str
    rank: int
    evidence: str
    detect: Predicate
    roles: tuple[Role, ...]
    facts: Mapping[str, tuple[Candidate, ...]]
    signals: frozenset[tuple[str, str]]
    input_includes_cache: str = "varies"
    zero_cache_is_unknown: bool = False
    stream_flag: StreamFlag = field(default_factory=StreamFlag)
    looks_up: bool = False  # some fact stands on a span further up
    looks_down: bool = False  # some fact is told by a child

    def candidates(self, fact: str) -> tuple[Candidate, ...]:
        return self.facts.get(fact, ())


def load_tables() -> list[Dialect]:
    """All dialects in order of rank. Raises KeyError for a table with an unknown test, an unknown
    source of a fact or a missing field.
    """
    folder = resources.files("tracebudget.core.dialects") / "tables"
    raw = [
        tomllib.loads(file.read_text("utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".toml")
    ]
    by_id = {table["id"]: table for table in raw}
    return sorted((_dialect(table, by_id) for table in raw), key=lambda dialect: dialect.rank)


def _dialect(table: Mapping[str, Any], by_id: Mapping[str, Mapping[str, Any]]) -> Dialect:
    roles = table["roles"] if "roles" in table else by_id[table["extends"]]["roles"]
    rules = [table["detect"], *(role["when"] for role in roles)]
    flag = table.get("stream_flag", {})
    facts = _inherited(table, by_id)
    return Dialect(
        id=table["id"],
        label=table["label"],
        rank=table["rank"],
        evidence=table["evidence"],
        detect=compile_matcher(table["detect"]),
        roles=tuple(Role(role["role"], compile_matcher(role["when"])) for role in roles),
        facts={fact: tuple(map(read_candidate, rows)) for fact, rows in facts.items()},
        signals=frozenset().union(*map(signals, rules)),
        input_includes_cache=table.get("input_includes_cache", "varies"),
        zero_cache_is_unknown=table.get("zero_cache_is_unknown", False),
        stream_flag=StreamFlag(
            carrier=flag.get("carrier", ""),
            absent_means_false=tuple(flag.get("absent_means_false", ())),
            false_means_unknown=tuple(flag.get("false_means_unknown", ())),
        ),
        looks_up=any("from_ancestor" in row for row in facts.get("model_request", ())),
        looks_down=any(row.get("from") in OF_CHILDREN for rows in facts.values() for row in rows),
    )


def _inherited(
    table: Mapping[str, Any], by_id: Mapping[str, Mapping[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    """The table's own candidates, then its parent's for other places; an empty list of its own
    shuts the parent's out.
    """
    facts: dict[str, list[dict[str, Any]]] = {
        fact: list(rows) for fact, rows in table.get("facts", {}).items()
    }
    if "extends" in table:
        for fact, rows in _inherited(by_id[table["extends"]], by_id).items():
            own = facts.setdefault(fact, [])
            if own or fact not in table.get("facts", {}):
                known = {_place(row) for row in own}
                own.extend(row for row in rows if _place(row) not in known)
    return facts


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in ("from", "key", "key_prefix", "path", "event"))


CONDITIONS = frozenset({"equals", "matches", "proves", "unknown", "extract"})


def read_candidate(row: Mapping[str, Any]) -> Candidate:
    source = row.get("from", "attr")
    if source not in SOURCES:
        raise KeyError(f"no such source of a fact: {source!r}; there are {sorted(SOURCES)}")
    path, key = parse_path(row.get("path", "")), row.get("key_prefix") or row.get("key", "")
    return Candidate(
        source=source,
        key=key,
        needed_key=key if source in BY_KEY and "*" not in key else "",
        path=path,
        leaf=next((name for name in reversed(path) if isinstance(name, str)), ""),
        event=row.get("event", ""),
        is_prefix="key_prefix" in row,
        pick_latest=row.get("pick") == "latest",
        require=row.get("require", ""),
        unit=row.get("unit", ""),
        origin=row.get("origin", ""),
        is_bound=row.get("is_bound", False),
        is_end_before_tools=row.get("is_end_before_tools", False),
        equals=row.get("equals", ""),
        matches=re.compile(row["matches"]) if "matches" in row else None,
        proves=re.compile(row["proves"]) if "proves" in row else None,
        extract=re.compile(row["extract"]) if "extract" in row else None,
        unknown=row.get("unknown", ""),
        includes_cache=row.get("includes_cache"),
        from_ancestor=row.get("from_ancestor", ""),
        when=compile_matcher(row["when"]) if "when" in row else None,
        is_decided_by_keys={kind for kind, _ in signals(row.get("when", {}))} <= {"key", "prefix"},
        is_bare=CONDITIONS.isdisjoint(row),
        is_plain=source == "attr" and CONDITIONS.isdisjoint(row) and "when" not in row,
    )


def parse_path(text: str) -> tuple[str | int, ...]:
    """`replies[0].meta.usage` -> ("replies", 0, "meta", "usage")."""
    return tuple(int(index) if index else name for name, index in PATH_PART.findall(text))
