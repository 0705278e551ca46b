"""Segments: every slice of the path is prefill, decode, tool, framework or wait, and says which
part of it.

A slice belongs to the nearest typed step at or above it. What no step claims is framework; what
nobody can know about is its part `unattributed`: ignorance, not overhead (semantics, "Segments add
up").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tracebudget.core.critical_path import Slice
from tracebudget.core.gap import Mark, cut_by, marks_of
from tracebudget.core.record import plain_members
from tracebudget.core.run import Answers, Run, Turn
from tracebudget.core.span import KIND_CLIENT
from tracebudget.core.step import StepKind
from tracebudget.core.tree import Node, Tree
from tracebudget.core.ttft import TtftSource


@plain_members
class SegmentKind(StrEnum):
    PREFILL = "prefill"
    DECODE = "decode"
    TOOL = "tool"
    FRAMEWORK = "framework"
    WAIT = "wait"


NO_TIME = dict.fromkeys(SegmentKind, 0)
PARTS: dict[SegmentKind, tuple[str, ...]] = {
    SegmentKind.PREFILL: ("queue", "network", "engine_other"),
    SegmentKind.DECODE: ("unsplit",),
    SegmentKind.TOOL: (),
    SegmentKind.FRAMEWORK: ("unattributed", "io", "retry_wait", "handoff"),
    SegmentKind.WAIT: (),
}

FRAMEWORK = SegmentKind.FRAMEWORK
TOOL_KINDS = frozenset({StepKind.TOOL_CALL, StepKind.RETRIEVAL, StepKind.EMBEDDING})
Meaning = tuple[SegmentKind, str | None]  # a segment, and which part of it
# Steps whose whole time is one segment.
SIMPLE: dict[StepKind, Meaning] = {
    **dict.fromkeys(TOOL_KINDS, (SegmentKind.TOOL, None)),
    StepKind.WAIT: (SegmentKind.WAIT, None),
    StepKind.QUEUE: (SegmentKind.PREFILL, "queue"),
}
CALMER = frozenset(
    {StepKind.SERVER_CALL, StepKind.TOOL_SERVER}
)  # views of another step: they claim no time

IDLE_NS = 30_000_000_000  # nobody's code thinks for half a minute between two runs: a person did


@dataclass(slots=True, eq=False)
class PathSlice:
    """A stretch of a path with its meaning. `node` is the step it belongs to, or the span whose own
    time it is; `turn`, on the request's path, the innermost turn open there.
    """

    start: int
    end: int
    segment: SegmentKind
    part: str | None
    node: Node
    turn: Turn | None = None

    @property
    def duration(self) -> int:
        return self.end - self.start


class Attribution:
    """Turns slices of the walk into path slices. Built once a request; gives each node its
    owner.
    """

    def __init__(self, tree: Tree, runs: Sequence[Run]) -> None:
        self.root = tree.root
        self.holders = _above_calls(runs)
        _claim(tree, self.holders)
        self.answers = Answers(runs)
        self.marks = {run: list(marks_of(run, self.answers)) for run in runs}
        self.edges = _run_edges(runs) if runs[1:] else {}

    def attribute(self, slices: Iterable[Slice]) -> list[PathSlice]:
        """The meaning of each slice, in order; neighbours of one meaning are one."""
        path: list[PathSlice] = []
        for start, end, node in slices:
            owner = node.owner
            if owner is None or owner.step is None:
                self._add_framework(path, start, end, node)
                continue
            kind = owner.step.kind
            if kind is StepKind.MODEL_CALL:
                _add_call(path, start, end, owner)
            elif kind in SIMPLE:
                segment, part = SIMPLE[kind]
                _add(path, start, end, segment, part, owner)
            else:
                self._add_framework(path, start, end, node)
        return path

    def _add_framework(self, path: list[PathSlice], start: int, end: int, node: Node) -> None:
        part, run = None, node.scope.run
        if node.span.kind == KIND_CLIENT and _is_plain(node):
            part = "io"
        elif node.is_placeholder or self._is_blind(node.owner or self.root):
            part = "unattributed"
        elif node in self.edges or (run is not None and self.marks[run]):
            self._add_cut(path, start, end, node)
            return
        _add(path, start, end, FRAMEWORK, part, node)

    def _is_blind(self, owner: Node) -> bool:
        """An agent, or the request, with no model call at or below it."""
        return owner not in self.holders and (owner is self.root or _is_agent(owner))

    def _add_cut(self, path: list[PathSlice], start: int, end: int, node: Node) -> None:
        """A stretch cut at the run's marks; what lies between them may lie between two runs."""
        run = node.scope.run
        for begin, until, mark in cut_by(self.marks[run] if run is not None else (), start, end):
            if mark is None:
                segment, part = self._between_runs(begin, until, node)
                _add(path, begin, until, segment, part, node)
            else:
                _add(path, begin, until, FRAMEWORK, mark, node)

    def _between_runs(self, start: int, end: int, node: Node) -> Meaning:
        """Time between two runs of one parent is a hand-off; more than half a minute of it a
        person's wait.
        """
        if node not in self.edges or not _is_between(self.edges[node], start, end):
            return FRAMEWORK, None
        if end - start > IDLE_NS and node is self.root:
            return SegmentKind.WAIT, None
        return FRAMEWORK, "handoff"


