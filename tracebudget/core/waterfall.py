"""The geometry of the waterfall: rows, depths, blocks and positions. No colours, no words.

It is made from the analysis object alone, so whoever holds that JSON can draw the same picture.

    turn 0         |=prefill=|===decode===|==tool==|           a band, and in it
      call           |=prefill=|===decode===|                  a row a step
      ask_expert                            |==tool==|
        expert                               |-----|           below what it lies in, its turns
          turn 0                             |=...             below it
      framework                                      |=|       a row a kind of gap
    turn 1                                             |==...
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from operator import itemgetter
from typing import Any

from tracebudget.core.axis import axis_and_ruler
from tracebudget.core.segment import SegmentKind
from tracebudget.core.step import StepKind

Document = Mapping[str, Any]
Gap = tuple[str, str | None, str | None]  # segment, part, and what I/O is called

# Of the request: a shorter gap is seen in its turn's band and has no row of its own.
GAP_SHARE = 0.005
# Turns above a slice whose bands show it: deeper nesting is drawn no further apart.
BAND_LEVELS = 8

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
    name; `segment`, `part` and, of I/O, `name` say what a gap is. `over_ns` is what a turn ran over
    its budget, None where it kept it or has none. `has_inside` tells whether rows follow that are
    inside it.
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
    name: str | None = None
    over_ns: int | None = None
    is_background: bool = False
    has_inside: bool = False


def lay_out(document: Document) -> Waterfall:
    """Place everything in an analysis object."""
    return Waterfall(document)


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
        self.axis, self.ruler = axis_and_ruler(document)
        self.end = self.axis.at(document["end_to_end_ns"])
        self._runs = self._turns_by_run()
        self._runs_in = self._runs_by_turn()
        self._background = frozenset(document["background_steps"])
        self._step_of_run = self._steps_by_run()
        self._steps_of: defaultdict[int | None, list[int]] = defaultdict(list)
        self._rows_in: defaultdict[int | None, list[int]] = defaultdict(list)
        self._rows_below: defaultdict[int, list[int]] = defaultdict(list)
        self._sort_steps()
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
            return self._blocks_of_step(row.step, row)
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
            return self._gaps_in[row.turn][row.segment.value, row.part, row.name]
        if row.kind == RowKind.RUN and row.run is not None:
            return self._slices_of.get(row.run, ())
        if row.kind == RowKind.STEP and row.step is not None:
            return self._slices_of.get(self.steps[row.step]["span_id"], ())
        return ()

    def _walk(self) -> Iterator[Row]:
        """Iterative: a hostile trace nests deeper than Python may recurse."""
        levels = [iter(self._inside_turn(None, 0))]
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

    def _steps_by_run(self) -> dict[str, int]:
        """For each run the step that it is the inside of, if there is one where it was called."""
        found: dict[str, int] = {}
        for position, step in enumerate(self.steps):
            turns = self._runs.get(step["span_id"])
            if turns and self.turns[turns[0]]["parent_turn"] == step["turn"]:
                found.setdefault(step["span_id"], position)
        return found

    def _sort_steps(self) -> None:
        """Steps by their turn; those with a row by the row above: that of the nearest step that
        they lie in, if it is of the same turn, else the turn's own.
        """
        above: list[int | None] = list(self.document["step_parents"])
        for position, step in enumerate(self.steps):
            self._steps_of[step["turn"]].append(position)
            if not self._has_row(position):
                continue
            holder = self._holder(position, above)
            if holder is None or self.steps[holder]["turn"] != step["turn"]:
                self._rows_in[step["turn"]].append(position)
            else:
                self._rows_below[holder].append(position)

    def _holder(self, position: int, above: list[int | None]) -> int | None:
        """The nearest step above that has a row. Those passed on the way are bridged in `above`: a
        thousand wrappers in each other are climbed once.
        """
        passed = []
        holder = above[position]
        while holder is not None and not self._has_row(holder):
            passed.append(holder)
            holder = above[holder]
        for wrapper in passed:
            above[wrapper] = holder
        return holder

    def _has_row(self, position: int) -> bool:
        """Not wrappers: workflows that are no run, and what holds all of the request."""
        step = self.steps[position]
        kind = _kind(step)
        if step["turn"] is None:
            return kind not in CONTAINERS or position in self._background
        return kind != StepKind.WORKFLOW or self._is_run(position)

    def _is_run(self, position: int) -> bool:
        return self._step_of_run.get(self.steps[position]["span_id"]) == position

    def _sort_path(self) -> None:
        """Slices by the step they belong to, by the turns whose band shows them, and the gaps."""
        drawn = {step["span_id"] for step in self.steps if _kind(step) not in CONTAINERS | VIEWS}
        names = self.document["io_names"]
        for piece in self.document["path"]:
            if piece["span_id"] in drawn:
                self._slices_of[piece["span_id"]].append(piece)
            else:
                name = names.get(piece["span_id"]) if piece["part"] == "io" else None
                key = (piece["segment"], piece["part"], name)
                self._gaps_in[piece["turn"]].setdefault(key, []).append(piece)
            turn = piece["turn"]
            for _ in range(BAND_LEVELS):
                if turn is None:
                    break
                self._band_of[turn].append(piece)
                turn = self.turns[turn]["parent_turn"]
        for gaps in self._gaps_in.values():
            self._pool_short_io(gaps)

    def _pool_short_io(self, gaps: dict[Gap, list[Document]]) -> None:
        """I/O that is too short for a row of its own shares one without a name."""
        short = [
            key for key, pieces in gaps.items() if key[2] is not None and self._is_short(pieces)
        ]
        for segment, part, name in short:
            shared = gaps.setdefault((segment, part, None), [])
            shared += gaps.pop((segment, part, name))
            shared.sort(key=itemgetter("start_ns"))

    def _is_short(self, pieces: Iterable[Document]) -> bool:
        total: int = sum(map(itemgetter("duration_ns"), pieces))
        return bool(total < self.document["end_to_end_ns"] * GAP_SHARE)

    # --- levels ----------------------------------------------------------------------------------

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
            has_inside=True,
        )
        return _Item(row, lambda: self._inside_turn(index, depth + 1))

    @cached_property
    def _turn_limit(self) -> int | None:
        return next((b["limit"] for b in self.document["budgets"] if b["metric"] == "turn"), None)

    def _inside_turn(self, turn: int | None, depth: int) -> list[_Item]:
        """What stands in a turn, or (None) in the request: steps, runs without a step there, and
        gaps, in order of time. The turns of the request's only run need no row above them.
        """
        items = [self._row_item(position, depth) for position in self._rows_in[turn]]
        runs = self._runs_in.get(turn, [])
        stray = [run for run in runs if not self._stands_in_a_row(run)]
        if turn is None and stray and len(runs) == 1:
            items += self._turn_items(stray[0], depth)
        else:
            items += [self._run_item(run, depth, self._step_of_run.get(run)) for run in stray]
        return _in_order(items + self._gap_items(turn, depth))

    def _stands_in_a_row(self, run: str) -> bool:
        position = self._step_of_run.get(run)
        return position is not None and self._has_row(position)

    def _row_item(self, position: int, depth: int) -> _Item:
        """A step with what lies in it; a run with its turns."""
        if self._is_run(position):
            return self._run_item(self.steps[position]["span_id"], depth, position)
        return self._step_item(position, depth)

    def _run_item(self, run: str, depth: int, position: int | None) -> _Item:
        """An agent, or a tool or workflow that works like one, with its turns inside."""
        turns = self._runs[run]
        first, last = self.turns[turns[0]], self.turns[turns[-1]]
        start, end = first["start_ns"], last["start_ns"] + last["duration_ns"]
        row = Row(
            RowKind.RUN,
            depth,
            start,
            end - start,
            turn=turns[0],
            step=position,
            run=run,
            has_inside=True,
        )
        return _Item(
            row,
            lambda: _in_order(self._turn_items(run, depth + 1) + self._below(position, depth + 1)),
        )

    def _step_item(self, position: int, depth: int) -> _Item:
        step = self.steps[position]
        row = Row(
            RowKind.STEP,
            depth,
            step["start_ns"],
            step["duration_ns"],
            turn=step["turn"],
            step=position,
            is_background=position in self._background,
            has_inside=position in self._rows_below,
        )
        return _Item(row, lambda: self._below(position, depth + 1))

    def _below(self, position: int | None, depth: int) -> list[_Item]:
        rows = self._rows_below.get(position, ()) if position is not None else ()
        return [self._row_item(below, depth) for below in rows]

    def _gap_items(self, turn: int | None, depth: int) -> list[_Item]:
        """One row a kind of gap, one a name of I/O: the blocks stand where the gaps are."""
        rows = []
        for (segment, part, name), pieces in self._gaps_in[turn].items():
            if self._is_short(pieces):
                continue
            row = Row(
                RowKind.GAP,
                depth,
                pieces[0]["start_ns"],
                sum(map(itemgetter("duration_ns"), pieces)),
                turn=turn,
                segment=SegmentKind(segment),
                part=part,
                name=name,
            )
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
        for position in self._steps_of[index]:
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

    def _blocks_of_step(self, position: int, row: Row) -> list[Block]:
        """What works through others is a frame around them, with its own time in it."""
        step, slices = self.steps[position], self._slices(row)
        below = {_kind(self.steps[other]) for other in self._rows_below.get(position, ())}
        if below <= VIEWS or _kind(step) == StepKind.MODEL_CALL:
            return list(self._step_blocks(step, slices))
        frame = self._block(row.start_ns, row.start_ns + row.duration_ns, None)
        return [frame, *map(self._slice_block, slices)]

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
