"""What is known of a run's own time: waits between attempts, and gaps in which something ran that
no span shows.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from operator import attrgetter

from tracebudget.core.record import record
from tracebudget.core.run import Answers, Run, Turn
from tracebudget.core.step import Step
from tracebudget.core.tree import Node

WORTH_NS = 20_000_000  # in a shorter gap after a tool no other one was lost
# 5,000 tokens a second: a span that is shorter holds only the end of its call.
MIN_CALL_NS_PER_TOKEN = 200_000


@record
class Mark:
    """A stretch of time that has a name: the part of a segment."""

    start: int
    end: int
    part: str


def cut_by(marks: Sequence[Mark], start: int, end: int) -> Iterable[tuple[int, int, str | None]]:
    """[start, end) cut at the marks (sorted, not overlapping): each piece with its mark's name, or
    None.
    """
    if not marks:
        return ((start, end, None),)
    pieces: list[tuple[int, int, str | None]] = []
    at = start
    for mark in marks[bisect_right(marks, start, key=_mark_end) :]:
        if mark.start >= end:
            break
        if at < mark.start:
            pieces.append((at, mark.start, None))
            at = mark.start
        until = min(mark.end, end)
        if at < until:
            pieces.append((at, until, mark.part))
            at = until
    if at < end:
        pieces.append((at, end, None))
    return pieces


_mark_end = attrgetter("end")


def marks_of(run: Run, answers: Answers) -> Iterator[Mark]:
    """The marks `retry_wait` and `unattributed` of a run, in order and apart."""
    work_end = run.top.start
    impossible = {call for call in run.calls if _is_impossible(call)}
    for turn in run.turns:
        marks = list(_before_calls(turn, impossible, work_end)) if impossible else []
        if turn.calls[1:]:
            marks += _retry_waits(turn.calls)
        end = turn.calls_end if turn.calls_end > turn.tools_end else turn.tools_end
        if run.calls and _is_missing(turn, turn.end - end, answers):
            marks.append(Mark(end, turn.end, "unattributed"))
        if marks:
            yield from _apart(marks)
        work_end = end if end > work_end else work_end


def _before_calls(turn: Turn, impossible: AbstractSet[Node], work_end: int) -> Iterator[Mark]:
    """A span too short for its tokens holds only the end of its call: the rest lies before it."""
    for call in turn.calls:
        if call in impossible:
            work = (*turn.calls, *turn.tools)
            ends = (node.end for node in work if node is not call and node.end <= call.start)
            yield Mark(max([work_end, *ends]), call.start, "unattributed")


def _is_impossible(call: Node) -> bool:
    output = call.facts.tokens.output
    return (
        output is not None and output > 1 and call.duration < MIN_CALL_NS_PER_TOKEN * (output - 1)
    )


def _retry_waits(calls: Sequence[Node]) -> Iterator[Mark]:
    for earlier, later in itertools.pairwise(calls):
        if later.attempt > earlier.attempt and earlier.end < later.start:
            yield Mark(earlier.end, later.start, "retry_wait")


def _is_missing(turn: Turn, gap_ns: int, answers: Answers) -> bool:
    """Tools or a call are missing in the gap behind a turn's last call and tool."""
    if turn.is_last and turn.tools_end > turn.calls_end:
        return True  # the call that read the tools' results was lost, or there was none
    if not turn.calls or gap_ns <= 0 or (turn.tools and gap_ns < WORTH_NS):
        return False
    return _tools_missing(turn, answers)


def _tools_missing(turn: Turn, answers: Answers) -> bool:
    """The turn's answer asked for tools and no span shows them, or fewer than it asked for; a
    hand-over is shown by the other agent's run. Where nothing tells what it asked for, the model
    being called again does: something was done in between.
    """
    asked: list[Step] = []
    is_told = True
    for call in turn.calls:
        step = call.step
        asks = step is not None and not step.is_error and step.asks_for_tools()
        if step is None or asks is False or answers.asked_in_vain(call):
            continue
        is_told &= asks is not None
        if asks and not answers.hands_over(step):
            asked.append(step)
    if not asked:
        return not (turn.is_last or turn.tools or is_told)
    return len(turn.tools) < max(1, sum(len(step.tool_requests) for step in asked))


def _apart(marks: Iterable[Mark]) -> Iterator[Mark]:
    """In order of time and without overlap, the earlier one keeping what both claim."""
    at = 0
    for mark in sorted(marks, key=lambda mark: (mark.start, mark.end)):
        start = max(mark.start, at)
        if start < mark.end:
            yield Mark(start, mark.end, mark.part)
            at = mark.end
