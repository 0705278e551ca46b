"""The report: all that the core knows of one request before it is judged, with every number in its
place.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import sub

from tracebudget.core.calls import read_steps
from tracebudget.core.clock import settle_clock
from tracebudget.core.critical_path import Hulls, Slice, critical_path
from tracebudget.core.profile import Profile
from tracebudget.core.rehearsal import Rehearsals
from tracebudget.core.run import Answers, Run, find_runs, name_tools, settle_ends
from tracebudget.core.segment import CALMER, PARTS, TOOL_KINDS, Attribution, PathSlice, SegmentKind
from tracebudget.core.step import ACTORS, StepKind
from tracebudget.core.timing import settle_timing
from tracebudget.core.tree import Node, Note, Tree, subtree
from tracebudget.core.turn import group_turns, turn_at

SEGMENTS = tuple(SegmentKind)
PLACE = {segment: place for place, segment in enumerate(SEGMENTS)}
NOTHING = [0] * len(SEGMENTS)


@dataclass(slots=True, eq=False)
class Turn:
    """One round of a run. Times are absolute ns; `index` is its place in the report's list of all
    turns.
    """

    index: int
    run: Run
    number: int  # within its run
    start: int
    end: int
    segments: dict[SegmentKind, int]
    on_path_ns: int = 0
    delegated_ns: int = 0
    parent: Turn | None = None
    calls: list[Node] = field(default_factory=list)
    tools: list[Node] = field(default_factory=list)

    @property
    def duration(self) -> int:
        return self.end - self.start


@dataclass(slots=True)
class Report:
    """One request, measured. `path` tiles [start, end)."""

    tree: Tree
    runs: list[Run]
    turns: list[Turn]
    turns_of: dict[Run, list[Turn]]
    path: list[tuple[PathSlice, Turn | None]]
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

    def path_between(self, start: int, end: int) -> list[tuple[PathSlice, Turn | None]]:
        """The pieces of the path that begin in [start, end)."""
        first = bisect_left(self.path, start, key=_piece_start)
        return self.path[first : bisect_left(self.path, end, first, key=_piece_start)]

    @property
    def notes(self) -> list[Note]:
        return self.tree.notes


def _piece_start(placed: tuple[PathSlice, Turn | None]) -> int:
    return placed[0].start


class PathIndex:
    """One walk with its meaning: how much of which segment between two moments, quickly."""

    def __init__(
        self, slices: Sequence[Slice], attribution: Attribution, nodes: Sequence[Node]
    ) -> None:
        self.path = attribution.attribute(slices)
        self.starts = [piece.start for piece in self.path]
        self.sums: list[list[int]] = []  # ns of each segment up to the end of each piece
        running = [0] * len(SEGMENTS)
        for piece in self.path:
            running[PLACE[piece.segment]] += piece.end - piece.start
            self.sums.append(running.copy())
        self.critical = _subtree_sums(slices, nodes)

    def total(self) -> dict[SegmentKind, int]:
        """Nanoseconds of each segment."""
        return dict(zip(SEGMENTS, self.sums[-1] if self.sums else NOTHING, strict=True))

    def between(self, start: int, end: int) -> dict[SegmentKind, int]:
        """Nanoseconds of each segment in [start, end)."""
        sums = map(sub, self._until(end), self._until(start))
        return dict(zip(SEGMENTS, sums, strict=True))

    def _until(self, moment: int) -> list[int]:
        index = bisect_right(self.starts, moment)
        if index == 0:
            return NOTHING
        last, sums = self.path[index - 1], self.sums[index - 1]
        if last.end > moment:
            sums = sums.copy()
            sums[PLACE[last.segment]] -= last.end - moment
        return sums


def _subtree_sums(slices: Sequence[Slice], nodes: Sequence[Node]) -> dict[Node, int]:
    """How much of the path lies at or below each node. `nodes`: parents before children."""
    sums: dict[Node, int] = {}
    for piece in slices:
        sums[piece.node] = sums.get(piece.node, 0) + piece.end - piece.start
    for node in reversed(nodes):
        ns = sums.get(node)
        if ns is not None and node.parent is not None:
            sums[node.parent] = sums.get(node.parent, 0) + ns
    return sums


def build_report(tree: Tree, profile: Profile | None = None) -> Report:
    """Measure one trace, whose tree becomes the report's. What is wrong with it leaves a note."""
    runs = _settle(tree, profile)
    for run in runs:
        group_turns(tree, run)
    hulls = Hulls(tree)
    attribution = Attribution(tree, runs)
    walk = critical_path(tree.root, hulls, tree.root.start, tree.root.end)
    whole = PathIndex(walk, attribution, tree.nodes)
    for node in tree.nodes:
        node.critical_ns = whole.critical.get(node, 0)
    turns = _list_turns(runs, _run_indices(runs, whole, attribution, hulls))
    by_run = _by_run(turns)
    path = _cut_at_turns(whole.path, by_run)
    for piece, turn in path:
        if turn is not None:
            turn.on_path_ns += piece.duration
    steps = sorted((node for node in tree.nodes if node.step is not None), key=Node.order)
    calls = _of_kind(steps, StepKind.MODEL_CALL)
    _place_in_turns(steps, by_run)
    _nest(runs, by_run)
    segments = whole.total()
    return Report(
        tree=tree,
        runs=runs,
        turns=turns,
        turns_of=by_run,
        path=path,
        steps=steps,
        calls=calls,
        good_calls=[call for call in calls if not call.background and not _failed(call)],
        tools=_of_kind(steps, StepKind.TOOL_CALL),
        segments=segments,
        busy=_busy(tree, attribution, segments, path),
        parts=_parts(path, steps, calls),
        profile=profile,
        answers=attribution.answers,
        rehearsals=Rehearsals(tree, hulls),
    )


