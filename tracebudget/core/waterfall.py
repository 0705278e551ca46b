"""The geometry of the waterfall: rows, depths, blocks and positions. No colours, no words.

It is made from the analysis object alone, so whoever holds that JSON can draw the same picture.

    turn 0         |=prefill=|===decode===|==tool==|           a band, and in it
      call           |=prefill=|===decode===|                  a row a step
      search_order                          |==tool==|
      framework                                      |=|       a row a kind of gap
    turn 1                                             |==...
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from operator import itemgetter
from typing import Any

from tracebudget.core.segment import IDLE_NS, SegmentKind
from tracebudget.core.step import StepKind

Document = Mapping[str, Any]
Gap = tuple[str, str | None]  # segment and part

# Share of the axis for a folded gap, wide enough to see and to point at; and for all of them.
FOLD_SHARE, FOLDS_SHARE = 0.02, 0.2
# Of the request: what background work, or a budget not used up, may add to the axis.
BEYOND_SHARE = 0.25
# Of the axis: room behind a budget's line.
LINE_SHARE = 0.02
# Of the request: a shorter gap is seen in its turn's band and has no row of its own.
GAP_SHARE = 0.005
# Turns above a slice whose bands show it: deeper nesting is drawn no further apart.
BAND_LEVELS = 8
# Labels that fit side by side on the lane of a desktop.
MAX_TICKS = 8
# Of the axis, between two labels: beside a fold they would run into each other.
TICK_SHARE = 0.06

# Parts that are told apart wherever shares are shown.
IGNORANCE = frozenset({"unsplit", "unattributed"})
CONTAINERS = frozenset({StepKind.AGENT, StepKind.WORKFLOW})
# Views of another step: no time of theirs.
VIEWS = frozenset({StepKind.SERVER_CALL, StepKind.TOOL_SERVER})
SEGMENT_OF_KIND = {
    StepKind.TOOL_CALL: SegmentKind.TOOL,
    StepKind.RETRIEVAL: SegmentKind.TOOL,
    StepKind.EMBEDDING: SegmentKind.TOOL,
    StepKind.GUARDRAIL: SegmentKind.FRAMEWORK,
    StepKind.QUEUE: SegmentKind.PREFILL,
    StepKind.WAIT: SegmentKind.WAIT,
}


class RowKind(StrEnum):
    TURN = "turn"  # a band
    RUN = "run"  # an agent at work, its turns below it
    STEP = "step"
    GAP = "gap"  # framework or waiting time of one turn, or outside every turn


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of a lane. `start` and `width` are shares of the axis.

    Without a segment it is a frame: what happens inside has rows of its own.
    """

    start: float
    width: float
    segment: SegmentKind | None
    part: str | None
    start_ns: int
    duration_ns: int


@dataclass(frozen=True, slots=True)
class Row:
    """One row, in reading order; what is inside it follows with a greater depth.

    `turn` and `step` are positions in the document's lists, `run` the span that a run's turns
    name; `segment` and `part` say what a gap is. `over_ns` is what a turn ran over its budget, None
    where it kept it or has none.
    """

    kind: RowKind
    depth: int
    start_ns: int
    duration_ns: int
    turn: int | None = None
    step: int | None = None
    run: str | None = None
    segment: SegmentKind | None = None
    part: str | None = None
    over_ns: int | None = None
    is_background: bool = False


@dataclass(frozen=True, slots=True)
class Fold:
    """Idle time that the axis leaves out."""

    start_ns: int
    end_ns: int


