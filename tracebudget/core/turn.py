"""Turns: rounds of a run. They tile it: turn 0 begins with the run, each next one with the call
that opens it.

run    |-------- turn 0 --------|------ turn 1 ------|
calls    |---|                  |-----|
tools         |----||-----|           |-----|
"""

from __future__ import annotations

from bisect import bisect_right
from heapq import heappop, heappush

from tracebudget.core.run import Run, touches
from tracebudget.core.tree import Node, Note, Tree


def group_turns(tree: Tree, run: Run) -> None:
    """Set the run's boundaries, its calls' and tools' turns, and which calls are further attempts
    of a failed one.
    """
    openers = _openers(run)
    start, end = run.top.start, run.top.end
    inside = [min(max(call.start, start), end) for call in openers[1:]]
    run.boundaries = [start, *inside, end]
    for node in (*run.calls, *run.tools):
        run.turn_of[node] = turn_at(run, node.start)
    _note_explicit_turns(tree, run)


def turn_at(run: Run, moment: int) -> int:
    """The index of the turn in which a moment of the run falls; moments outside fall into the first
    or the last.
    """
    return bisect_right(run.boundaries, moment, 1, len(run.boundaries) - 1) - 1


def _openers(run: Run) -> list[Node]:
    """The calls that open turns (semantics, "Turns", 4). Sets each call's attempt. One sweep in
    order of start.
    """
    openers: list[Node] = []
    sweep = _Sweep(run)
    for call in run.calls:
        sweep.advance(call)
        if sweep.repeats_failed(call):
            call.attempt = sweep.last.attempt + 1 if sweep.last is not None else 0
        elif call not in run.side_calls and (not openers or sweep.opens(call)):
            openers.append(call)
            sweep.begin_turn()
        sweep.take(call)
    return openers or run.calls[:1]


class _Sweep:
    """What is known of a run up to the call at hand: the latest end, the current turn's tools."""

    def __init__(self, run: Run) -> None:
        self.tools = run.tools
        self.next_tool = 0
        self.side_calls = run.side_calls
        self.last: Node | None = None  # the call before
        self.taken = 0
        self.running: list[tuple[int, int, Node]] = []  # heap of earlier calls by their ends
        self.begin_turn()

    def begin_turn(self) -> None:
        self.tool_seen, self.tools_end = False, 0

    def advance(self, call: Node) -> None:
        """Take in the tools that started before this call."""
        while self.next_tool < len(self.tools) and self.tools[self.next_tool].start < call.start:
            tool = self.tools[self.next_tool]
            self.tool_seen, self.tools_end = True, max(self.tools_end, tool.end)
            self.next_tool += 1

    def take(self, call: Node) -> None:
        self.last = call
        self.taken += 1
        heappush(self.running, (call.end, self.taken, call))

    def repeats_failed(self, call: Node) -> bool:
        """The call before failed and had ended, and no tool has started since: this is its next
        attempt.
        """
        last = self.last
        if last is None or last.step is None or not last.step.is_error or last.end > call.start:
            return False
        tool_since = self.next_tool > 0 and self.tools[self.next_tool - 1].start >= last.end
        return not tool_since and last not in self.side_calls

    def opens(self, call: Node) -> bool:
        """Every earlier call has ended, or the current turn's tools have."""
        while self.running and self.running[0][0] <= call.start:
            heappop(self.running)
        if all(touches(earlier, call) for _, _, earlier in self.running):
            return True
        return self.tool_seen and self.tools_end <= call.start


def _note_explicit_turns(tree: Tree, run: Run) -> None:
    """Spans that say "turn" or "step N" and disagree are noted; the rules win."""
    said = [child for child in run.top.children if _says_turn(child)]
    if said and len(said) != len(run.boundaries) - 1:
        ids = tuple(sorted(child.id for child in said))
        tree.notes.append(
            Note("turns_disagree", ids, {"spans": len(said), "turns": len(run.boundaries) - 1})
        )


def _says_turn(node: Node) -> bool:
    name = node.span.name
    return name in {"turn", "execute_event_loop_cycle"} or (
        name.startswith("step ") and name[5:].isdigit()
    )