def _settle(tree: Tree, profile: Profile | None) -> list[Run]:
    """Give the tree its steps, corrected ends, clock and first tokens; the runs in it."""
    read_steps(tree)
    runs = find_runs(tree)
    name_tools(runs)
    settle_ends(tree, runs)
    has_changed = settle_clock(tree, runs)
    settle_timing(tree, profile)
    if has_changed:
        return find_runs(tree)
    for run in runs:
        run.sort()  # ends were corrected
    return runs


def _of_kind(steps: Sequence[Node], kind: StepKind) -> list[Node]:
    return [node for node in steps if node.step is not None and node.step.kind is kind]


def _failed(call: Node) -> bool:
    return call.step is not None and call.step.is_error


# --- turns --------------------------------------------------------------------------------------


def _run_indices(
    runs: Sequence[Run], whole: PathIndex, attribution: Attribution, hulls: Hulls
) -> dict[Run, PathIndex]:
    """Each run's own walk. A run that lies on its surroundings' path in full shares theirs: the
    walk is the same.
    """
    indices: dict[Run, PathIndex] = {}
    for run in runs:
        around = indices[run.parent] if run.parent is not None else whole
        top = run.top
        if around.critical.get(top, 0) == top.duration:
            indices[run] = around
        else:
            walk = critical_path(top, hulls, top.start, top.end)
            indices[run] = PathIndex(walk, attribution, subtree(top))
    return indices


def _list_turns(runs: Sequence[Run], indices: dict[Run, PathIndex]) -> list[Turn]:
    """All turns in order of start, a run's before those nested in it."""
    depth: dict[Run, int] = {}
    turns: list[tuple[tuple[int, int, str, int], Turn]] = []
    for run in runs:
        depth[run] = 0 if run.parent is None else depth[run.parent] + 1
        for number, (start, end) in enumerate(
            zip(run.boundaries, run.boundaries[1:], strict=False)
        ):
            turn = Turn(0, run, number, start, end, indices[run].between(start, end))
            turns.append(((start, depth[run], run.top.id, number), turn))
    turns.sort(key=lambda pair: pair[0])
    for index, (_, turn) in enumerate(turns):
        turn.index = index
    return [turn for _, turn in turns]


def _by_run(turns: Sequence[Turn]) -> dict[Run, list[Turn]]:
    by_run: dict[Run, list[Turn]] = {}
    for turn in turns:
        by_run.setdefault(turn.run, []).append(turn)
    for mine in by_run.values():
        mine.sort(key=lambda turn: turn.number)
        run = mine[0].run
        for call in run.calls:
            mine[run.turn_of[call]].calls.append(call)
        for tool in run.tools:
            mine[run.turn_of[tool]].tools.append(tool)
    return by_run


def _cut_at_turns(
    path: Sequence[PathSlice], by_run: dict[Run, list[Turn]]
) -> list[tuple[PathSlice, Turn | None]]:
    """Each slice with the innermost turn open there, cut where that turn changes."""
    out: list[tuple[PathSlice, Turn | None]] = []
    for piece in path:
        run = piece.node.run
        if run is None:
            out.append((piece, None))
            continue
        turns = by_run[run]
        if len(turns) == 1:
            out.append((piece, turns[0]))
            continue
        number, start = turn_at(run, piece.start), piece.start
        while number + 1 < len(turns) and turns[number].end < piece.end:
            turn = turns[number]
            if start < turn.end:
                out.append((replace(piece, start=start, end=turn.end), turn))
                start = turn.end
            number += 1
        rest = piece if start == piece.start else replace(piece, start=start)
        out.append((rest, turns[number]))
    return out


def _place_in_turns(steps: Sequence[Node], by_run: dict[Run, list[Turn]]) -> None:
    """The turn of each step: that of the run strictly above it. None in the background and outside
    every run.

    A call or tool that is the whole request stands in its own turn; an agent that nobody called in
    none.
    """
    for node in steps:
        run = node.run
        if run is not None and run.top is node and (run.parent is not None or _is_actor(node)):
            run = run.parent
        if run is None or node.background:
            node.turn = None
        else:
            number = run.turn_of.get(node)
            node.turn = by_run[run][turn_at(run, node.start) if number is None else number]


def _is_actor(node: Node) -> bool:
    return node.step is not None and node.step.kind in ACTORS