class Axis:
    """Maps ns from the request's start to a share of the axis, straight between folds."""

    def __init__(self, end_ns: int, folds: Sequence[Fold] = ()) -> None:
        self.end_ns = max(1, end_ns)
        self.folds = tuple(folds)
        self.moments, self.shares = _breaks(self.end_ns, self.folds)

    def at(self, ns: int) -> float:
        """The share at a moment; what lies outside the axis sits at its edge."""
        if ns <= 0:
            return 0.0
        if ns >= self.end_ns:
            return 1.0
        index = bisect_right(self.moments, ns) - 1
        before, after = self.moments[index], self.moments[index + 1]
        low, high = self.shares[index], self.shares[index + 1]
        return low + (high - low) * (ns - before) / (after - before)

    def ticks(self) -> list[int]:
        """Round moments for labels, none inside a fold."""
        folded = sum(fold.end_ns - fold.start_ns for fold in self.folds)
        step = round_step((self.end_ns - folded) / MAX_TICKS)
        ticks: list[int] = []
        for moment in self._open_moments(step):
            if not ticks or self.at(moment) - self.at(ticks[-1]) >= TICK_SHARE:
                ticks.append(moment)
        return ticks

    def _open_moments(self, step: int) -> Iterator[int]:
        at = 0
        for fold in (*self.folds, Fold(self.end_ns, self.end_ns)):
            yield from range(-(-at // step) * step, fold.start_ns, step)
            at = fold.end_ns


def _breaks(end_ns: int, folds: Sequence[Fold]) -> tuple[list[int], list[float]]:
    """Where the axis bends: at both sides of each fold."""
    folded = sum(fold.end_ns - fold.start_ns for fold in folds)
    share = min(FOLD_SHARE, FOLDS_SHARE / len(folds)) if folds else 0.0
    open_share = (1 - share * len(folds)) / max(1, end_ns - folded)
    moments, shares = [0], [0.0]
    for fold in folds:
        shares.append(shares[-1] + (fold.start_ns - moments[-1]) * open_share)
        shares.append(shares[-1] + share)
        moments += [fold.start_ns, fold.end_ns]
    return [*moments, end_ns], [*shares, 1.0]


ROUND = (1, 2, 5)
ROUND_MINUTES = (60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
SECOND_NS = 1_000_000_000


def round_step(least_ns: float) -> int:
    """The smallest round interval of at least that many ns: 1, 2, 5 by tens, then minutes."""
    power = 1
    while power <= 10 * SECOND_NS:
        for digit in ROUND:
            if least_ns <= digit * power and digit * power <= 30 * SECOND_NS:
                return digit * power
        power *= 10
    for seconds in ROUND_MINUTES:
        if least_ns <= seconds * SECOND_NS:
            return seconds * SECOND_NS
    return int(-(-least_ns // (86400 * SECOND_NS))) * 86400 * SECOND_NS


@dataclass(frozen=True, slots=True)
class Ruler:
    """The end-to-end budget on the axis. `at` is None where it lies beyond the picture."""

    limit_ns: int
    at: float | None
    over_ns: int  # negative: so much is left


def lay_out(document: Document) -> Waterfall:
    """Place everything in an analysis object."""
    return Waterfall(document)


def _axis_and_ruler(document: Document) -> tuple[Axis, Ruler | None]:
    """The axis holds the request, a little background, and a budget that is nearly used up."""
    end: int = document["end_to_end_ns"]
    most = round(end * (1 + BEYOND_SHARE))
    last = max((step["start_ns"] + step["duration_ns"] for step in document["steps"]), default=0)
    folds = _folds(document["path"])
    budget = next((b for b in document["budgets"] if b["metric"] == "end_to_end"), None)
    if budget is None or budget["value"] is None:
        return Axis(max(end, min(most, last)), folds), None
    limit, over = budget["limit"], budget["value"] - budget["limit"]
    limit_at = _moment(document["path"], limit)
    if limit_at > most:
        return Axis(max(end, min(most, last)), folds), Ruler(limit, None, over)
    room = round(limit_at * (1 + LINE_SHARE))
    axis = Axis(max(end, min(most, last), room), folds)
    return axis, Ruler(limit, axis.at(limit_at), over)


def _folds(path: Iterable[Document]) -> list[Fold]:
    """Waits longer than half a minute, neighbours joined."""
    folds: list[Fold] = []
    for piece in path:
        start, end = piece["start_ns"], piece["start_ns"] + piece["duration_ns"]
        if piece["segment"] != SegmentKind.WAIT:
            continue
        if folds and folds[-1].end_ns == start:
            start = folds.pop().start_ns
        folds.append(Fold(start, end))
    return [fold for fold in folds if fold.end_ns - fold.start_ns > IDLE_NS]


def _moment(path: Iterable[Document], limit_ns: int) -> int:
    """When so much time was used up: waiting for a person uses none."""
    waited = 0
    for piece in path:
        if piece["start_ns"] - waited >= limit_ns:
            break
        if piece["segment"] == SegmentKind.WAIT:
            waited += piece["duration_ns"]
    return limit_ns + waited


@dataclass(frozen=True, slots=True)
class _Item:
    """A row, and how to find what is inside it."""

    row: Row
    inside: Callable[[], list[_Item]]


class Waterfall:
    """A whole picture: the axis, and the rows in reading order. A row's blocks are placed when they
    are asked for: of ten thousand rows a page shows a few hundred.

    `end` is where the request ends: behind it lies background work only.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.steps, self.turns = document["steps"], document["turns"]
        self.axis, self.ruler = _axis_and_ruler(document)
        self.end = self.axis.at(document["end_to_end_ns"])
        self._runs = self._turns_by_run()
        self._runs_in = self._runs_by_turn()
        self._steps_in: defaultdict[int | None, list[int]] = defaultdict(list)
        for position, step in enumerate(self.steps):
            self._steps_in[step["turn"]].append(position)
        self._slices_of: defaultdict[str, list[Document]] = defaultdict(list)
        self._gaps_in: defaultdict[int | None, dict[Gap, list[Document]]] = defaultdict(dict)
        self._band_of: defaultdict[int, list[Document]] = defaultdict(list)
        self._sort_path()
        self.rows = tuple(self._walk())

    def blocks(self, row: Row) -> list[Block]:
        """What stands in a row's lane."""
        if row.kind == RowKind.TURN and row.turn is not None:
            return list(self._band(row.turn))
        if row.kind == RowKind.STEP and row.step is not None:
            step = self.steps[row.step]
            return list(self._step_blocks(step, self._slices(row)))
        blocks = [self._slice_block(piece) for piece in self._slices(row)]
        if row.kind == RowKind.RUN:
            blocks.insert(0, self._block(row.start_ns, row.start_ns + row.duration_ns, None))
        return blocks

    def path(self, row: Row) -> list[tuple[float, float]]:
        """The stretches (start, width) of a row that lie on the critical path; a band has none of
        its own."""
        pieces = self._slices(row)
        joined = _joined((p["start_ns"], p["start_ns"] + p["duration_ns"]) for p in pieces)
        ends = [(self.axis.at(start), self.axis.at(end)) for start, end in joined]
        return [(start, end - start) for start, end in ends]

    def _slices(self, row: Row) -> Sequence[Document]:
        """The slices of the request's path that a row shows as its own."""
        if row.kind == RowKind.GAP and row.segment is not None:
            return self._gaps_in[row.turn][row.segment.value, row.part]
        if row.kind == RowKind.RUN and row.run is not None:
            return self._slices_of.get(row.run, ())
        if row.kind == RowKind.STEP and row.step is not None:
            return self._slices_of.get(self.steps[row.step]["span_id"], ())
        return ()

    def _walk(self) -> Iterator[Row]:
        """Iterative: a hostile trace nests deeper than Python may recurse."""
        levels = [iter(self._top())]
        while levels:
            item = next(levels[-1], None)
            if item is None:
                levels.pop()
                continue
            yield item.row
            levels.append(iter(item.inside()))

    # --- indices ---------------------------------------------------------------------------------

    def _turns_by_run(self) -> dict[str, list[int]]:
        runs: dict[str, list[int]] = {}
        for index, turn in enumerate(self.turns):
            runs.setdefault(turn["agent_span_id"], []).append(index)
        return runs

    def _runs_by_turn(self) -> dict[int | None, list[str]]:
        inside: dict[int | None, list[str]] = {}
        for run, turns in self._runs.items():
            inside.setdefault(self.turns[turns[0]]["parent_turn"], []).append(run)
        return inside

    def _sort_path(self) -> None:
        """Slices by the step they belong to, by the turns whose band shows them, and the gaps."""
        drawn = {step["span_id"] for step in self.steps if _kind(step) not in CONTAINERS | VIEWS}
        for piece in self.document["path"]:
            if piece["span_id"] in drawn:
                self._slices_of[piece["span_id"]].append(piece)
            else:
                key = (piece["segment"], piece["part"])
                self._gaps_in[piece["turn"]].setdefault(key, []).append(piece)
            turn = piece["turn"]
            for _ in range(BAND_LEVELS):
                if turn is None:
                    break
                self._band_of[turn].append(piece)
                turn = self.turns[turn]["parent_turn"]

    # --- levels ----------------------------------------------------------------------------------

    def _top(self) -> list[_Item]:
        runs = self._runs_in.get(None, [])
        alone = len(runs) == 1
        items = self._turn_items(runs[0], 0) if alone else [self._run_item(r, 0) for r in runs]
        items += [self._step_item(p, 0) for p in self._steps_in[None] if self._stands_outside(p)]
        items += self._gap_items(None, 0)
        return _in_order(items)

    def _stands_outside(self, position: int) -> bool:
        """Background work, and steps outside every run; wrappers of all of it are no rows."""
        return _kind(self.steps[position]) not in CONTAINERS

    def _turn_items(self, run: str, depth: int) -> list[_Item]:
        return [self._turn_item(index, depth) for index in self._runs[run]]

    def _turn_item(self, index: int, depth: int) -> _Item:
        turn = self.turns[index]
        over = turn["duration_ns"] - turn["segments"]["wait"] - (self._turn_limit or 0)
        row = Row(
            RowKind.TURN,
            depth,
            turn["start_ns"],
            turn["duration_ns"],
            turn=index,
            run=turn["agent_span_id"],
            over_ns=over if self._turn_limit is not None and over > 0 else None,
        )
        return _Item(row, lambda: self._inside_turn(index, depth + 1))

    @cached_property
    def _turn_limit(self) -> int | None:
        return next((b["limit"] for b in self.document["budgets"] if b["metric"] == "turn"), None)

    def _inside_turn(self, index: int, depth: int) -> list[_Item]:
        """Steps, the runs that they started, and the gaps, in order of time."""
        runs = set(self._runs_in.get(index, ()))
        items = []
        for position in self._steps_in[index]:
            span_id, kind = self.steps[position]["span_id"], _kind(self.steps[position])
            if span_id in runs:
                runs.discard(span_id)
                items.append(self._run_item(span_id, depth, position))
            elif kind != StepKind.WORKFLOW:
                items.append(self._step_item(position, depth))
        items += [self._run_item(run, depth) for run in sorted(runs)]
        return _in_order(items + self._gap_items(index, depth))

    def _run_item(self, run: str, depth: int, position: int | None = None) -> _Item:
        """An agent, or a tool or workflow that works like one, with its turns inside."""
        turns = self._runs[run]
        if position is None:
            position = next(
                (p for p in self._steps_in[None] if self.steps[p]["span_id"] == run), None
            )
        first, last = self.turns[turns[0]], self.turns[turns[-1]]
        start, end = first["start_ns"], last["start_ns"] + last["duration_ns"]
        row = Row(RowKind.RUN, depth, start, end - start, turn=turns[0], step=position, run=run)
        return _Item(row, lambda: self._turn_items(run, depth + 1))

    def _step_item(self, position: int, depth: int) -> _Item:
        step = self.steps[position]
        row = Row(
            RowKind.STEP,
            depth,
            step["start_ns"],
            step["duration_ns"],
            turn=step["turn"],
            step=position,
            is_background=step["turn"] is None and not step["critical_ns"],
        )
        return _Item(row, list)

    def _gap_items(self, turn: int | None, depth: int) -> list[_Item]:
        """One row a kind of gap: the blocks stand where the gaps are."""
        least = self.document["end_to_end_ns"] * GAP_SHARE
        rows = []
        for (segment, part), pieces in self._gaps_in[turn].items():
            total = sum(map(itemgetter("duration_ns"), pieces))
            if total >= least:
                start = pieces[0]["start_ns"]
                kind = SegmentKind(segment)
                row = Row(RowKind.GAP, depth, start, total, turn=turn, segment=kind, part=part)
                rows.append(_Item(row, list))
        return rows

    # --- blocks ----------------------------------------------------------------------------------

    def _block(
        self, start: int, end: int, segment: SegmentKind | None, part: str | None = None
    ) -> Block:
        at = self.axis.at(start)
        return Block(at, self.axis.at(end) - at, segment, part, start, end - start)

    def _slice_block(self, piece: Document) -> Block:
        start = piece["start_ns"]
        segment = SegmentKind(piece["segment"])
        return self._block(start, start + piece["duration_ns"], segment, piece["part"])

    def _band(self, index: int) -> Iterator[Block]:
        """The request's path through the turn; its steps where the request did not wait for it."""
        pieces = self._band_of.get(index)
        if pieces:
            yield from self._coarse(pieces)
            return
        for position in self._steps_in[index]:
            blocks = self._step_blocks(self.steps[position], ())
            yield from (block for block in blocks if block.segment is not None)

    def _coarse(self, pieces: Iterable[Document]) -> Iterator[Block]:
        """Neighbours of one meaning as one block; only ignorance keeps its part."""
        start = end = 0
        meaning: tuple[SegmentKind, str | None] | None = None
        for piece in pieces:
            part = piece["part"] if piece["part"] in IGNORANCE else None
            now = (SegmentKind(piece["segment"]), part)
            if now != meaning or piece["start_ns"] != end:
                if meaning is not None:
                    yield self._block(start, end, *meaning)
                start, meaning = piece["start_ns"], now
            end = piece["start_ns"] + piece["duration_ns"]
        if meaning is not None:
            yield self._block(start, end, *meaning)

    def _step_blocks(self, step: Document, slices: Sequence[Document]) -> Iterator[Block]:
        kind = _kind(step)
        start, end = step["start_ns"], step["start_ns"] + step["duration_ns"]
        if kind == StepKind.MODEL_CALL:
            yield from self._call_blocks(step, slices)
        elif kind in CONTAINERS | VIEWS:
            yield self._block(start, end, None)
        elif step["critical_ns"] > sum(map(itemgetter("duration_ns"), slices)) > 0:
            yield self._block(start, end, None)  # part of its time belongs to steps below it
            yield from map(self._slice_block, slices)
        else:
            part = "queue" if kind == StepKind.QUEUE else None
            yield self._block(start, end, SEGMENT_OF_KIND[kind], part)

    def _call_blocks(self, step: Document, slices: Sequence[Document]) -> Iterator[Block]:
        """Prefill with its named parts, then decode; or the whole, hatched, where nothing tells."""
        start, end = step["start_ns"], step["start_ns"] + step["duration_ns"]
        split = _split_ns(step, slices)
        if split is None:
            failed = step["status"] == "error"
            segment = SegmentKind.PREFILL if failed else SegmentKind.DECODE
            yield self._block(start, end, segment, None if failed else "unsplit")
            return
        yield self._block(start, start + split, SegmentKind.PREFILL)
        for begin, until, part in _prefill_parts(step, slices, split):
            yield self._block(begin, until, SegmentKind.PREFILL, part)
        if start + split < end:
            yield self._block(start + split, end, SegmentKind.DECODE)


def _kind(step: Document) -> StepKind:
    return StepKind(step["kind"])


def _in_order(items: list[_Item]) -> list[_Item]:
    return sorted(items, key=lambda item: item.row.start_ns)


def _split_ns(step: Document, slices: Sequence[Document]) -> int | None:
    """Where prefill ends, from the call's start. On the path it is where decode begins there:
    attempts hidden inside the span are prefill too, and TTFT does not count them."""
    decode = [s["start_ns"] for s in slices if s["segment"] == "decode" and s["part"] is None]
    if decode and any(s["segment"] == "prefill" for s in slices):
        return int(decode[0] - step["start_ns"])
    ttft: int | None = step["ttft_ns"]
    return None if ttft is None else min(ttft, step["duration_ns"])


def _prefill_parts(
    step: Document, slices: Sequence[Document], split: int
) -> Iterator[tuple[int, int, str]]:
    named = [s for s in slices if s["segment"] == "prefill" and s["part"] is not None]
    for piece in named:
        yield piece["start_ns"], piece["start_ns"] + piece["duration_ns"], piece["part"]
    if not slices and step["queue_ns"]:
        yield step["start_ns"], step["start_ns"] + min(step["queue_ns"], split), "queue"


def _joined(stretches: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches in order of time, those that touch as one."""
    out: list[tuple[int, int]] = []
    for start, end in stretches:
        if out and out[-1][1] == start:
            out[-1] = (out[-1][0], end)
        else:
            out.append((start, end))
    return out
