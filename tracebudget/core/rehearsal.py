"""What a replay starts from: for each span, how far its children count, and which of them had ended
when the next began.

Made once a span, when a replay first reaches it, and shared by all replays of one request.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from operator import itemgetter
from typing import NamedTuple

from tracebudget.core.record import lazy
from tracebudget.core.span import KIND_CLIENT, KIND_PRODUCER
from tracebudget.core.step import ACTORS
from tracebudget.core.tree import Node, Tree

# Siblings that overlap by less were one after the other: by 1 ms, since clocks round, or by 1 % of
# the shorter, up to 5 ms, since a long call's span closes late.
TOUCH_NS, TOUCH_SHARE, TOUCH_MOST_NS = 1_000_000, 0.01, 5_000_000

Extent = tuple[int, int]  # start and end, Unix ns

_start = itemgetter(0)


class Rehearsal:
    """A span's children as they were, as far as they count (`extents`), in order of start; where
    some run side by side.

    Of each child, by its position: `waits`, how many of `by_end` had ended when it began; `gaps`,
    the ns between the latest of their ends and its start.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self.extents = extents(node)
        self.children = sorted(self.extents, key=self._start)
        self.place = {child: index for index, child in enumerate(self.children)}
        self.by_end = sorted(self.children, key=self.end)
        self.ends = list(map(self.end, self.by_end))
        self.waits: list[int] = []
        self.gaps: list[int] = []
        ended = 0
        for index, child in enumerate(self.children):
            start = self.extents[child][0]
            while self._has_ended(ended, start, index):
                ended += 1
            self.waits.append(ended)
            self.gaps.append(start - node.start - self.ended_at(ended))

    def _start(self, child: Node) -> int:
        return self.extents[child][0]

    def end(self, child: Node) -> int:
        """When a child ended, as far as it counts, in ns from the span's start."""
        return self.extents[child][1] - self.node.start

    def ended_at(self, count: int) -> int:
        """When so many of `by_end` had ended, in ns from the span's start."""
        return self.ends[count - 1] if count else 0

    def counted(self, child: Node) -> int:
        """How much of a child counts, ns."""
        start, end = self.extents[child]
        return end - start

    def outside(self, child: Node) -> int:
        """How much of a child does not count, ns."""
        return child.duration - self.counted(child)

    @lazy
    def rank(self) -> dict[Node, int]:
        """How many of `by_end` have ended when a child has."""
        return {child: count for count, child in enumerate(self.by_end, 1)}

    @lazy
    def rest(self) -> list[int]:
        """By how many of `by_end` have ended: how long the span then goes on at least, ns."""
        index = len(self.children) - 1
        rest = [self.node.duration - self.ended_at(index + 1)] * (index + 2)
        for ended in range(index, -1, -1):
            rest[ended] = rest[ended + 1]
            while index >= 0 and self.waits[index] == ended:
                child = self.children[index]
                goes_on = self.gaps[index] + self.counted(child) + rest[self.rank[child]]
                rest[ended] = max(rest[ended], goes_on)
                index -= 1
        return rest

    @lazy
    def beside(self) -> list[int]:
        """By how many of `by_end` have ended: how long the span lasts at least because of those
        that began before the last of them ended, and still run; ns, 0 where none does.
        """
        beside: list[int] = [0]
        running: list[tuple[int, int]] = []  # heap: who makes the span last longest, and its rank
        begun = 0
        for ended in range(1, len(self.children) + 1):
            while begun < len(self.children) and self.waits[begun] < ended:
                rank = self.rank[self.children[begun]]
                heappush(running, (-self.ended_at(rank) - self.rest[rank], rank))
                begun += 1
            while running and running[0][1] <= ended:
                heappop(running)
            beside.append(-running[0][0] if running else 0)
        return beside

    def _has_ended(self, position: int, moment: int, begun: int) -> bool:
        """The child at this position of `by_end` ended by a moment at which `begun` had begun."""
        child = self.by_end[position]
        late = self.extents[child][1] - moment
        if late > TOUCH_NS and (late > TOUCH_MOST_NS or late > self._touch(child, begun)):
            return False
        return self.place[child] < begun

    def _touch(self, child: Node, begun: int) -> int:
        """By how much a child may reach into the next one to begin, and still come before it."""
        shorter = min(child.duration, self.children[begun].duration)
        return max(TOUCH_NS, min(TOUCH_MOST_NS, int(TOUCH_SHARE * shorter)))