def _add(  # noqa: PLR0913, PLR0917  (called for every slice: keywords would cost a fifth more)
    path: list[PathSlice], start: int, end: int, segment: SegmentKind, part: str | None, node: Node
) -> None:
    """Add to a path, as one with the last slice where that means the same."""
    if path:
        last = path[-1]
        if (
            last.node is node
            and last.end == start
            and last.segment is segment
            and last.part == part
        ):
            last.end = end
            return
    path.append(PathSlice(start, end, segment, part, node))


def _is_plain(node: Node) -> bool:
    return node.step is None and not node.is_placeholder and node.absorbed is None


def _above_calls(runs: Iterable[Run]) -> set[Node]:
    """The model calls, and all that is above one."""
    holders: set[Node] = set()
    for run in runs:
        for call in run.calls:
            node: Node | None = call
            while node is not None and node not in holders:
                holders.add(node)
                node = node.parent
    return holders


def _claim(tree: Tree, holders: set[Node]) -> None:
    """Give each node the nearest typed step at or above it as its owner.

    A workflow that holds no model call owns nothing: inside a tool it is the tool's machinery.
    """
    for node in tree.nodes:
        step = node.step
        if (
            step is None
            or step.kind in CALMER
            or (step.kind is StepKind.WORKFLOW and node not in holders)
        ):
            node.owner = node.parent.owner if node.parent is not None else None
        else:
            node.owner = node


def _is_agent(node: Node) -> bool:
    return node.step is not None and node.step.kind == StepKind.AGENT


# --- model calls --------------------------------------------------------------------------------


def _add_call(path: list[PathSlice], start: int, end: int, call: Node) -> None:
    """A stretch of a call cut at its first token, and before it at network and queue.

    |-network-|-queue-|----- compute -----|-engine_other-|-------- decode --------|
    """
    if call.step is not None and call.step.is_error:
        _add(path, start, end, SegmentKind.PREFILL, None, call)
        return
    if call.ttft.split_ns is None:
        _add(path, start, end, SegmentKind.DECODE, "unsplit", call)
        return
    first_token = call.start + call.ttft.split_ns
    if start < first_token:
        for begin, until, name in cut_by(phases(call), start, min(end, first_token)):
            _add(path, begin, until, SegmentKind.PREFILL, name, call)
    if first_token < end:
        _add(path, max(start, first_token), end, SegmentKind.DECODE, None, call)


def phases(call: Node) -> list[Mark]:
    """The named parts of a call's prefill, as the client, the server and the engine tell them, in
    order of time.
    """
    server, facts = call.server, call.step.model if call.step else None
    if call.ttft.split_ns is None or facts is None or (server is None and facts.queue_ns is None):
        return []
    first_token = call.start + call.ttft.split_ns
    arrived = min(max(server.start, call.start), first_token) if server is not None else call.start
    marks = (
        [Mark(call.start, arrived, "network")]
        if server is not None and arrived > call.start
        else []
    )
    queue_ns, prefill_ns = facts.queue_ns, facts.prefill_ns
    if queue_ns:
        marks.append(Mark(arrived, min(arrived + queue_ns, first_token), "queue"))
    if queue_ns is not None and prefill_ns is not None and call.ttft.source == TtftSource.REPORTED:
        done = min(arrived + queue_ns + prefill_ns, first_token)
        marks.append(Mark(done, first_token, "engine_other"))
    return [mark for mark in marks if mark.start < mark.end]


# --- between runs -------------------------------------------------------------------------------


def _run_edges(runs: Sequence[Run]) -> dict[Node, tuple[list[int], list[int]]]:
    """For each span that holds several runs without being one: when runs below it ended, and when
    they started.
    """
    tops = {run.top for run in runs}
    edges: dict[Node, tuple[list[int], list[int]]] = {}
    for run in runs:
        above = run.top.parent
        while above is not None and above not in tops:
            ends, starts = edges.setdefault(above, ([], []))
            ends.append(run.top.end)
            starts.append(run.top.start)
            above = above.parent
    return {
        key: (sorted(ends), sorted(starts))
        for key, (ends, starts) in edges.items()
        if len(ends) > 1
    }


def _is_between(edges: tuple[list[int], list[int]], start: int, end: int) -> bool:
    """Some run ended at or before `start`, and another starts at or after `end`."""
    ends, starts = edges
    return ends[0] <= start and end <= starts[-1]
