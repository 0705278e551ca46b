"""Turns: rounds of a run. They tile it: turn 0 begins with the run, each next one with the call
that opens it.

run    |-------- turn 0 --------|------ turn 1 ------|
calls    |---|                  |-----|
tools         |----||-----|           |-----|
"""

from __future__ import annotations

from bisect import bisect_right
from heapq import heappop, heappush
from operator import attrgetter

from tracebudget.core.run import Run, Turn, started_between, touches
from tracebudget.core.segment import NO_TIME
from tracebudget.core.tree import Node, Note, Tree

EXPLICIT = frozenset({"turn", "execute_event_loop_cycle"})  # what spans of one turn are called
BEGINNINGS = (*EXPLICIT, "step ")


def group_turns(tree: Tree, run: Run) -> None:
    """Give the run its turns, with their calls and tools, and tell which calls are further attempts
    of a failed one.
    """
    start, end = run.top.start, run.top.end
    inner = [min(max(call.start, start), end) for call in _openers(run)[1:]]
    run.turns = turns = [
        Turn(run, number, *edge, NO_TIME.copy())
        for number, edge in enumerate(zip([start, *inner], [*inner, end], strict=True))
    ]
    for call in run.calls:
        call.turn = turn = turns[bisect_right(inner, call.start)]
        turn.calls.append(call)
        turn.calls_end = max(turn.calls_end, call.end)
    for tool in run.tools:
        tool.turn = turn = turns[bisect_right(inner, tool.start)]
        turn.tools.append(tool)
        turn.tools_end = max(turn.tools_end, tool.end)
    _note_explicit_turns(tree, run)


def turn_at(run: Run, moment: int) -> Turn:
    """The turn in which a moment of the run falls; moments outside fall into the first or the
    last.
    """
    turns = run.turns
    return turns[bisect_right(turns, moment, 1, key=_start) - 1] if turns[1:] else turns[0]


_start = attrgetter("start")


def _openers(run: Run) -> list[Node]:
    """The calls that open turns (semantics, "Turns", 4). Sets each call's attempt. One sweep in
    order of start.
    """
    openers: list[Node] = []
    sweep = _Sweep(run)
    for call in run.calls:
        last = sweep.last
        if last is not None and _repeats_failed(last, call, run):
            call.attempt = last.attempt + 1
        elif not call.scope.is_side and (not openers or sweep.opens(call)):
            openers.append(call)
            sweep.begin_turn(call)
        sweep.take(call)
    return openers or run.calls[:1]


def _repeats_failed(last: Node, call: Node, run: Run) -> bool:
    """The call before failed and had ended, and no tool has started since: this is its next
    attempt.
    """
    if last.step is None or not last.step.is_error or last.end > call.start:
        return False
    return not last.scope.is_side and not started_between(run.tools, last.end, call.start)


class _Sweep:
    """What is known of a run up to the call at hand: the latest end, the current turn's tools."""

    def __init__(self, run: Run) -> None:
        self.tools = run.tools
        self.next_tool = 0
        self.last: Node | None = None  # the call before
        self.taken = 0
        self.calls_end = 0  # the latest
        self.running: list[tuple[int, int, Node]] = []  # heap of earlier calls by their ends

    def begin_turn(self, call: Node) -> None:
        self.start, self.tools_end = call.start, 0

    def take(self, call: Node) -> None:
        self.last = call
        self.taken += 1
        self.calls_end = max(self.calls_end, call.end)
        heappush(self.running, (call.end, self.taken, call))

    def opens(self, call: Node) -> bool:
        """Every earlier call has ended, or the current turn's tools have."""
        if self.calls_end <= call.start:
            self.running.clear()
            return True
        while self.running[0][0] <= call.start:
            heappop(self.running)
        if all(touches(earlier, call) for _, _, earlier in self.running):
            return True
        self._take_tools(call.start)
        return 0 < self.tools_end <= call.start

    def _take_tools(self, moment: int) -> None:
        """Take in the current turn's tools that started before a moment."""
        tools, index = self.tools, self.next_tool
        while index < len(tools) and tools[index].start < moment:
            if tools[index].start >= self.start:
                self.tools_end = max(self.tools_end, tools[index].end)
            index += 1
        self.next_tool = index


def _note_explicit_turns(tree: Tree, run: Run) -> None:
    """Spans that say "turn" or "step N" and disagree are noted; the rules win."""
    named = [child for child in run.top.children if child.span.name.startswith(BEGINNINGS)]
    said = [child.id for child in named if _says_turn(child.span.name)]
    if said and len(said) != len(run.turns):
        evidence = {"spans": len(said), "turns": len(run.turns)}
        tree.notes.append(Note("turns_disagree", tuple(sorted(said)), evidence))


def _says_turn(name: str) -> bool:
    return name in EXPLICIT or (name.startswith("step ") and name[5:].isdigit())
