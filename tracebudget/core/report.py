"""The report: all that the core knows of one request before it is judged, with every number in its
place.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from operator import attrgetter

from tracebudget.core.busy import busy_ns, union_ns
from tracebudget.core.calls import read_steps
from tracebudget.core.clock import settle_clock
from tracebudget.core.critical_path import Interval, Slice, critical_path, find_hulls
from tracebudget.core.profile import Profile
from tracebudget.core.rehearsal import Rehearsals
from tracebudget.core.run import (
    Answers,
    Run,
    Turn,
    find_runs,
    name_tools,
    settle_ends,
    take_asked_tools,
)
from tracebudget.core.segment import NO_TIME, PARTS, Attribution, PathSlice, SegmentKind
from tracebudget.core.step import ACTORS, StepKind
from tracebudget.core.timing import settle_timing
from tracebudget.core.tree import Node, Note, Tree
from tracebudget.core.turn import group_turns, turn_at

SEGMENTS = tuple(SegmentKind)
NO_PARTS: dict[SegmentKind, dict[str, int | None]] = {
    segment: dict.fromkeys(names, 0) for segment, names in PARTS.items()
}


@dataclass(slots=True)
class Report:
    """One request, measured. `path` tiles [start, end)."""

    tree: Tree
    runs: list[Run]
    turns: list[Turn]
    turns_of: dict[Run, list[Turn]]
    path: list[PathSlice]
    steps: list[Node]
    calls: list[Node]  # every model call, in order; failed attempts and background ones, too
    good_calls: list[Node]  # those that promises are about: succeeded, in the foreground
    tools: list[Node]  # every tool call
    segments: dict[SegmentKind, int]  # ns of the path
    busy: dict[SegmentKind, int]
    parts: dict[SegmentKind, dict[str, int | None]]
    profile: Profile | None
    answers: Answers
    rehearsals: Rehearsals

    @property
    def start(self) -> int:
        return self.tree.root.start

    @property
    def end_to_end(self) -> int:
        return self.tree.root.duration

    def path_between(self, start: int, end: int) -> list[PathSlice]:
        """The pieces of the path that begin in [start, end)."""
        first = bisect_left(self.path, start, key=_start)
        return self.path[first : bisect_left(self.path, end, first, key=_start)]

    @property
    def notes(self) -> list[Note]:
        return self.tree.notes


_start = attrgetter("start")


def build_report(tree: Tree, profile: Profile | None = None) -> Report:
    """Measure one trace, whose tree becomes the report's. What is wrong with it leaves a note."""
    runs, steps = _settle(tree, profile)
    for run in runs:
        group_turns(tree, run)
    find_hulls(tree)
    attribution = Attribution(tree, runs)
    path = _cut_at_turns(_walk(tree, attribution))
    by_kind = _by_kind(steps)
    segments, parts = _totals(path, by_kind)
    _measure_turns(runs, path, attribution)
    turns = _list_turns(runs)
    calls = by_kind[StepKind.MODEL_CALL]
    _place_in_turns(steps)
    _nest(runs)
    return Report(
        tree=tree,
        runs=runs,
        turns=turns,
        turns_of={turn.run: turn.run.turns for turn in turns},
        path=path,
        steps=steps,
        calls=calls,
        good_calls=[call for call in calls if not call.background and not _failed(call)],
        tools=by_kind[StepKind.TOOL_CALL],
        segments=segments,
        busy=busy_ns(tree, steps, segments, path),
        parts=parts,
        profile=profile,
        answers=attribution.answers,
        rehearsals=Rehearsals(tree),
    )


def _settle(tree: Tree, profile: Profile | None) -> tuple[list[Run], list[Node]]:
    """Give the tree its steps, corrected ends, clock and first tokens. Returns the runs in it, and
    the steps in order.
    """
    read_steps(tree)
    steps = _in_order(tree)
    runs = find_runs(tree, steps)
    while take_asked_tools(tree, runs):  # and those of agents below them
        steps = _in_order(tree)
        runs = find_runs(tree, steps)
    name_tools(runs)
    is_corrected = settle_ends(tree, runs)
    if settle_clock(tree, runs):
        steps = _in_order(tree)
        runs = find_runs(tree, steps)
    elif is_corrected or not tree.is_tight:
        steps = _in_order(tree)
        for run in runs:
            run.sort()
    settle_timing(tree, profile)
    return runs, steps


