"""Budgets: what was promised, and whether one request kept it. Metrics and units: the contract,
"Budget metrics".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tracebudget.core.busy import union_ns
from tracebudget.core.record import plain_members, record
from tracebudget.core.report import Report
from tracebudget.core.run import Turn
from tracebudget.core.segment import SegmentKind
from tracebudget.core.step import StepKind
from tracebudget.core.tree import Node, subtree
from tracebudget.core.ttft import KNOWN, MIN_TPOT_TOKENS, tpot_ns

TOOL_CALL = "tool_call:"  # followed by the tool's name


@plain_members
class BudgetState(StrEnum):
    WITHIN = "within"
    OVER = "over"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit on one metric, in its unit (ns, or a count), that `objective` percent of requests
    must keep.
    """

    metric: str
    limit: int
    objective: float = 95.0


@record
class Judgement:
    """One budget against one request. `value` is None where it is unknown; `span_id` names the
    worst offender.
    """

    metric: str
    limit: int
    value: int | None
    state: BudgetState
    span_id: str | None


@record
class Measured:
    """A metric's value, whose it is, and whether every call that should have one had one."""

    value: int | None
    span_id: str | None = None
    complete: bool = True


def check_request(report: Report, budgets: Sequence[Budget]) -> list[Judgement]:
    """Judge one request by each budget, in the order of their metrics."""
    return [_judge(report, budget) for budget in sorted(budgets, key=lambda b: (b.metric, b.limit))]


def _judge(report: Report, budget: Budget) -> Judgement:
    measured = measure(report, budget.metric)
    if measured.value is not None and measured.value > budget.limit:
        state = BudgetState.OVER
    elif measured.value is None or not measured.complete:
        state = BudgetState.UNKNOWN
    else:
        state = BudgetState.WITHIN
    return Judgement(budget.metric, budget.limit, measured.value, state, measured.span_id)


def measure(report: Report, metric: str) -> Measured:
    """A metric of one request. Raises ValueError for a metric that does not exist."""
    if metric.startswith(TOOL_CALL):
        return _slowest_tool(report, metric.removeprefix(TOOL_CALL))
    if metric not in METRICS:
        raise ValueError(
            f"no such budget metric: {metric!r}; "
            f"there are {', '.join(METRICS)} and {TOOL_CALL}<name>"
        )
    return METRICS[metric](report)


def _end_to_end(report: Report) -> Measured:
    return Measured(
        report.end_to_end - report.segments[SegmentKind.WAIT], report.tree.root.id or None
    )


def _turn(report: Report) -> Measured:
    worst = max(report.turns, key=_active_ns, default=None)
    return (
        Measured(None) if worst is None else Measured(_active_ns(worst), worst.run.top.id or None)
    )


def _active_ns(turn: Turn) -> int:
    return turn.duration - turn.segments[SegmentKind.WAIT]


def known_ttft_ns(call: Node) -> int | None:
    """A TTFT that may be judged: measured or reported, never inferred."""
    return call.ttft.ns if call.ttft.source in KNOWN else None


def first_visible_ns(call: Node) -> int | None:
    """When the user saw something: the first visible chunk, else the first token."""
    return (
        call.ttft.first_visible_ns
        if call.ttft.first_visible_ns is not None
        else known_ttft_ns(call)
    )


def call_tpot_ns(call: Node) -> int | None:
    """Time per output token of a call whose first token is measured or reported."""
    if known_ttft_ns(call) is None:
        return None
    return tpot_ns(call.duration, call.ttft.split_ns, call.facts.tokens.output)


def _worst_call(report: Report, value_of: Callable[[Node], int | None]) -> Measured:
    """The worst call with a figure; incomplete if some call has none."""
    calls = report.good_calls
    known = [(value, call) for call in calls if (value := value_of(call)) is not None]
    if not known:
        return Measured(None, complete=False)
    value, call = max(known, key=lambda pair: (pair[0], pair[1].id))
    return Measured(value, call.id, complete=len(known) == len(calls))


def _tpot(report: Report) -> Measured:
    """Calls of fewer than two output tokens have no TPOT and miss none."""
    short = [
        c
        for c in report.good_calls
        if c.step
        and c.step.model
        and (c.step.model.tokens.output or MIN_TPOT_TOKENS) < MIN_TPOT_TOKENS
    ]
    worst = _worst_call(report, call_tpot_ns)
    known = sum(1 for call in report.good_calls if call_tpot_ns(call) is not None)
    return Measured(
        worst.value, worst.span_id, complete=known + len(short) == len(report.good_calls)
    )


def _tool(report: Report) -> Measured:
    return Measured(report.segments[SegmentKind.TOOL])


def framework_ns(report: Report) -> int:
    """Framework time that is somebody's overhead: less what is unattributed, less the waits between
    attempts.
    """
    parts = report.parts[SegmentKind.FRAMEWORK]
    return (
        report.segments[SegmentKind.FRAMEWORK]
        - (parts["unattributed"] or 0)
        - (parts["retry_wait"] or 0)
    )


def _framework(report: Report) -> Measured:
    return Measured(framework_ns(report))


def _turns(report: Report) -> Measured:
    """Turns of the top run."""
    top = report.runs[0]
    return Measured(len(top.turns), top.top.id or None)


def _input_tokens(report: Report) -> Measured:
    """The largest prompt."""
    return _worst_call(
        report, lambda call: call.step.model.tokens.input if call.step and call.step.model else None
    )


def _slowest_tool(report: Report, name: str) -> Measured:
    tools = [
        node
        for node in report.tools
        if node.step is not None and node.step.name == name and not node.background
    ]
    active = {tool: _active_tool_ns(tool) for tool in tools}
    worst = max(tools, key=lambda tool: (active[tool], tool.id), default=None)
    return Measured(0) if worst is None else Measured(active[worst], worst.id)


def _active_tool_ns(tool: Node) -> int:
    """Without the time in which the tool waited for a person."""
    waits = [
        (max(node.start, tool.start), min(node.end, tool.end))
        for node in subtree(tool)
        if node.step is not None and node.step.kind == StepKind.WAIT
    ]
    return tool.duration - union_ns(wait for wait in waits if wait[0] < wait[1])


METRICS: dict[str, Callable[[Report], Measured]] = {
    "end_to_end": _end_to_end,
    "turn": _turn,
    "ttft": lambda report: _worst_call(report, known_ttft_ns),
    "first_visible": lambda report: _worst_call(report, first_visible_ns),
    "tpot": _tpot,
    "tool": _tool,
    "framework": _framework,
    "turns": _turns,
    "input_tokens": _input_tokens,
}
COUNTS = frozenset({"turns", "input_tokens"})  # every other metric is in ns
