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

from collections.abc import Iterator
from heapq import heappop, heappush
from operator import itemgetter
from typing import NamedTuple

from tracebudget.core.step import WORK, StepKind
from tracebudget.core.tree import Node, Tree

Span = tuple[int, int]  # start and end, ns


class Slice(NamedTuple):
    """A stretch of the path that is this node's own time."""

    start: int
    end: int
    node: Node


class Hulls:
    """For each node the hull of the work at or below it, None where there is none."""

    def __init__(self, tree: Tree) -> None:
        self.own: dict[Node, Span | None] = {}
        self.below: dict[Node, Span | None] = {}
        self.holders: set[Node] = set()  # of steps that are no work and have time of their own
        for node in reversed(tree.nodes):
            kind = node.step.kind if node.step is not None else None
            if node.parent is not None and (kind in WITH_OWN_TIME or node in self.holders):
                self.holders.add(node.parent)
            if node.background:
                self.own[node] = self.below[node] = None
                continue
            below = self.below[node] = self._joined(node) if node.children else None
            self.own[node] = (node.start, node.end) if kind in WORK else _clipped(below, node)

    def is_leaf(self, node: Node) -> bool:
        """Work with nothing below it that the path could belong to."""
        return _is_work(node) and self.below[node] is None and node not in self.holders

    def _joined(self, node: Node) -> Span | None:
        start, end, found = 0, 0, False
        for child in node.children:
            hull = self.own[child]
            if hull is not None:
                start = hull[0] if not found or hull[0] < start else start
                end = hull[1] if not found or hull[1] > end else end
                found = True
        return (start, end) if found else None


WITH_OWN_TIME = frozenset({StepKind.AGENT, StepKind.GUARDRAIL})


def _is_work(node: Node) -> bool:
    return node.step is not None and node.step.kind in WORK


def _clipped(hull: Span | None, node: Node) -> Span | None:
    """Children are clipped to their parent."""
    if hull is None:
        return None
    start, end = max(hull[0], node.start), min(hull[1], node.end)
    return (start, end) if start < end else None


Piece = tuple[int, int, Node, bool]  # start, end, span, and whether it is the parent's own time

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


def critical_path(top: Node, hulls: Hulls, start: int, end: int) -> list[Slice]:
    """The path through `top` from `start` to `end`, in order of time; its slices tile that stretch
    exactly.
    """
    slices: list[Slice] = []
    covers: dict[Node, _Covers] = {}  # a span may be entered for several gaps, right to left
    stack: list[Piece] = [(start, end, top, False)]
    while stack:
        begin, until, node, is_own = stack.pop()
        if is_own or not node.children or hulls.is_leaf(node):
            _prepend(slices, begin, until, node)
            continue
        cover = covers.get(node)
        if cover is None:
            cover = covers[node] = _Covers(node, hulls)
        stack += cover.pieces(begin, until)[::-1]
    slices.reverse()
    return slices


def _prepend(slices: list[Slice], start: int, end: int, node: Node) -> None:
    """Add a slice to the left of the last one, as one with it where both are the same span's."""
    if start == end:
        return
    if slices:
        right = slices[-1]
        if right.node is node and right.start == end:
            slices[-1] = Slice(start, right.end, node)
            return
    slices.append(Slice(start, end, node))


class _Covers:
    """Who covers the time of one span: first the work below its children, then the children
    themselves, else it.
    """

    def __init__(self, node: Node, hulls: Hulls) -> None:
        self.node = node
        self.work = Cover(
            [(*hull, child) for child in node.children if (hull := hulls.own[child]) is not None]
        )
        plain = [
            (child.start, child.end, child)
            for child in node.children
            if not _is_work(child) and not child.background and child.start < child.end
        ]
        self.plain = Cover(plain) if plain else None

    def pieces(self, start: int, end: int) -> list[Piece]:
        """Who covers [start, end), rightmost first."""
        pieces: list[Piece] = []
        for begin, until, child in self.work.walk(start, end):
            if child is not None:
                pieces.append((begin, until, child, False))
            elif self.plain is None:
                pieces.append((begin, until, self.node, True))
            else:
                for inner_begin, inner_until, cover in self.plain.walk(begin, until):
                    pieces.append((inner_begin, inner_until, cover or self.node, cover is None))
        return pieces
