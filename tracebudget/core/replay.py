"""The counterfactual behind every saving: play the request again with a change, and read the new
end-to-end time.

Each span keeps what it did itself. A child starts when all siblings that had ended before it have
ended again, plus the gap that was there; its parent ends when all of them have, plus the gap at its
end. Nobody waits for an empty wrapper while others work (`rehearsal.extents`).

    parent   |--------------------------------|
      a        |----|                         b waited for a, and then for its own gap
      b               |------------|          the parent keeps its distance from b's end
      c          |-------|                    runs beside b: matters only if it ends last

Played without a change, every request comes out as it was. Where what changes runs alone, the
request is shorter by just that; nothing needs to be played.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from operator import attrgetter

from tracebudget.core.record import record
from tracebudget.core.rehearsal import TOUCH_MOST_NS, Alone, Rehearsal, Rehearsals
from tracebudget.core.report import Report
from tracebudget.core.segment import PathSlice, SegmentKind
from tracebudget.core.tree import Node


@record
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

    def touched(self) -> set[Node]:
        grouped = [node for group in self.together for node in group]
        return {*self.shorter, *self.removed, *self.at_once, *grouped}

    def is_at_once(self, node: Node) -> bool:
        """Nothing is left of the gap before a span."""
        return node in self.at_once or node in self.removed


def replay(report: Report, change: Change) -> int:
    """The request's end-to-end time under the change, ns.

    What the change cannot reach lasts as it did: the cost is that of the change's surroundings.
    """
    root = report.tree.root
    saved = _saved_apart(report.rehearsals, change)
    if saved is not None:
        return root.duration - saved
    replayed = _Replay(report.rehearsals, change)
    touched = change.touched()
    below = _reach(touched)
    for node in _children_first(below, report) if len(touched) > 1 else below:
        if node not in change.removed and not node.background:
            replayed.play(node, below[node])
    return replayed.lasts.get(root, root.duration)


def _saved_apart(rehearsals: Rehearsals, change: Change) -> int | None:
    """What a change saves where all that it touches stands apart, and nothing of it in anything
    else: the sum. None elsewhere.
    """
    if change.together:
        return None
    saved = at = 0
    for node in sorted(change.touched(), key=_start):
        if node.start < at or node.parent is None or not rehearsals.stands_apart(node):
            return None
        at, lasted = node.end, node.end - node.start
        saved += lasted if node in change.removed else min(lasted, change.shorter.get(node, 0))
        if change.is_at_once(node):
            alone = rehearsals.alone(node.parent)
            if not alone.is_each:
                return None
            saved += alone.gaps[node]
    return saved


_start = attrgetter("start")


def _children_first(nodes: Iterable[Node], report: Report) -> list[Node]:
    return sorted(nodes, key=report.rehearsals.order.__getitem__, reverse=True)


def _reach(touched: Iterable[Node]) -> dict[Node, set[Node]]:
    """Each span that may come out otherwise, with those of its children that may; from each of
    those touched upwards.
    """
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
    total, segments = report.end_to_end, report.segments
    if sum(report.busy.values()) == total:
        return total - segments[SegmentKind.PREFILL] - segments[SegmentKind.DECODE]
    return replay(report, Change(shorter={call: call.duration for call in report.calls}))


def framework_cut(report: Report, ns: int) -> Change:
    """Take ns off the framework's own time on the path, longest stretches first."""
    shorter: dict[Node, int] = {}
    own = [piece for piece in report.path if _is_overhead(piece.segment, piece.part)]
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