def _in_order(tree: Tree) -> list[Node]:
    """The typed spans, in order."""
    return sorted([node for node in tree.nodes if node.step is not None], key=Node.order)


def _by_kind(steps: Iterable[Node]) -> defaultdict[StepKind, list[Node]]:
    by_kind: defaultdict[StepKind, list[Node]] = defaultdict(list)
    for node in steps:
        if node.step is not None:
            by_kind[node.step.kind].append(node)
    return by_kind


def _failed(call: Node) -> bool:
    return call.step is not None and call.step.is_error


def _walk(tree: Tree, attribution: Attribution) -> list[PathSlice]:
    """The request's path; tells each node how much of it lies at or below it."""
    slices = critical_path(tree.root, tree.root.start, tree.root.end)
    _sum_up(slices, tree.nodes)
    return attribution.attribute(slices)


def _sum_up(slices: Sequence[Slice], nodes: Sequence[Node]) -> None:
    """Tell each node how much of the path lies at or below it. `nodes`: parents before children."""
    for start, end, node in slices:
        node.critical_ns += end - start
    for node in reversed(nodes):
        if node.critical_ns and node.parent is not None:
            node.parent.critical_ns += node.critical_ns


# --- turns --------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Walk:
    """A walk with its meaning, the runs that lie on it in full, and their turns."""

    path: Sequence[PathSlice]
    shares: dict[Run, int]  # ns of the path at or below each run
    turns: list[Turn] = field(default_factory=list)


def _measure_turns(
    runs: Sequence[Run], path: Sequence[PathSlice], attribution: Attribution
) -> None:
    """Give each turn its segments, from its run's own walk. A run that lies on its surroundings'
    path in full shares theirs: the walk is the same. One that holds no other run has been measured
    with the request's path.
    """
    whole = _Walk(path, {run: run.top.critical_ns for run in runs})
    walks: dict[Run | None, _Walk] = {None: whole}
    holders = {run.parent for run in runs}
    for index, run in enumerate(runs):
        walk, top = walks[run.parent], run.top
        if walk.shares.get(run, 0) != top.duration:
            own = attribution.attribute(critical_path(top, top.start, top.end))
            walk = _Walk(own, _shares(own, _held(runs, index)) if run in holders else {})
        walks[run] = walk
        if walk is not whole or run in holders:
            walk.turns += run.turns
    for walk in dict.fromkeys(walks.values()):
        if walk.turns:
            _sum_in_turns(walk.path, walk.turns)


def _held(runs: Sequence[Run], index: int) -> list[Run]:
    """A run and those nested in it, which follow it."""
    held = dict.fromkeys(runs[index : index + 1])
    for run in islice(runs, index + 1, None):
        if run.parent not in held:
            break
        held[run] = None
    return list(held)


def _shares(path: Iterable[PathSlice], runs: Sequence[Run]) -> dict[Run, int]:
    """How much of a path lies at or below each run."""
    shares: dict[Run, int] = {}
    for piece in path:
        run = piece.node.scope.run
        if run is not None:
            shares[run] = shares.get(run, 0) + piece.end - piece.start
    for run in reversed(runs):
        if run in shares and run.parent is not None:
            shares[run.parent] = shares.get(run.parent, 0) + shares[run]
    return shares


def _sum_in_turns(path: Iterable[PathSlice], turns: Sequence[Turn]) -> None:
    """Cut a path at the turns' edges, in one sweep, and tell each how much of which segment lies in
    it.
    """
    edges = sorted({turn.start for turn in turns} | {turn.end for turn in turns}, reverse=True)
    until: dict[int, dict[SegmentKind, int]] = {}  # ns of each segment up to an edge
    sums = NO_TIME.copy()
    for piece in path:
        while edges and edges[-1] < piece.end:
            edge = edges.pop()
            until[edge] = sums.copy()
            until[edge][piece.segment] += max(0, edge - piece.start)
        sums[piece.segment] += piece.end - piece.start
    until |= dict.fromkeys(edges, sums)
    for turn in turns:
        before, after = until[turn.start], until[turn.end]
        turn.segments = {segment: after[segment] - before[segment] for segment in SEGMENTS}


