"""What is known of a run's own time: waits between attempts, and gaps in which something ran that
no span shows.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from tracebudget.core.record import record
from tracebudget.core.run import Answers, Run
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


def cut_by(marks: Sequence[Mark], start: int, end: int) -> Iterator[tuple[int, int, str | None]]:
    """[start, end) cut at the marks (sorted, not overlapping): each piece with its mark's name, or
    None.
    """
    at = start
    for mark in marks[bisect_right(marks, start, key=_mark_end) :] if marks else ():
        if mark.start >= end:
            break
        if at < mark.start:
            yield at, mark.start, None
            at = mark.start
        until = min(mark.end, end)
        if at < until:
            yield at, until, mark.part
            at = until
    if at < end:
        yield at, end, None


_mark_end = attrgetter("end")


def marks_of(run: Run, answers: Answers) -> Iterator[Mark]:
    """The marks `retry_wait` and `unattributed` of a run, in order and apart."""
    turns = len(run.boundaries) - 1
    calls: list[list[Node]] = [[] for _ in range(turns)]
    tools: list[list[Node]] = [[] for _ in range(turns)]
    for call in run.calls:
        calls[run.turn_of[call]].append(call)
    for tool in run.tools:
        tools[run.turn_of[tool]].append(tool)
    work_end = run.top.start
    for index in range(turns):
        work = calls[index] + tools[index]
        marks = [*_before_calls(calls[index], work, work_end), *_retry_waits(calls[index])]
        last = _after_work(run, index, calls[index], tools[index], answers)
        yield from _apart([*marks, last] if last is not None else marks)
        work_end = max([work_end, *(node.end for node in work)])


def _before_calls(calls: Sequence[Node], work: Sequence[Node], work_end: int) -> Iterator[Mark]:
    """A span too short for its tokens holds only the end of its call: the rest lies before it."""
    for call in calls:
        if _is_impossible(call):
            ends = (node.end for node in work if node is not call and node.end <= call.start)
            yield Mark(max([work_end, *ends]), call.start, "unattributed")


def _is_impossible(call: Node) -> bool:
    output = call.facts.tokens.output
    return (
        output is not None and output > 1 and call.duration < MIN_CALL_NS_PER_TOKEN * (output - 1)
    )


def _retry_waits(calls: Sequence[Node]) -> Iterator[Mark]:
    for earlier, later in itertools.pairwise(calls) if calls[1:] else ():
        if later.attempt > earlier.attempt and earlier.end < later.start:
            yield Mark(earlier.end, later.start, "retry_wait")


def _after_work(
    run: Run, index: int, calls: Sequence[Node], tools: Sequence[Node], answers: Answers
) -> Mark | None:
    """The time behind a turn's last call and tool, where tools or a call are missing in it."""
    turn_end = run.boundaries[index + 1]
    calls_end = max((call.end for call in calls), default=0)
    tools_end = max((tool.end for tool in tools), default=0)
    end, is_last = max(calls_end, tools_end), index == len(run.boundaries) - 2
    # A run that ends after its tools: the call that read their results was lost, or there was none.
    is_missing = is_last and bool(run.calls) and tools_end > calls_end
    if not is_missing and calls and end < turn_end:
        is_worth = not tools or turn_end - end >= WORTH_NS
        is_missing = is_worth and _tools_missing(calls, tools, answers, is_followed=not is_last)
    return Mark(end, turn_end, "unattributed") if is_missing else None


def _tools_missing(
    calls: Sequence[Node], tools: Sequence[Node], answers: Answers, *, is_followed: bool
) -> bool:
    """The turn's answer asked for tools and no span shows them, or fewer than it asked for; a
    hand-over is shown by the other agent's run. Where nothing tells what it asked for, the model
    being called again does: something was done in between.
    """
    steps = [
        call.step
        for call in calls
        if call.step is not None and not call.step.is_error and not answers.asked_in_vain(call)
    ]
    asked = [step for step in steps if step.asks_for_tools() and not answers.hands_over(step)]
    if not asked:
        return is_followed and not tools and any(step.asks_for_tools() is None for step in steps)
    return not tools or len(tools) < sum(len(step.tool_requests) for step in asked)


def _apart(marks: Iterable[Mark]) -> Iterator[Mark]:
    """In order of time and without overlap, the earlier one keeping what both claim."""
    at = 0
    for mark in sorted(marks, key=lambda mark: (mark.start, mark.end)):
        start = max(mark.start, at)
        if start < mark.end:
            yield Mark(start, mark.end, mark.part)
            at = mark.end