def _nest(runs: Sequence[Run], by_run: dict[Run, list[Turn]]) -> None:
    """Tie nested runs to the turns that called them, and tell those how much of their time they
    gave away.
    """
    away: dict[Turn, list[tuple[int, int]]] = {}
    for run in runs:
        if run.parent is None:
            continue
        parents = by_run[run.parent]
        called_in = run.top.turn if run.top.step is not None else None
        caller = called_in or parents[turn_at(run.parent, run.top.start)]
        for turn in by_run[run]:
            turn.parent = caller
        for turn in parents:
            if turn.start < run.top.end and run.top.start < turn.end:
                away.setdefault(turn, []).append(
                    (max(run.top.start, turn.start), min(run.top.end, turn.end))
                )
    for turn, intervals in away.items():
        turn.delegated_ns = union_ns(intervals)


def union_ns(spans: Iterable[tuple[int, int]]) -> int:
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


# --- totals -------------------------------------------------------------------------------------


def _busy(
    tree: Tree,
    attribution: Attribution,
    critical: dict[SegmentKind, int],
    path: Sequence[tuple[PathSlice, Turn | None]],
) -> dict[SegmentKind, int]:
    """The sum of the steps' own durations: what each spent itself, without the steps below it.
    Spans are clipped to their parents as in the walk; no segment was busy for less than it was
    waited for.
    """
    seen = _clipped_to_parents(tree)
    owner, root = attribution.owner, tree.root
    below: dict[Node, list[tuple[int, int]]] = {}
    owners = [node for node in tree.nodes if owner[node] is node and not node.background]
    for node in owners:
        if node is not root:
            above = owner[node.parent] if node.parent is not None else None
            below.setdefault(above or root, []).append(seen[node])
    busy = dict.fromkeys(SEGMENTS, 0)
    for node in owners if owner[root] is root else [root, *owners]:
        start, end = seen[node]
        inside = union_ns(below[node]) if node in below else 0
        _add_busy(busy, node, end - start - inside)
    if critical[SegmentKind.WAIT]:  # an idle gap is nobody's work
        busy[SegmentKind.FRAMEWORK] -= sum(
            piece.duration
            for piece, _ in path
            if piece.segment == SegmentKind.WAIT and piece.node is root
        )
    return {segment: max(busy[segment], critical[segment]) for segment in SEGMENTS}


def _clipped_to_parents(tree: Tree) -> dict[Node, tuple[int, int]]:
    """Each span's interval as far as all spans above it contain it."""
    seen: dict[Node, tuple[int, int]] = {}
    for node in tree.nodes:
        start, end = node.start, node.end
        if node.parent is not None:
            first, last = seen[node.parent]
            if start < first or end > last:
                start = min(max(start, first), last)
                end = max(start, min(end, last))
        seen[node] = (start, end)
    return seen


def _add_busy(busy: dict[SegmentKind, int], node: Node, own_ns: int) -> None:
    kind = node.step.kind if node.step is not None and node.step.kind not in CALMER else None
    if kind == StepKind.MODEL_CALL and node.step is not None:
        prefill = own_ns if node.step.is_error else min(own_ns, node.ttft.split_ns or 0)
        busy[SegmentKind.PREFILL] += prefill
        busy[SegmentKind.DECODE] += own_ns - prefill
    elif kind in TOOL_KINDS:
        busy[SegmentKind.TOOL] += own_ns
    elif kind == StepKind.WAIT:
        busy[SegmentKind.WAIT] += own_ns
    elif kind == StepKind.QUEUE:
        busy[SegmentKind.PREFILL] += own_ns
    else:
        busy[SegmentKind.FRAMEWORK] += own_ns


def _parts(
    path: Sequence[tuple[PathSlice, Turn | None]], steps: Sequence[Node], calls: Sequence[Node]
) -> dict[SegmentKind, dict[str, int | None]]:
    """Nanoseconds of each named part. Queue, network and engine time are None where no call tells
    them.
    """
    parts: dict[SegmentKind, dict[str, int | None]] = {
        segment: dict.fromkeys(names, 0) for segment, names in PARTS.items()
    }
    told = _told_parts(steps, calls)
    for name in PARTS[SegmentKind.PREFILL]:
        if name not in told:
            parts[SegmentKind.PREFILL][name] = None
    for piece, _ in path:
        if piece.part is not None:
            parts[piece.segment][piece.part] = (
                parts[piece.segment][piece.part] or 0
            ) + piece.duration
    return parts


def _told_parts(steps: Sequence[Node], calls: Sequence[Node]) -> set[str]:
    """The parts of prefill that some call with a prefill tells."""
    told = {"queue"} if _of_kind(steps, StepKind.QUEUE) else set[str]()
    for call in calls:
        if call.ttft.split_ns is None:
            continue
        if call.facts.queue_ns is not None:
            told.add("queue")
            if call.facts.prefill_ns is not None:
                told.add("engine_other")
        if call.server is not None and call.server is not call:
            told.add("network")
    return told
