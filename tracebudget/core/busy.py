"""Busy time: what the steps lasted, each without the steps below it. Three tools side by side are
three times as busy as they were waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter

from tracebudget.core.critical_path import Interval, Slice
from tracebudget.core.segment import NO_TIME, SIMPLE, PathSlice, SegmentKind
from tracebudget.core.step import StepKind
from tracebudget.core.tree import Node, Tree

SEGMENT_OF: dict[StepKind | None, SegmentKind] = {kind: SIMPLE[kind][0] for kind in SIMPLE}


def busy_ns(
    tree: Tree,
    steps: Iterable[Node],
    critical: dict[SegmentKind, int],
    path: Iterable[PathSlice],
) -> dict[SegmentKind, int]:
    """The sum of the steps' own durations: what each spent itself, without the steps below it.
    Spans are clipped to their parents as in the walk; no segment was busy for less than it was
    waited for.
    """
    root = tree.root
    owners = [node for node in steps if node.owner is node and not node.background]
    seen = _seen(tree, owners if root.owner is root else [root, *owners])
    below = _covered_below(seen, root)
    busy = NO_TIME.copy()
    for start, end, node in seen:
        own_ns = end - start - below.get(node, 0)
        kind = node.step.kind if node.step is not None else None
        if kind is StepKind.MODEL_CALL:
            prefill = _prefill_ns(node, own_ns)
            busy[SegmentKind.PREFILL] += prefill
            busy[SegmentKind.DECODE] += own_ns - prefill
        else:
            busy[SEGMENT_OF.get(kind, SegmentKind.FRAMEWORK)] += own_ns
    if critical[SegmentKind.WAIT]:  # an idle gap is nobody's work
        busy[SegmentKind.FRAMEWORK] -= sum(
            piece.duration
            for piece in path
            if piece.segment == SegmentKind.WAIT and piece.node is root
        )
    return {segment: max(busy[segment], critical[segment]) for segment in NO_TIME}


def _seen(tree: Tree, nodes: Sequence[Node]) -> list[Slice]:
    """The nodes, which stand in order, as far as all spans above contain them; still in order."""
    if tree.is_tight:
        return [(node.start, node.end, node) for node in nodes]
    clipped = _clipped_to_parents(tree)
    return sorted([(*clipped[node], node) for node in nodes], key=itemgetter(0))


def _clipped_to_parents(tree: Tree) -> dict[Node, Interval]:
    """Each span's interval as far as all spans above it contain it."""
    clipped: dict[Node, Interval] = {}
    for node in tree.nodes:
        start, end = node.start, node.end
        if node.parent is not None:
            first, last = clipped[node.parent]
            if start < first or end > last:
                start = min(max(start, first), last)
                end = max(start, min(end, last))
        clipped[node] = (start, end)
    return clipped


def _covered_below(seen: Iterable[Slice], root: Node) -> dict[Node, int]:
    """How much of each owner's time other owners below it cover, ns; the root owns what nobody
    does.
    """
    covered: dict[Node, int] = {}
    until: dict[Node, int] = {}
    for start, end, node in seen:
        if node.parent is None:
            continue
        above = node.parent.owner or root
        at = until.get(above, start)
        if end > at:
            covered[above] = covered.get(above, 0) + end - (start if start > at else at)
            until[above] = end
    return covered


def _prefill_ns(call: Node, own_ns: int) -> int:
    if call.step is not None and call.step.is_error:
        return own_ns
    return min(own_ns, call.ttft.split_ns or 0)


def union_ns(spans: Iterable[Interval]) -> int:
    """The length of a union of intervals."""
    total, at = 0, None
    for start, end in sorted(spans):
        if at is None or start >= at:
            total += end - start
            at = end
        elif end > at:
            total += end - at
            at = end
    return total
