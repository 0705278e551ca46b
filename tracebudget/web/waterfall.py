"""The waterfall as a page draws it: the core's geometry with names, classes and addresses.

Rows come in blocks. The page holds the blocks that are looked at first; a browser asks for the
others as they come near, and without JavaScript they are links.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tracebudget.core.axis import Axis, Fold
from tracebudget.core.waterfall import Block, Row, RowKind, Waterfall, lay_out
from tracebudget.wording import KINDS, PARTS, SEGMENTS

Document = Mapping[str, Any]

BLOCK_ROWS = 100  # 50 ms to write, and three screens: what is scrolled to is there in time
FIRST_BLOCKS = 2  # on the page from the start
DEEPEST = 8  # levels told apart by indentation: more would leave no room for names
HATCHED = frozenset({"queue", "network", "unsplit", "unattributed", "retry_wait"})
HAIR = 0.001  # of the axis: thinner blocks are drawn with an edge, or nobody would see them
LAST_SHARE = 0.06  # of the axis, at its right end: less than a label needs
LABEL_RIGHT, LABEL_LEFT = 0.6, 0.4  # a label has room behind a bar that ends before, or before one


@dataclass(frozen=True, slots=True)
class Bar:
    """A block as SVG attributes: percentages of the lane, classes, and a pattern if it has one."""

    x: str
    width: str
    css: str
    fill: str


@dataclass(frozen=True, slots=True)
class Label:
    """Where the words beside a bar go."""

    x: str
    css: str


@dataclass(frozen=True, slots=True)
class Line:
    """One row with everything that its template prints."""

    row: Row
    id: str
    css: str
    name: str
    bars: list[Bar]
    path: list[Bar]
    label: Label | None
    turn: Document | None
    step: Document | None


@dataclass(frozen=True, slots=True)
class Tick:
    """A label of the axis. `is_last`: there is no room for it behind its line."""

    x: str
    ns: int
    is_last: bool


@dataclass(frozen=True, slots=True)
class DrawnFold:
    x: str
    width: str
    ns: int


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Rows `first` to `last`, counted from 0. `lines` is None where they are not on the page."""

    first: int
    last: int
    lines: list[Line] | None

    @property
    def count(self) -> int:
        return self.last - self.first + 1


