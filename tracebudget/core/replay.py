"""The counterfactual behind every saving: play the request again with a change, and read the new
end-to-end time.

Each span keeps what it did itself. A child starts when all siblings that had ended before it have
ended again, plus the gap that was there; its parent ends when all of them have, plus the gap at its
end.

    parent   |--------------------------------|
      a        |----|                         b waited for a, and then for its own gap
      b               |------------|          the parent keeps its distance from b's end
      c          |-------|                    runs beside b: matters only if it ends last

Played without a change, every request comes out as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tracebudget.core.report import Report
from tracebudget.core.segment import SegmentKind
from tracebudget.core.tree import Node

TOUCH_NS = 1_000_000  # siblings that overlap by less were one after the other


@dataclass(frozen=True, slots=True)
class Change:
    """What would be different.

    `shorter`: ns taken off a span. `removed`: spans that did not happen, nor what is below them,
    nor the gap before them. `at_once`: spans that start without their gap. `together`: groups of
    siblings, in order, that start with the first of them, at most `max_parallel` at once.
    """

    shorter: Mapping[Node, int] = field(default_factory=dict)
    removed: frozenset[Node] = frozenset()
    at_once: frozenset[Node] = frozenset()
    together: tuple[tuple[Node, ...], ...] = ()
    max_parallel: int | None = None


def replay(report: Report, change: Change) -> int:
    """The request's end-to-end time under the change, ns."""
    groups = {node: group for group in change.together for node in group}
    lasts: dict[Node, int] = {}
    for node in reversed(report.tree.nodes):  # children before parents
        if not node.background:
            lasts[node] = 0 if node in change.removed else _duration(node, change, groups, lasts)
    return lasts[report.tree.root]


def saving_ns(report: Report, change: Change) -> int:
    """What the change gives back; never negative."""
    return max(0, report.end_to_end - replay(report, change))


def time_without_models(report: Report) -> int:
    """End-to-end with an infinitely fast model, ns. Where nothing ran beside the path, the path
    tells; else the request is played.
    """
    if sum(report.busy.values()) == report.end_to_end:
        segments = report.segments
        return report.end_to_end - segments[SegmentKind.PREFILL] - segments[SegmentKind.DECODE]
    return replay(report, Change(shorter={call: call.duration for call in report.calls}))


def framework_cut(report: Report, ns: int) -> Change:
    """Take ns off the framework's own time on the path, longest stretches first."""
    shorter: dict[Node, int] = {}
    own = [
        (p.duration, index, p.node)
        for index, (p, _) in enumerate(report.path)
        if _is_overhead(p.segment, p.part)
    ]
    for duration, _, node in sorted(own, key=lambda item: (-item[0], item[1])):
        cut = min(duration, ns)
        shorter[node] = shorter.get(node, 0) + cut
        ns -= cut
    return Change(shorter=shorter)


def _is_overhead(segment: SegmentKind, part: str | None) -> bool:
    return segment == SegmentKind.FRAMEWORK and part not in {"unattributed", "retry_wait"}


def _duration(
    node: Node, change: Change, groups: Mapping[Node, tuple[Node, ...]], lasts: Mapping[Node, int]
) -> int:
    """A span's new duration from its children's. Children count as far as their parent contains
    them.
    """
    children = [
        c for c in node.children if not c.background and c.end > node.start and c.start < node.end
    ]
    ends: dict[Node, int] = {}  # each child's new end, from the node's start
    done = _Done(children, node)
    for child in children:
        group = groups.get(child)
        if group is not None and child is not group[0]:
            start = _start_in_group(child, group, ends, lasts, change.max_parallel)
        else:
            was, now = done.by(child.start, ends)
            gapless = child in change.removed or child in change.at_once
            start = now + (0 if gapless else max(child.start, node.start) - was)
        hidden = max(0, node.start - child.start) + max(0, child.end - node.end)
        ends[child] = max(0, start) + max(0, lasts[child] - hidden)
    was, now = done.by(node.end, ends)
    return max(0, now + node.end - was - change.shorter.get(node, 0))


def _start_in_group(
    child: Node,
    group: tuple[Node, ...],
    ends: Mapping[Node, int],
    lasts: Mapping[Node, int],
    lanes: int | None,
) -> int:
    """With the first of the group, or when one of the lanes falls free."""
    earlier = sorted(ends[other] for other in group[: group.index(child)])
    if lanes is not None and len(earlier) >= lanes:
        return earlier[len(earlier) - lanes]
    return ends[group[0]] - lasts[group[0]]


class _Done:
    """Which siblings had ended by a moment: their latest old end (absolute) and latest new end
    (from the start).
    """

    def __init__(self, children: Sequence[Node], node: Node) -> None:
        self.by_end = sorted(children, key=lambda child: child.end)
        self.next = 0
        self.limit = node.end
        self.was, self.now = node.start, 0

    def by(self, moment: int, ends: Mapping[Node, int]) -> tuple[int, int]:
        """Moments come in order. A sibling whose new end is not known yet had not begun."""
        while (
            self.next < len(self.by_end)
            and min(self.by_end[self.next].end, self.limit) <= moment + TOUCH_NS
        ):
            sibling = self.by_end[self.next]
            if sibling not in ends:
                break
            self.was = max(self.was, min(sibling.end, self.limit))
            self.now = max(self.now, ends[sibling])
            self.next += 1
        return self.was, self.now
