"""The walk: which span the request was waiting for, at every nanosecond.

Start at the end of a span; at the cursor take, of the children that began before it, the one with
the greatest min(end, cursor) (ties: latest start, later end, id). Its stretch is walked the same
way, the cursor moves to its start.

    root   |----------------------------------|
      a       |--------|                               path:  root a  b  root
      b              |----------|                             |--|---|--..--|---|

Model and tool calls compete with their own interval. Any other span competes with the hull of the
work below it; what it lasts beyond that hull is its own time only where no sibling covers it, so
that an empty span never hides work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from operator import itemgetter

from tracebudget.core.step import WORK, StepKind
from tracebudget.core.tree import Node, Tree

Interval = tuple[int, int]  # start and end, ns
Slice = tuple[int, int, Node]  # a stretch of the path that is this node's own time: start, end

WITH_OWN_TIME = frozenset({StepKind.AGENT, StepKind.GUARDRAIL})  # steps that are no work


def find_hulls(tree: Tree) -> None:
    """Give each node the hull of the work at or below it, and tell whether the path may go on to
    what is below it: not where that is neither work nor a step with time of its own.
    """
    holders: set[Node] = set()  # of steps with time of their own
    for node in reversed(tree.nodes):
        step = node.step
        if step is not None and step.kind in WITH_OWN_TIME:
            _add_ancestors(holders, node)
        below = _joined(node.children) if node.children else None
        if node.background:
            node.hull, node.is_entered = None, False
        elif step is not None and step.kind in WORK:
            node.hull = node.start, node.end
            node.is_entered = below is not None or node in holders
        else:
            node.hull = _clipped(below, node) if below is not None else None
            node.is_entered = bool(node.children)


def _add_ancestors(known: set[Node], node: Node) -> None:
    """Add what is above a node, and is not known."""
    above = node.parent
    while above is not None and above not in known:
        known.add(above)
        above = above.parent


def _joined(children: Sequence[Node]) -> Interval | None:
    """The hull of the children's hulls."""
    hull: Interval | None = None
    for child in children:
        inner = child.hull
        if inner is None:
            continue
        if hull is None:
            hull = inner
        elif inner[0] < hull[0] or inner[1] > hull[1]:
            hull = min(hull[0], inner[0]), max(hull[1], inner[1])
    return hull


def _clipped(hull: Interval, node: Node) -> Interval | None:
    """Children are clipped to their parent."""
    start, end = hull
    if start >= node.start and end <= node.end:
        return hull if start < end else None
    start, end = max(start, node.start), min(end, node.end)
    return (start, end) if start < end else None


def critical_path(top: Node, start: int, end: int) -> list[Slice]:
    """The path through `top` from `start` to `end`, in order of time; its slices tile that stretch
    exactly.
    """
    walk = _Walk()
    if start < end:
        walk.waiting.append((start, end, top))
    while walk.waiting:
        begin, until, node = walk.waiting.pop()
        if not node.is_entered:
            walk.slices.append((begin, until, node))
        elif node in walk.covers:
            walk.through(begin, until, node)
        elif node in walk.left_off or _stand_apart(node.children):
            walk.along(begin, until, node)
        else:
            walk.covers[node] = _Covers(node)
            walk.through(begin, until, node)
    walk.slices.reverse()
    return walk.slices


def _stand_apart(children: Sequence[Node]) -> bool:
    """One after the other, in order, and something each: then each covers what it lasts."""
    last = 0
    for child in children:
        if child.start < last or child.start >= child.end or child.background:
            return False
        last = child.end
    return True