class Picture:
    """One request's waterfall, ready to be written."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.waterfall: Waterfall = lay_out(document)

    @cached_property
    def hits(self) -> dict[str, list[str]]:
        """For each span the codes of the findings that point at it."""
        hits: dict[str, list[str]] = {}
        for finding in self.document["findings"]:
            for span_id in finding["span_ids"]:
                hits.setdefault(span_id, []).append(finding["code"])
        return hits

    @property
    def axis_json(self) -> str:
        """What the script needs to label the axis when it is zoomed."""
        axis = self.waterfall.axis
        return json.dumps({"moments": axis.moments, "shares": axis.shares})

    @property
    def ticks(self) -> list[Tick]:
        axis = self.waterfall.axis
        return [drawn_tick(ns, axis.at(ns)) for ns in axis.ticks()]

    @property
    def folds(self) -> list[DrawnFold]:
        return [drawn_fold(fold, self.waterfall.axis) for fold in self.waterfall.axis.folds]

    @property
    def end(self) -> str | None:
        """Where the request ends, if something is drawn behind it."""
        return percent(self.waterfall.end) if self.waterfall.end < 1 else None

    @property
    def limit(self) -> str | None:
        """Where the budget ends."""
        ruler = self.waterfall.ruler
        return percent(ruler.at) if ruler is not None and ruler.at is not None else None

    @property
    def past(self) -> Bar | None:
        """What runs past the budget."""
        ruler = self.waterfall.ruler
        if ruler is None or ruler.at is None or ruler.over_ns <= 0:
            return None
        return Bar(percent(ruler.at), percent(max(0.0, self.waterfall.end - ruler.at)), "past", "")

    def blocks(self, *, start: int = 0) -> list[RowBlock]:
        """All blocks, those from the row `start` on with their lines."""
        total = len(self.waterfall.rows)
        wanted = start // BLOCK_ROWS
        return [
            self.block(first, loaded=wanted <= first // BLOCK_ROWS < wanted + FIRST_BLOCKS)
            for first in range(0, total, BLOCK_ROWS)
        ]

    def block(self, first: int, *, loaded: bool = True) -> RowBlock:
        rows = self.waterfall.rows[first : first + BLOCK_ROWS]
        lines = [self._line(row) for row in rows] if loaded else None
        return RowBlock(first, first + len(rows) - 1, lines)

    def row_of(self, span_id: str) -> int | None:
        """The row that shows a span."""
        steps = self.document["steps"]
        for index, row in enumerate(self.waterfall.rows):
            if row.step is not None and steps[row.step]["span_id"] == span_id:
                return index
        return None

    def _line(self, row: Row) -> Line:
        step = self.document["steps"][row.step] if row.step is not None else None
        turn = self.document["turns"][row.turn] if row.turn is not None else None
        blocks, path = self.waterfall.blocks(row), self.waterfall.path(row)
        return Line(
            row=row,
            id=_id(row, step),
            css=self._css(row, step, is_critical=bool(path)),
            name=_name(row, step, turn),
            bars=[_bar(block) for block in blocks],
            path=[Bar(percent(start), percent(width), "on-path", "") for start, width in path],
            label=_label(blocks) if step is not None else None,
            turn=turn,
            step=step,
        )

    def _css(self, row: Row, step: Document | None, *, is_critical: bool) -> str:
        words = [row.kind.value, f"depth-{min(row.depth, DEEPEST)}"]
        if step is not None:
            words.append(step["kind"])
            words += ["failed"] if step["status"] == "error" else []
            words += ["found"] if step["span_id"] in self.hits else []
        words += ["critical"] if is_critical else []
        words += ["background"] if row.is_background else []
        words += ["parent"] if row.has_inside else []
        words += ["over"] if row.over_ns is not None else []
        return " ".join(words)


def percent(share: float) -> str:
    """A share as an SVG length."""
    return f"{share * 100:.4f}".rstrip("0").rstrip(".") + "%"


def drawn_tick(ns: int, share: float) -> Tick:
    """A label at a share of the axis."""
    return Tick(percent(share), ns, is_last=share > 1 - LAST_SHARE)


def drawn_fold(fold: Fold, axis: Axis) -> DrawnFold:
    """What an axis leaves out, where it leaves it out."""
    start, end = axis.at(fold.start_ns), axis.at(fold.end_ns)
    return DrawnFold(percent(start), percent(end - start), fold.end_ns - fold.start_ns)


def _id(row: Row, step: Document | None) -> str:
    if row.kind == RowKind.TURN:
        return f"turn-{row.turn}"
    if step is not None:
        return f"step-{step['span_id']}"
    if row.kind == RowKind.RUN:
        return f"run-{row.run}"
    return f"gap-{row.start_ns}"


def _name(row: Row, step: Document | None, turn: Document | None) -> str:
    """The step's or agent's own name; what kind of gap it is."""
    if step is not None:
        return str(step["name"]) or str(KINDS[step["kind"]])
    if row.kind == RowKind.GAP and row.segment is not None:
        return row.name or str(PARTS[row.part] if row.part is not None else SEGMENTS[row.segment])
    return str(turn["agent"]) if turn is not None else ""


def _bar(block: Block) -> Bar:
    css = "frame" if block.segment is None else f"seg {block.segment.value}"
    if block.part is not None:
        css += f" part-{block.part}"
    if block.width < HAIR:
        css += " hair"
    fill = f"url(#hatch-{block.part})" if block.part in HATCHED else ""
    return Bar(percent(block.start), percent(block.width), css, fill)


def _label(blocks: Sequence[Block]) -> Label:
    """Behind the bar, before it, or on it: where there is room."""
    start = min(block.start for block in blocks)
    end = max(block.start + block.width for block in blocks)
    is_hatched = any(block.part in HATCHED for block in blocks)
    if end <= LABEL_RIGHT:
        return Label(percent(end), "behind")
    if start >= LABEL_LEFT:
        return Label(percent(start), "before")
    return Label(percent(start), "inside hatched" if is_hatched else "inside")