class _Replay:
    """A change, on its way from the spans that it touches up to the root. `lasts`: the durations
    that may be others now.
    """

    def __init__(self, rehearsals: Rehearsals, change: Change) -> None:
        self.rehearsals, self.change = rehearsals, change
        self.groups = {node: group for group in change.together for node in group}
        self.moves = bool(change.removed or change.at_once)  # some begin without their gap
        self.lasts = dict.fromkeys(change.removed, 0)

    def play(self, node: Node, affected: set[Node]) -> None:
        """Find the new duration of a span, of whose children these may come out otherwise."""
        shorter = self.change.shorter.get(node, 0)
        if affected:
            shorter += self._saved(node, affected)
        self.lasts[node] = max(0, node.end - node.start - shorter)

    def _saved(self, node: Node, affected: set[Node]) -> int:
        """By how much less its children keep a span waiting."""
        alone = self.rehearsals.alone(node)
        if not self._reaches_only(alone, affected):
            siblings = _Siblings(self, self.rehearsals.of(node))
            return node.duration - siblings.duration(affected)
        saved, moves = 0, self.moves
        for child in affected:
            if child in alone.gaps:
                gap = alone.gaps[child] if moves and self.change.is_at_once(child) else 0
                saved += gap + child.end - child.start - self.lasts[child]
        return saved

    def _reaches_only(self, alone: Alone, affected: set[Node]) -> bool:
        """Those affected run alone, as far as they count; and if some begin at once, so do those
        that they follow.
        """
        if self.groups or (self.moves and not alone.is_each):
            return False
        return all(child in alone.gaps or child.background for child in affected)


class _Siblings:
    """The children of one span of which some run side by side. Times are ns from the span's new
    start.
    """

    def __init__(self, replayed: _Replay, rehearsal: Rehearsal) -> None:
        self.replayed, self.rehearsal = replayed, rehearsal
        self.ends: dict[Node, int] = {}  # new ends of the children played so far
        self.unmoved = 0  # so many of `by_end` had ended when the first affected one did
        self.ended = 0  # so many have in this replay
        self.now = 0  # the latest of their new ends

    def duration(self, affected: set[Node]) -> int:
        """The span's new duration. Played are those affected, and those that wait for one of them;
        once all of these have ended, what is left comes out as it was, but for when it begins.
        """
        rehearsal, waits = self.rehearsal, self.rehearsal.waits
        places = sorted(rehearsal.place[child] for child in affected if child in rehearsal.place)
        if not places:
            return rehearsal.node.duration
        over = 0  # when so many of `by_end` have ended, all that were played have
        for index in self._reached(places):
            if index > places[-1] and waits[index] >= over and self._time(over) >= TOUCH_MOST_NS:
                return max(self._time(over) + rehearsal.rest[over], rehearsal.beside[over])
            child = rehearsal.children[index]
            start = self._start(child, self._time(waits[index]), rehearsal.gaps[index])
            self.ends[child] = max(0, start) + self._shown(child)
            over = max(over, rehearsal.rank[child])
        last = len(waits)
        return self._time(last) + rehearsal.node.duration - rehearsal.ended_at(last)

    def _reached(self, places: Sequence[int]) -> Iterator[int]:
        """The positions of the children affected, and of those that wait for one of them."""
        rehearsal = self.rehearsal
        first_end = min(rehearsal.rank[rehearsal.children[place]] for place in places)
        self.ended = self.unmoved = first_end - 1
        self.now = rehearsal.ended_at(self.unmoved)
        waiting = bisect_left(rehearsal.waits, first_end)
        yield from (place for place in places if place < waiting)
        yield from range(waiting, len(rehearsal.waits))

    def _time(self, count: int) -> int:
        """When so many of the children have ended; not asked of fewer than before, but for the
        first that nobody moved.
        """
        if count <= self.unmoved:
            return self.rehearsal.ended_at(count)
        while self.ended < count:
            sibling, was = self.rehearsal.by_end[self.ended], self.rehearsal.ends[self.ended]
            self.now = max(self.now, self.ends.get(sibling, was))
            self.ended += 1
        return self.now

    def _start(self, child: Node, now: int, gap: int) -> int:
        groups = self.replayed.groups
        group = [n for n in groups[child] if n in self.rehearsal.place] if child in groups else []
        if group and child is not group[0]:
            return self._start_in_group(child, group)
        return now if self.replayed.change.is_at_once(child) else now + gap

    def _shown(self, child: Node) -> int:
        """How long a child lasts now, as far as it counts."""
        lasts = self.replayed.lasts.get(child, child.duration)
        return max(0, lasts - self.rehearsal.outside(child))

    def _start_in_group(self, child: Node, group: Sequence[Node]) -> int:
        """With the first of the group, or when one of the lanes falls free."""
        earlier = sorted(self.ends[other] for other in group[: group.index(child)])
        lanes = self.replayed.change.max_parallel
        if lanes is not None and len(earlier) >= lanes:
            return earlier[len(earlier) - lanes]
        return self.ends[group[0]] - self._shown(group[0])
