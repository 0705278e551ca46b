"""Where the facts of a step were read: which span tells each of them, and at which place in it.

For the reader who checks one step; the analysis itself carries only where a first token came from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from tracebudget.core.calls import children_of, read_steps, spans_above
from tracebudget.core.dialects import CONTENT_FACTS
from tracebudget.core.dialects.facts import Fact, SpanFacts
from tracebudget.core.span import Span
from tracebudget.core.step import model_above
from tracebudget.core.tree import Node, build_tree
from tracebudget.core.ttft import MOMENTS


class Standing(StrEnum):
    """How a fact stands where it was read."""

    ATTRIBUTE = "attribute"
    INSIDE = "inside"  # in the JSON, the Python literal or the list that an attribute holds
    EVENT = "event"
    CHILD = "child"  # a child's start or duration
    ABOVE = "above"  # an attribute of a span further up
    NAME = "name"  # the span's own


STANDING = {
    "attr": Standing.ATTRIBUTE,
    "json": Standing.INSIDE,
    "literal": Standing.INSIDE,
    "event_time": Standing.EVENT,
    "event_attr": Standing.EVENT,
    "child_span_start": Standing.CHILD,
    "child_span_duration": Standing.CHILD,
    "span_name": Standing.NAME,
}


@dataclass(frozen=True, slots=True)
class Told:
    """One fact as a span tells it. `value` is in `unit`, "" for none, but Unix ns where
    `is_moment`. `where`: an attribute's key, with the path into it, or `event:NAME`, `child:NAME`.
    """

    fact: str
    value: Any
    unit: str
    is_moment: bool
    where: str
    standing: Standing


@dataclass(frozen=True, slots=True)
class Telling:
    """What one span tells of a step. `dialect` is a label."""

    span: Span
    dialect: str
    facts: tuple[Told, ...]


def tellings(spans: Iterable[Span], span_id: str) -> list[Telling]:
    """What is told of the step that a span is: by itself, then by the spans that describe the same
    call. Of a span that describes another one's call: what it tells itself. Empty where no dialect
    reads it. `spans`: the whole trace.
    """
    tree = build_tree(spans)
    read_steps(tree)
    mine = [node for node in tree.nodes if node.id == span_id]
    others = [node for node in tree.nodes if node not in mine and _describes(node, mine)]
    return [telling for node in (*mine, *others) if (telling := _telling(node)) is not None]


def _describes(node: Node, calls: Collection[Node]) -> bool:
    if any(call.server is node for call in calls):
        return True
    at = node.absorbed
    while at is not None and at not in calls:
        at = at.absorbed
    return at is not None


def _telling(node: Node) -> Telling | None:
    dialect = node.reading.dialect
    if dialect is None:
        return None
    facts = SpanFacts(node.span, dialect, node.reading.present)
    if dialect.looks_down:
        facts.learn(children_of(node))
    told = [_told(name, fact) for name, fact in _facts(facts)]
    above = model_above(facts, spans_above(node)) if dialect.looks_up else None
    if above is not None:
        told.append(replace(_told("model_request", above), standing=Standing.ABOVE))
    return Telling(node.span, dialect.label, tuple(told))


def _facts(facts: SpanFacts) -> Iterator[tuple[str, Fact]]:
    """Each fact from the place that counts; of first tokens, every claim."""
    for name, value in facts.values.items():
        if name == "ttft":
            yield from ((name, fact) for fact in facts.all(name))
        elif name not in CONTENT_FACTS:
            yield name, Fact(value, facts.source(name))


def _told(name: str, fact: Fact) -> Told:
    place = fact.source
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place.path)
    return Told(
        fact=name,
        value=fact.value,
        unit=place.unit,
        is_moment=place.source in MOMENTS,
        where=place.where + path,
        standing=STANDING[place.source],
    )
