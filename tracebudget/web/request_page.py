"""What the request page says, made from the analysis object alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tracebudget.core.budget import METRICS
from tracebudget.core.waterfall import Block, Row, RowKind
from tracebudget.web.figures import Figure, Share, shares, told_apart, turns_figure
from tracebudget.web.waterfall import Picture
from tracebudget.wording import Sentence, Verdict, explain, triage_facts, verdict

Document = Mapping[str, Any]

TABLE_ROWS = 100  # of the tables of turns and of steps; the rest is a link away
CHART_TURNS = 200  # bars that can still be told apart on a wide screen
MAX_FOUND = 8  # findings of one step of the investigation, those that save the most

# Metrics that are figures of single calls: coverage is said beside them.
OF_CALLS = {"ttft": "ttft_ns", "first_visible": "ttft_ns", "tpot": "tpot_ns"}


@dataclass(frozen=True, slots=True)
class TurnLine:
    """A row of the turns table."""

    turn: Document
    calls: list[Document]
    shares: list[Share]
    over_ns: int | None

    @property
    def first_call(self) -> Document | None:
        """The call whose first token the user waited for: the last attempt of the first."""
        answered = [call for call in self.calls if call["status"] == "ok"]
        return next(iter(answered or self.calls), None)

    @property
    def input_tokens(self) -> int | None:
        return self.first_call["input_tokens"] if self.first_call is not None else None

    @property
    def output_tokens(self) -> int | None:
        known = [c["output_tokens"] for c in self.calls if c["output_tokens"] is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """A budget against this request. `call` is the model call that its value is a figure of."""

    budget: Document
    call: Document | None
    known: int
    calls: int

    @property
    def used(self) -> str:
        """How much of the limit was used, as an SVG width."""
        value = self.budget["value"]
        return "0%" if value is None else f"{min(100, 100 * value / self.budget['limit']):.1f}%"

    @property
    def is_partly_known(self) -> bool:
        return self.known < self.calls


@dataclass(frozen=True, slots=True)
class FoundLine:
    """A finding with its words and the steps that it points at."""

    finding: Document
    words: Sentence
    steps: list[Document]


@dataclass(frozen=True, slots=True)
class TriageLine:
    """One of the six steps of the investigation."""

    step: int
    state: str
    why: str | None
    facts: str
    count: int
    found: list[FoundLine]  # the first of them

    @property
    def more(self) -> int:
        return self.count - len(self.found)


class RequestPage:
    """One analysis object, taken apart for the template."""

    def __init__(self, document: Document) -> None:
        self.document = document

    @cached_property
    def picture(self) -> Picture:
        return Picture(self.document)

    @cached_property
    def verdict(self) -> Verdict:
        return verdict(self.document)

    @cached_property
    def shares(self) -> list[Share]:
        segments = self.document["segments"]
        return shares(
            told_apart(
                {name: segment["critical_ns"] for name, segment in segments.items()}
                | {
                    "unsplit": segments["decode"]["parts"]["unsplit"],
                    "unattributed": segments["framework"]["parts"]["unattributed"],
                }
            )
        )

    @property
    def limit_at(self) -> str | None:
        """Where the end-to-end budget ends on the strip, which is as long as the request."""
        total, waited = self.document["end_to_end_ns"], self.document["segments"]["wait"]
        ruler = self.picture.waterfall.ruler
        if ruler is None or not 0 < ruler.limit_ns + waited["critical_ns"] < total:
            return None
        return f"{100 * ruler.limit_ns / total:.2f}%"

    @property
    def limit_side(self) -> str:
        """On which side of its line the budget's label has room: before it or after it."""
        ruler = self.picture.waterfall.ruler
        is_late = ruler is not None and 2 * ruler.limit_ns > self.document["end_to_end_ns"]
        return "before" if is_late else "after"

    def turns(self, start: int, count: int) -> list[TurnLine]:
        """Rows of the turns table."""
        wanted = range(start, min(start + count, len(self.document["turns"])))
        return [self._turn_line(index) for index in wanted]

    def _turn_line(self, index: int) -> TurnLine:
        turn, band = self.document["turns"][index], self._bands[index]
        blocks = self.picture.waterfall.blocks(band)
        parts = {part: _part_ns(blocks, part) for part in ("unsplit", "unattributed")}
        told = told_apart({**turn["segments"], **parts})
        return TurnLine(turn, self._calls_in.get(index, []), shares(told), band.over_ns)

    @cached_property
    def _bands(self) -> dict[int | None, Row]:
        rows = self.picture.waterfall.rows
        return {row.turn: row for row in rows if row.kind == RowKind.TURN}

    @cached_property
    def _calls_in(self) -> dict[int | None, list[Document]]:
        calls: dict[int | None, list[Document]] = {}
        for step in self.document["steps"]:
            if step["kind"] == "model_call":
                calls.setdefault(step["turn"], []).append(step)
        return calls

    @property
    def turns_figure(self) -> Figure:
        lines = self.turns(0, CHART_TURNS)
        return turns_figure(
            [{share.code: share.ns for share in line.shares} for line in lines],
            [str(line.turn["index"]) for line in lines],
        )

    @cached_property
    def ledger(self) -> list[LedgerLine]:
        """The budgets of this request in the order of the contract's table."""
        order = {metric: place for place, metric in enumerate(METRICS)}
        budgets = sorted(
            self.document["budgets"],
            key=lambda b: (order.get(b["metric"], len(order)), b["metric"]),
        )
        return [self._ledger_line(budget) for budget in budgets]

    def _ledger_line(self, budget: Document) -> LedgerLine:
        column = OF_CALLS.get(budget["metric"])
        if column is None:
            return LedgerLine(budget, None, 0, 0)
        calls = [c for c in self._answered if column == "ttft_ns" or _has_tpot(c)]
        known = sum(1 for c in calls if c[column] is not None and _is_observed(c))
        call = next((c for c in calls if c["span_id"] == budget["span_id"]), None)
        return LedgerLine(budget, call, known, len(calls))

    @cached_property
    def _answered(self) -> list[Document]:
        """Model calls that budgets are about."""
        return [
            step
            for step in self.document["steps"]
            if step["kind"] == "model_call" and step["status"] == "ok" and step["turn"] is not None
        ]

    @cached_property
    def triage(self) -> list[TriageLine]:
        return [self._triage_line(step) for step in self.document["triage"]]

    def _triage_line(self, step: Document) -> TriageLine:
        mine = [f for f in self.document["findings"] if f["step"] == step["step"]]
        return TriageLine(
            step=step["step"],
            state=step["state"],
            why=step["why"],
            facts=triage_facts(step["step"], self.document),
            count=len(mine),
            found=[self._found(finding) for finding in mine[:MAX_FOUND]],
        )

    @cached_property
    def quality(self) -> list[FoundLine]:
        """Doubts about the data, apart from the diagnosis."""
        notes = [f for f in self.document["findings"] if f["kind"] == "data_quality"]
        return [self._found(note) for note in notes]

    def found_at(self, span_id: str) -> list[FoundLine]:
        """The findings that point at a span."""
        mine = [f for f in self.document["findings"] if span_id in f["span_ids"]]
        return [self._found(finding) for finding in mine]

    def _found(self, finding: Document) -> FoundLine:
        steps = [self._by_id[i] for i in finding["span_ids"] if i in self._by_id]
        return FoundLine(finding, explain(finding), steps)

    @cached_property
    def _by_id(self) -> dict[str, Document]:
        return {step["span_id"]: step for step in self.document["steps"]}

    def step(self, span_id: str) -> Document | None:
        return self._by_id.get(span_id)

    @property
    def counts(self) -> dict[str, int]:
        """How many of what: for the heading of the waterfall."""
        kinds = [step["kind"] for step in self.document["steps"]]
        return {
            "turns": len(self.document["turns"]),
            "calls": kinds.count("model_call"),
            "tools": kinds.count("tool_call"),
        }


def _part_ns(blocks: Iterable[Block], part: str) -> int:
    return sum(block.duration_ns for block in blocks if block.part == part)


def _is_observed(call: Document) -> bool:
    return call["ttft_source"] in {"measured", "reported"}


def _has_tpot(call: Document) -> bool:
    """A call of fewer than two output tokens has no time per token, and misses none."""
    tokens = call["output_tokens"]
    return tokens is None or tokens > 1


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a long table; where the one before it and the one behind it begin."""

    rows: Sequence[Any]
    before: int | None
    behind: int | None


def part_of(rows: Sequence[Any], start: int, total: int) -> Part:
    """`rows` begin at `start`, of `total`."""
    behind = start + TABLE_ROWS
    return Part(
        rows,
        before=max(0, start - TABLE_ROWS) if start > 0 else None,
        behind=behind if behind < total else None,
    )