class Alone(NamedTuple):
    """The children of a span beside which no other one runs: what one of them lasts less, the span
    does. `gaps`: the ns before each of them. `is_each`: no other child counts.
    """

    gaps: Mapping[Node | None, int]
    is_each: bool


def alone_in(node: Node) -> Alone:
    """The children of a span that run alone, as far as their times tell."""
    gaps: dict[Node | None, int] = {}
    children = [child for child in node.children if not child.background]
    latest, last = node.start, None
    for child in children:
        start, end = child.start, child.end
        if start < latest:  # beside the last one, or beside one that the last one ran beside, too
            gaps.pop(last, None)
        elif start < node.end and node.start < end <= node.end:
            gaps[child] = start - latest
        latest, last = end if end > latest else latest, child
    return Alone(gaps, len(gaps) == len(children))


def extents(node: Node) -> dict[Node, Extent]:
    """How far each child counts: as far as its parent contains it; and a wrapper no further than
    the work below it, where other work beside it goes on. A wrapper without work, beside work, does
    not count at all.

        wrapper  |--work--|···············|      counts until its work ends
        tool                  |------|
    """
    children = [c for c in node.children if not c.background]
    beside = _joined(hull for c in children if (hull := c.hull) is not None)
    counted: dict[Node, Extent] = {}
    for child in children:
        extent = _extent(child, child.hull, beside)
        if extent is not None and extent[1] > node.start and extent[0] < node.end:
            counted[child] = max(extent[0], node.start), min(extent[1], node.end)
    return counted


def _extent(child: Node, hull: Extent | None, beside: list[Extent]) -> Extent | None:
    start, end = child.start, child.end
    if not _is_wrapper(child):
        return start, end
    if hull is None:
        return None if _meets(beside, start, end) else (start, end)
    return (
        hull[0] if _meets(beside, start, hull[0]) else start,
        hull[1] if _meets(beside, hull[1], end) else end,
    )


def _is_wrapper(node: Node) -> bool:
    """It does nothing itself that one could wait for. A client span does: it waits for others."""
    if node.absorbed is not None:
        return True
    is_plain = node.step is None or node.step.kind in ACTORS
    return is_plain and node.span.kind not in (KIND_CLIENT, KIND_PRODUCER)


def _joined(intervals: Iterable[Extent]) -> list[Extent]:
    """Their union, in order of time."""
    union: list[Extent] = []
    for start, end in sorted(intervals):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((start, end))
    return union


def _meets(union: list[Extent], start: int, end: int) -> bool:
    """Some of [start, end) lies in the union."""
    after = bisect_right(union, start, key=_start)
    inside = after > 0 and union[after - 1][1] > start
    return start < end and (inside or (after < len(union) and union[after][0] < end))


class Rehearsals:
    """The rehearsals of one request, made as they are asked for."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.made: dict[Node, Rehearsal] = {}
        self.found: dict[Node, Alone] = {}
        self.apart: dict[Node, bool] = {}

    @lazy
    def order(self) -> dict[Node, int]:
        """Parents before children."""
        return {node: index for index, node in enumerate(self.tree.nodes)}

    def of(self, node: Node) -> Rehearsal:
        """The rehearsal of a span's children."""
        rehearsal = self.made.get(node)
        if rehearsal is None:
            rehearsal = self.made[node] = Rehearsal(node)
        return rehearsal

    def alone(self, node: Node) -> Alone:
        """The children of a span that run alone."""
        alone = self.found.get(node)
        if alone is None:
            alone = self.found[node] = alone_in(node)
        return alone

    def stands_apart(self, node: Node) -> bool:
        """A span runs alone in the one above, and so do all above it, up to the root."""
        passed: list[Node] = []
        while node not in self.apart:
            passed.append(node)
            if node.parent is None or node not in self.alone(node.parent).gaps:
                self.apart[node] = node.parent is None
            else:
                node = node.parent
        answer = self.apart[node]
        self.apart.update(dict.fromkeys(passed, answer))
        return answer

    def owner(self, node: Node, start: int, end: int) -> Node:
        """Whose time [start, end) of a span is in a replay: its own, or that of the span in which
        it does not count.
        """
        owner = node
        while node.parent is not None and not self.stands_apart(node):
            extent = self._extent(node, node.parent)
            if extent is None or end <= extent[0] or start >= extent[1]:
                owner = node.parent
            node = node.parent
        return owner

    def _extent(self, node: Node, parent: Node) -> Extent | None:
        if node in self.alone(parent).gaps:
            return node.start, node.end
        return self.of(parent).extents.get(node)
