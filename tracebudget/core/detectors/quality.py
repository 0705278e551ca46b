"""Doubts about the data that only the finished report shows. What was repaired on the way left its
note there.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracebudget.core.budget import judged_calls
from tracebudget.core.report import Report
from tracebudget.core.tree import Node, Note

MS = 1_000_000
WALL_GRACE_NS, WALL_GRACE_SHARE = 5 * MS, 0.05  # reported figures are rounded


def quality_notes(report: Report) -> Iterator[Note]:
    """Notes on what is missing, and on figures that contradict the wall clock."""
    calls = judged_calls(report)
    missing = tuple(sorted(call.id for call in calls if _tokens_missing(call)))
    if missing:
        yield Note("tokens_missing", missing, {"of": len(calls)})
    for call in calls:
        yield from _exceeds_wall(call)
    for turn in report.turns:
        asking = [
            c
            for c in turn.calls
            if c.step is not None and not c.step.is_error and c.step.asks_for_tools()
        ]
        if asking and not turn.tools:
            untraced = sum(
                p.duration for p, t in report.path if t is turn and p.part == "unattributed"
            )
            yield Note(
                "tools_not_traced", tuple(call.id for call in asking), {"unattributed_ns": untraced}
            )


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
