"""Doubts about the data that only the finished report shows. What was repaired on the way left its
note there.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracebudget.core.report import Report
from tracebudget.core.run import Answers, Turn
from tracebudget.core.tree import Node, Note

MS = 1_000_000
WALL_GRACE_NS, WALL_GRACE_SHARE = 5 * MS, 0.05  # reported figures are rounded
TOUCH_NS = MS  # no tool takes less, as far as a clock of milliseconds tells


def quality_notes(report: Report) -> Iterator[Note]:
    """Notes on what is missing, and on figures that contradict the wall clock."""
    calls = report.good_calls
    missing = [call.id for call in calls if _tokens_missing(call)]
    if missing:
        yield Note("tokens_missing", tuple(sorted(missing)), {"of": len(calls)})
    for call in calls:
        facts = call.facts
        if facts.tpot_ns is not None or facts.queue_ns is not None:
            yield from _exceeds_wall(call)
    yield from _untraced_tools(report)
    cut = [node.id for node in (*report.calls, *report.tools) if _is_cut(node)]
    if cut:
        yield Note("content_truncated", tuple(sorted(cut)), {})


def _is_cut(node: Node) -> bool:
    """The SDK dropped attributes of a call, or its content ends in the middle."""
    content = node.step.content if node.step is not None else None
    return content is not None and (node.span.dropped_attributes > 0 or content.is_cut)


def _untraced_tools(report: Report) -> Iterator[Note]:
    empty = [turn for turn in report.turns if not turn.tools and _is_followed(turn)]
    if not empty:
        return
    done = {tool.step.call_id for tool in report.tools if tool.step is not None}
    for turn in empty:
        ids = tuple(call.id for call in turn.calls if _asks(report.answers, call, done))
        if ids:
            yield Note("tools_not_traced", ids, {"unattributed_ns": _unattributed_ns(report, turn)})


def _unattributed_ns(report: Report, turn: Turn) -> int:
    pieces = report.path_between(turn.start, turn.end)
    return sum(p.duration for p in pieces if p.turn is turn and p.part == "unattributed")


def _is_followed(turn: Turn) -> bool:
    """There was time for a tool: some providers' answers come as several calls on end."""
    return bool(turn.calls) and turn.end - turn.calls_end >= TOUCH_NS


def _asks(answers: Answers, call: Node, done: set[str | None]) -> bool:
    """The call asked for tools, and not for some that run in the background."""
    step = call.step
    if step is None or step.is_error or not step.asks_for_tools() or answers.asked_in_vain(call):
        return False
    if answers.hands_over(step):
        return False
    return not any(r.call_id is not None and r.call_id in done for r in step.tool_requests)


def _tokens_missing(call: Node) -> bool:
    tokens = call.facts.tokens
    return not tokens.refused and (tokens.input is None or tokens.output is None)


def _exceeds_wall(call: Node) -> Iterator[Note]:
    """Reported TPOT times tokens longer than the call, or queue longer than TTFT: the wall clock
    wins.
    """
    facts, ttft = call.facts, call.ttft.ns
    output = facts.tokens.output
    if facts.tpot_ns is not None and output is not None and output > 1:
        claimed = (ttft or 0) + facts.tpot_ns * (output - 1)
        if claimed > call.duration + max(WALL_GRACE_NS, int(WALL_GRACE_SHARE * call.duration)):
            yield Note(
                "reported_exceeds_wall",
                (call.id,),
                {"reported_ns": claimed, "duration_ns": call.duration},
            )
    if facts.queue_ns is not None and ttft is not None and facts.queue_ns > ttft + WALL_GRACE_NS:
        yield Note(
            "reported_exceeds_wall", (call.id,), {"queue_ns": facts.queue_ns, "ttft_ns": ttft}
        )