def _list_turns(runs: Sequence[Run]) -> list[Turn]:
    """All turns in order of start, a run's before those nested in it."""
    turns = [turn for run in runs for turn in run.turns]
    if runs[1:]:
        depth: dict[Run | None, int] = {None: -1}
        for run in runs:
            depth[run] = depth[run.parent] + 1
        turns.sort(key=lambda turn: (turn.start, depth[turn.run], turn.run.top.id, turn.number))
    for index, turn in enumerate(turns):
        turn.index = index
    return turns


def _cut_at_turns(path: Iterable[PathSlice]) -> list[PathSlice]:
    """Each slice in the innermost turn open there, cut where that turn changes."""
    cut: list[PathSlice] = []
    reached: dict[Run, Turn] = {}  # the turn that a run has come to
    for run, pieces in groupby(path, key=_run):
        if run is None:
            cut += pieces
            continue
        turn = reached.get(run) or run.turns[0]
        for piece in pieces:
            while piece.end > turn.end and not turn.is_last:
                if piece.start < turn.end:
                    cut.append(replace(piece, end=turn.end, turn=turn))
                    piece.start = turn.end
                turn = run.turns[turn.number + 1]
            piece.turn = turn
            cut.append(piece)
        reached[run] = turn
    return cut


_run = attrgetter("node.scope.run")


def _place_in_turns(steps: Sequence[Node]) -> None:
    """The turn of each step: that of the run strictly above it. None in the background and outside
    every run.

    A call or tool that is the whole request stands in its own turn; an agent that nobody called in
    none.
    """
    for node in steps:
        if node.turn is not None or node.background:
            continue  # calls and tools have theirs
        run = node.scope.run
        if run is not None and run.top is node and (run.parent is not None or _is_actor(node)):
            run = run.parent
        if run is not None:
            node.turn = turn_at(run, node.start)


def _is_actor(node: Node) -> bool:
    return node.step is not None and node.step.kind in ACTORS


def _nest(runs: Sequence[Run]) -> None:
    """Tie nested runs to the turns that called them, and tell those how much of their time they
    gave away.
    """
    away: dict[Turn, list[Interval]] = {}
    for run in runs:
        if run.parent is None:
            continue
        top, around = run.top, turn_at(run.parent, run.top.start)
        caller = top.turn or around
        for turn in run.turns:
            turn.parent = caller
        for number in range(around.number, len(run.parent.turns)):
            turn = run.parent.turns[number]
            if turn.start >= top.end:
                break
            if top.start < turn.end:
                inside = max(top.start, turn.start), min(top.end, turn.end)
                away.setdefault(turn, []).append(inside)
    for turn, intervals in away.items():
        turn.delegated_ns = union_ns(intervals)


# --- totals -------------------------------------------------------------------------------------


def _totals(
    path: Iterable[PathSlice], by_kind: Mapping[StepKind, Sequence[Node]]
) -> tuple[dict[SegmentKind, int], dict[SegmentKind, dict[str, int | None]]]:
    """Nanoseconds of each segment, on the whole path and in each turn, and of each named part."""
    segments, parts = NO_TIME.copy(), _told_parts(by_kind)
    for piece in path:
        segment, turn, ns = piece.segment, piece.turn, piece.end - piece.start
        segments[segment] += ns
        if turn is not None:
            turn.on_path_ns += ns
            turn.segments[segment] += ns
        if piece.part is not None:
            named = parts[segment]
            named[piece.part] = (named[piece.part] or 0) + ns
    return segments, parts


def _told_parts(
    by_kind: Mapping[StepKind, Sequence[Node]],
) -> dict[SegmentKind, dict[str, int | None]]:
    """The named parts: queue, network and engine time are None where no call with a prefill tells
    them, the others 0.
    """
    parts = {segment: names.copy() for segment, names in NO_PARTS.items()}
    told = parts[SegmentKind.PREFILL] = dict.fromkeys(PARTS[SegmentKind.PREFILL])
    if by_kind[StepKind.QUEUE]:
        told["queue"] = 0
    for call in by_kind[StepKind.MODEL_CALL]:
        if call.ttft.split_ns is None:
            continue
        if call.facts.queue_ns is not None:
            told["queue"] = 0
            if call.facts.prefill_ns is not None:
                told["engine_other"] = 0
        if call.server is not None and call.server is not call:
            told["network"] = 0
    return parts
