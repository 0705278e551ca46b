"""The counterfactual behind every saving: play the request again with a change, and read the new
end-to-end time.

Each span keeps what it did itself. A child starts when all siblings that had ended before it have
ended again, plus the gap that was there; its parent ends when all of them have, plus the gap at its
end. Nobody waits for an empty wrapper while others work (`rehearsal.extents`).

    parent   |--------------------------------|
      a        |----|                         b waited for a, and then for its own gap
      b               |------------|          the parent keeps its distance from b's end
      c          |-------|                    runs beside b: matters only if it ends last

Played without a change, every request comes out as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tracebudget.core.rehearsal import Rehearsal
from tracebudget.core.report import Report
from tracebudget.core.segment import PathSlice, SegmentKind
from tracebudget.core.tree import Node


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
    """The request's end-to-end time under the change, ns.

    What the change cannot reach lasts as it did: the cost is that of the change's surroundings.
    """
    groups = {node: group for group in change.together for node in group}
    touched = {*change.shorter, *change.removed, *change.at_once, *groups}
    lasts = dict.fromkeys(change.removed, 0)
    below = _reach(touched)
    for node in sorted(below, key=report.rehearsals.order.__getitem__, reverse=True):
        if node not in change.removed and not node.background:
            rehearsal = report.rehearsals.of(node)
            lasts[node] = _Play(rehearsal, change, groups, lasts).duration(below[node])
    root = report.tree.root
    return lasts.get(root, root.duration)


def _reach(touched: Iterable[Node]) -> dict[Node, set[Node]]:
    """Each span that may come out otherwise, with those of its children that may."""
    below: dict[Node, set[Node]] = {}
    for start in touched:
        node = start
        below.setdefault(node, set())
        while node.parent is not None:
            is_known = node.parent in below
            below.setdefault(node.parent, set()).add(node)
            if is_known:
                break
            node = node.parent
    return below


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
    own = [piece for piece, _ in report.path if _is_overhead(piece.segment, piece.part)]
    for piece in sorted(own, key=lambda piece: (-piece.duration, piece.start)):
        cut = min(piece.duration, ns)
        if not cut:
            break
        owner = owner_of(report, piece)
        shorter[owner] = shorter.get(owner, 0) + cut
        ns -= cut
    return Change(shorter=shorter)


def owner_of(report: Report, piece: PathSlice) -> Node:
    """The span that is shorter when a piece of the path is: where one does not count, as beside
    other work, what holds it.
    """
    return report.rehearsals.owner(piece.node, piece.start, piece.end)


def _is_overhead(segment: SegmentKind, part: str | None) -> bool:
    return segment == SegmentKind.FRAMEWORK and part not in {"unattributed", "retry_wait"}


class _Play:
    """One span's children, played under a change. Times are ns from the span's new start, but for
    `was`, the latest old end (Unix ns) of the children that have ended.
    """

    def __init__(
        self,
        rehearsal: Rehearsal,
        change: Change,
        groups: Mapping[Node, tuple[Node, ...]],
        lasts: Mapping[Node, int],
    ) -> None:
        self.rehearsal, self.node = rehearsal, rehearsal.node
        self.change, self.groups, self.lasts = change, groups, lasts
        self.ends: dict[Node, int] = {}  # new ends of the children played so far

    def duration(self, affected: set[Node]) -> int:
        """The span's new duration. Children before the first affected one came out as they were;
        when all have ended that began before some later one, the rest only moves.
        """
        children, node = self.rehearsal.children, self.node
        places = [self.rehearsal.place[c] for c in affected if c in self.rehearsal.place]
        first, last = (min(places), max(places)) if places else (len(children), -1)
        self._begin_at(first)
        for index in range(first, len(children)):
            child = children[index]
            self._advance(self.rehearsal.start(child), index)
            start = self._start(child)
            if index > last and self.ended == index and start >= 0:
                break
            self.ends[child] = max(0, start) + self._shown(child)
        else:
            self._advance(node.end, len(children))
        return max(0, self.now + node.end - self.was - self.change.shorter.get(node, 0))

    def _begin_at(self, first: int) -> None:
        rehearsal = self.rehearsal
        is_any = first < len(rehearsal.children)
        self.ended = rehearsal.waits[first] if is_any else 0
        self.was = rehearsal.was[first] if is_any else self.node.start
        self.now = self.was - self.node.start

    def _advance(self, moment: int, begun: int) -> None:
        """Take in the children that had ended by a moment at which `begun` had begun."""
        rehearsal = self.rehearsal
        while rehearsal.has_ended(self.ended, moment, begun):
            sibling = rehearsal.by_end[self.ended]
            end = rehearsal.end(sibling)
            self.was = max(self.was, end)
            self.now = max(self.now, self.ends.get(sibling, end - self.node.start))
            self.ended += 1

    def _start(self, child: Node) -> int:
        change = self.change
        group = [n for n in self.groups.get(child, ()) if n in self.rehearsal.place]
        if group and child is not group[0]:
            return self._start_in_group(child, group)
        if child in change.removed or child in change.at_once:
            return self.now
        return self.now + self.rehearsal.start(child) - self.was

    def _shown(self, child: Node) -> int:
        """How long a child lasts now, as far as it counts."""
        lasts = self.lasts.get(child, child.duration)
        return max(0, lasts - self.rehearsal.outside(child))

    def _start_in_group(self, child: Node, group: Sequence[Node]) -> int:
        """With the first of the group, or when one of the lanes falls free."""
        earlier = sorted(self.ends[other] for other in group[: group.index(child)])
        lanes = self.change.max_parallel
        if lanes is not None and len(earlier) >= lanes:
            return earlier[len(earlier) - lanes]
        return self.ends[group[0]] - self._shown(group[0])