class _Walk:
    """The slices that are found, and the stretches that wait to be walked: all right to left. Where
    a child is to be entered, what lies to the left of it waits for that.
    """

    def __init__(self) -> None:
        self.slices: list[Slice] = []
        self.waiting: list[Slice] = []  # the last is next
        self.left_off: dict[Node, int] = {}  # how many children of a span no stretch reached yet
        self.covers: dict[Node, _Covers] = {}

    def along(self, start: int, end: int, node: Node) -> None:
        """Walk [start, end) of a span whose children stand apart."""
        children, at = node.children, end
        left = self.left_off.get(node, len(children))
        while left and at > start:
            child = children[left - 1]
            if child.start >= at:
                left -= 1
                continue
            if child.end < at:
                if child.end <= start:
                    break
                self.slices.append((child.end, at, node))
                at = child.end
            begin = child.start if child.start > start else start
            if child.is_entered:
                self.left_off[node] = left
                self.enter(child, begin, at, node, start)
                return
            self.slices.append((begin, at, child))
            at = begin
        if at > start:
            self.slices.append((start, at, node))
        if start > node.start:
            self.left_off[node] = left

    def through(self, start: int, end: int, node: Node) -> None:
        """Walk [start, end) of a span whose children overlap."""
        for begin, until, cover in self.covers[node].pieces(start, end):
            if cover is not node and cover.is_entered:
                self.enter(cover, begin, until, node, start)
                return
            self.slices.append((begin, until, cover))

    def enter(self, child: Node, begin: int, until: int, node: Node, start: int) -> None:
        """Walk a child next, then what is left of its parent's stretch."""
        if start < begin:
            self.waiting.append((start, begin, node))
        self.waiting.append((begin, until, child))


_by_end = itemgetter(1, 0)


class Cover:
    """Picks, from right to left, who covers a stretch. Each interval is looked at once: O(n log n)
    for all stretches.
    """

    def __init__(self, intervals: list[tuple[int, int, Node]]) -> None:
        self.pending = sorted(intervals, key=_by_end)  # the last is next to open
        self.open: list[
            tuple[int, int, str, int, Node]
        ] = []  # heap: latest start first, then later end, then id

    def walk(self, start: int, end: int) -> Iterator[tuple[int, int, Node | None]]:
        """Pieces of [start, end), rightmost first; None where nobody covers. Stretches must be
        asked right to left.
        """
        pending, opened = self.pending, self.open
        while end > start:
            while pending and pending[-1][1] >= end:
                begin, until, node = pending.pop()
                heappush(opened, (-begin, -until, node.span.span_id, len(pending), node))
            while opened and -opened[0][0] >= end:
                heappop(opened)  # begins where the cursor stands, or later
            if opened:
                begin, cover = -opened[0][0], opened[0][4]
            else:
                begin, cover = pending[-1][1] if pending else start, None
            piece = begin if begin > start else start
            yield piece, end, cover
            end = piece


class _Covers:
    """Who covers the time of one span: first the work below its children, then the children
    themselves, else it.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self.work = Cover(
            [(*child.hull, child) for child in node.children if child.hull is not None]
        )
        plain = [
            (child.start, child.end, child)
            for child in node.children
            if not _is_work(child) and not child.background and child.start < child.end
        ]
        self.plain = Cover(plain) if plain else None

    def pieces(self, start: int, end: int) -> Iterator[Slice]:
        """Who covers [start, end), rightmost first; neighbours of one span are one. Whoever stops
        at a piece may ask again for what is left of it.
        """
        last: Slice | None = None
        for piece in self._covers(start, end):
            if last is None:
                last = piece
            elif last[2] is piece[2]:
                last = piece[0], last[1], piece[2]
            else:
                yield last
                last = piece
        if last is not None:
            yield last

    def _covers(self, start: int, end: int) -> Iterator[Slice]:
        for begin, until, child in self.work.walk(start, end):
            if child is not None:
                yield begin, until, child
            elif self.plain is None:
                yield begin, until, self.node
            else:
                for inner_begin, inner_until, cover in self.plain.walk(begin, until):
                    yield inner_begin, inner_until, cover or self.node


def _is_work(node: Node) -> bool:
    return node.step is not None and node.step.kind in WORK
