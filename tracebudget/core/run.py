"""Runs: one agent at work. Which agent a model call belongs to, and where the call and the run
really end.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING

from tracebudget.core.dialects import Reading
from tracebudget.core.dialects.facts import Present
from tracebudget.core.record import lazy
from tracebudget.core.span import KIND_INTERNAL, KIND_UNSPECIFIED
from tracebudget.core.step import WORK, Step, StepKind, read_step
from tracebudget.core.tree import Node, Note, Tree, ancestors

if TYPE_CHECKING:
    from tracebudget.core.segment import SegmentKind

MS = 1_000_000
LATE_END_NS = (
    20 * MS
)  # a call span that closes so soon after its last tool was held open by the framework
BRANCHES = 8  # calls in parallel branches among which a tool's own is looked for
TOUCH_NS, TOUCH_SHARE = 5 * MS, 0.01  # calls that overlap by less follow one another

# Below these, a model call judges or looks up; it is no round of the agent.
SIDE = frozenset({StepKind.GUARDRAIL, StepKind.RETRIEVAL, StepKind.EMBEDDING})
OPENING = SIDE | {StepKind.AGENT, StepKind.WORKFLOW, StepKind.TOOL_CALL}  # may open a scope


@dataclass(slots=True, eq=False)
class Run:
    """An agent at work, while `top` lasts. `calls` and `tools` are in order of start."""

    top: Node
    calls: list[Node] = field(default_factory=list)
    tools: list[Node] = field(default_factory=list)
    parent: Run | None = None
    turns: list[Turn] = field(default_factory=list)

    def sort(self) -> None:
        """Calls and tools in order."""
        self.calls.sort(key=Node.order)
        self.tools.sort(key=Node.order)

    @property
    def name(self) -> str:
        return self.top.step.name if self.top.step is not None else self.top.span.name


@dataclass(slots=True, eq=False)
class Turn:
    """One round of a run. Times are absolute ns; `index` is its place in the report's list of all
    turns, `number` that within its run.
    """

    run: Run
    number: int
    start: int
    end: int
    segments: dict[SegmentKind, int]  # ns of each in the run's own walk
    calls: list[Node] = field(default_factory=list)
    tools: list[Node] = field(default_factory=list)
    calls_end: int = 0  # when the last of them ended; 0 without one
    tools_end: int = 0
    index: int = 0
    on_path_ns: int = 0
    delegated_ns: int = 0
    parent: Turn | None = None

    @property
    def duration(self) -> int:
        return self.end - self.start

    @property
    def is_last(self) -> bool:
        return self is self.run.turns[-1]


@dataclass(slots=True, eq=False)
class Scope:
    """What the spans at and below an agent, a workflow, a tool or a side job have in common, as far
    as none of them opens a scope of its own.
    """

    top: Node  # the span that is the run of a model call here
    is_held: bool = False  # by an agent or a workflow
    is_side: bool = False  # a call here works beside the rounds
    outer: Scope | None = None
    run: Run | None = None  # the nearest at or above


def find_runs(tree: Tree, steps: Sequence[Node]) -> list[Run]:
    """All runs, outer ones before those nested in them; their calls and tools filled in from the
    steps, which stand in order. A request without a call has one run, the request. Every node gets
    its scope.
    """
    scopes = _open_scopes(tree)
    by_top, tools = _runs_and_tools(steps)
    if not by_top:
        by_top[tree.root] = Run(tree.root)
    for scope in scopes:
        scope.run = by_top.get(scope.top) or (scope.outer.run if scope.outer is not None else None)
    runs = list(dict.fromkeys(by_top[scope.top] for scope in scopes if scope.top in by_top))
    for run in runs:
        run.parent = _run_above(run.top)
    for tool in tools:
        run_above = _run_above(tool)
        if run_above is not None:
            run_above.tools.append(tool)
    return runs


def _open_scopes(tree: Tree) -> list[Scope]:
    """The run of a call is the nearest agent above; without one, the outermost workflow below the
    tool (or root) it runs in; else that tool; else the request.
    """
    scope = Scope(tree.root)
    scopes = [scope]
    for node in tree.nodes:
        if node.parent is not None:
            scope = node.parent.scope
        if node.children and node.step is not None and node.step.kind in OPENING:
            inner = _opened(node, node.step.kind, scope)
            if inner is not None:
                scopes.append(inner)
                scope = inner
        node.scope = scope
    return scopes


def _opened(node: Node, kind: StepKind, outer: Scope) -> Scope | None:
    """The scope that a step opens, if it opens one."""
    if kind is StepKind.AGENT:
        return Scope(node, is_held=True, outer=outer)
    if kind is StepKind.TOOL_CALL:
        return Scope(node, outer=outer)
    if kind in SIDE:
        return Scope(outer.top, outer.is_held, True, outer)
    return None if outer.is_held else Scope(node, True, outer.is_side, outer)


def _runs_and_tools(steps: Iterable[Node]) -> tuple[dict[Node, Run], list[Node]]:
    """The runs by their tops, with their calls; and the tool calls."""
    by_top: dict[Node, Run] = {}
    tools: list[Node] = []
    for node in steps:
        if node.background or node.step is None:
            continue
        kind = node.step.kind
        if kind is StepKind.TOOL_CALL:
            tools.append(node)
        elif kind is StepKind.MODEL_CALL:
            top = node.scope.top
            run = by_top.get(top)
            if run is None:
                run = by_top[top] = Run(top)
            run.calls.append(node)
    return by_top, tools


def _run_above(node: Node) -> Run | None:
    """The nearest run strictly above."""
    return node.parent.scope.run if node.parent is not None else None


class Answers:
    """What the answers of one request hold."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self.runs = list(runs)
        self.calls = [call for run in self.runs for call in run.calls]

    @lazy
    def telling(self) -> frozenset[str]:
        """The dialects in which some answer holds the tools that it asked for."""
        steps = [call.step for call in self.calls if call.step is not None]
        return frozenset(step.dialect for step in steps if step.tool_requests)

    @lazy
    def agents(self) -> frozenset[str]:
        """The names of the agents that ran, in one case."""
        steps = [run.top.step for run in self.runs]
        agents = [s.name for s in steps if s is not None and s.kind == StepKind.AGENT]
        return frozenset(name.casefold() for name in agents)

    def hands_over(self, step: Step) -> bool:
        """The answer asked for nothing but other agents (`transfer_to_researcher`), which ran."""
        asked = [request.name.casefold() for request in step.tool_requests]
        return bool(asked) and all(any(agent in name for agent in self.agents) for name in asked)

    def asked_in_vain(self, call: Node) -> bool:
        """The answer asked for tools, and for none in a form that parses. What does not parse may
        be left out: then it holds none, or is not there, while other answers hold theirs.
        """
        step = call.step
        if step is None or step.asks_in_vain():
            return step is not None
        requests = step.content.tool_requests if step.content is not None else None
        return not requests and step.asks_for_tools() is True and step.dialect in self.telling


def name_tools(runs: Iterable[Run]) -> None:
    """A tool whose span does not say which one it is is the one that the answer before it asked
    for, if that asked for one.
    """
    for run in runs:
        for tool in run.tools:
            if tool.step is None or tool.step.is_named:
                continue
            before = bisect_left(run.calls, tool.start, key=_start)
            asking = run.calls[before - 1].step if before else None
            if asking is not None and len(asking.tool_requests) == 1:
                (request,) = asking.tool_requests
                known = tool.step.call_id or request.call_id
                tool.step = replace(tool.step, name=request.name, call_id=known, is_named=True)


def take_asked_tools(tree: Tree, runs: Sequence[Run]) -> bool:
    """A span of no dialect that bears the name of a tool for which the answer before it asked is
    that tool: somebody traced it by hand. Tells whether there is any.

        call   |--------|                  asks for `search`
        span             |-- search --|
    """
    plain = [node for node in tree.nodes if node.step is None and _may_be_traced_by_hand(node)]
    if not plain:
        return False
    asked = _Asked(runs)
    taken = [n for n in plain if n.span.name in asked.names and _take_asked(n, asked)]
    return bool(taken)


def _may_be_traced_by_hand(node: Node) -> bool:
    return (
        node.reading.role is None
        and node.parent is not None
        and node.span.kind in (KIND_UNSPECIFIED, KIND_INTERNAL)
        and not node.is_placeholder
    )


class _Asked:
    """The tools for which answers asked, and those that spans of their own dialect show."""

    def __init__(self, runs: Sequence[Run]) -> None:
        # of each call, by the tool's name, the ids under which it asked
        self.ids: dict[Node, defaultdict[str, list[str | None]]] = {}
        for call in (call for run in runs for call in run.calls):
            self.ids[call] = defaultdict(list)
            for request in call.step.tool_requests if call.step is not None else ():
                self.ids[call][request.name].append(request.call_id)
        self.names = {name for ids in self.ids.values() for name in ids}
        self.last_shown = {  # when the last one of a name began
            (run, tool.step.name): tool.start
            for run in runs
            for tool in run.tools
            if tool.step is not None
        }

    def asking(self, node: Node, run: Run) -> Node | None:
        """The latest call before a span that asked for a tool of its name; between the two, calls
        of parallel branches may have begun.
        """
        before = bisect_left(run.calls, node.start, key=_start)
        near = reversed(run.calls[max(0, before - BRANCHES) : before])
        return next((call for call in near if node.span.name in self.ids[call]), None)

    def is_shown(self, node: Node, run: Run, asking: Node) -> bool:
        """A span of the tool's own dialect shows it: the plain one repeats it."""
        return self.last_shown.get((run, node.span.name), asking.start - 1) >= asking.start


def _take_asked(node: Node, asked: _Asked) -> bool:
    run = node.scope.run
    asking = asked.asking(node, run) if run is not None else None
    if run is None or asking is None:
        return False
    if asked.is_shown(node, run, asking) or _is_below_work(node, run.top):
        return False
    node.reading = Reading(StepKind.TOOL_CALL, asking.reading.dialect, Present({}))
    step = read_step(node.span, node.reading)
    if step is None:
        return False
    ids = asked.ids[asking][node.span.name]
    call_id = ids[0] if len(ids) == 1 else None
    node.take(replace(step, name=node.span.name, call_id=call_id, is_named=True))
    return True


def _is_below_work(node: Node, top: Node) -> bool:
    """Some work of the run lies around it, of which it is a part."""
    for above in ancestors(node):
        if above is top:
            return False
        if above.step is not None and above.step.kind in WORK:
            return True
    return False


# --- where calls really end ---------------------------------------------------------------------


def started_between(nodes: Sequence[Node], start: int, end: int) -> Sequence[Node]:
    """Those of the nodes, in order of start, that started in [start, end)."""
    first = bisect_left(nodes, start, key=_start)
    return nodes[first : bisect_left(nodes, end, first, key=_start)]


_start = attrgetter("start")


def settle_ends(tree: Tree, runs: Iterable[Run]) -> bool:
    """Correct the ends of model calls for attribution (semantics, "Effective end"). Each correction
    leaves a note. Tells whether there was one.
    """
    corrected = False
    for run in runs:
        for call, following in zip_longest(run.calls, run.calls[1:]):
            end = call.end
            _settle_end(call, following, run, tree)
            corrected |= call.end != end
    return corrected


def _settle_end(call: Node, following: Node | None, run: Run, tree: Tree) -> None:
    if _went_on(call):
        _prolong(call, following, run, tree)
        return
    tools = started_between(run.tools, call.start + 1, call.end) if run.tools else ()
    if not _end_at_last_token(call, tools) and tools:
        _cut_at_tools(call, following, tools, tree)


def _went_on(call: Node) -> bool:
    """The call's own first-token event lies after its end, or the emitter is known for it: the
    span closed at the response's headers.
    """
    facts = call.facts
    if facts.ends_early:
        return True
    for claim in facts.ttft_claims:
        if claim.is_event and claim.after_ns > call.duration + MS:
            return True
    return False


def _prolong(call: Node, following: Node | None, run: Run, tree: Tree) -> None:
    """To the next thing that could not begin before the answer was there: a tool, the next call,
    the end of what encloses it.
    """
    limits = [following.start] if following is not None and following.start > call.end else []
    after = bisect_left(run.tools, call.end, key=_start)
    limits += [tool.start for tool in run.tools[after : after + 1]]
    later = (up.end for up in ancestors(call) if up.reading.role and up.end > call.end)
    limits += [end for end, _ in zip(later, range(1), strict=False)]
    if limits:
        tree.notes.append(
            Note("unfinished_span", (call.id,), {"assumed_end_ns": min(limits) - call.start})
        )
        call.end = min(limits)


def _end_at_last_token(call: Node, tools: Sequence[Node]) -> bool:
    """The emitter states the last token's time, and no tool inside the span began before it."""
    if call.facts.last_token_ns is None:
        return False
    last = call.start + call.facts.last_token_ns - call.span.start_ns
    if not call.start < last <= min([call.end, *(tool.start for tool in tools)]):
        return False
    call.end = last
    return True


def _cut_at_tools(call: Node, following: Node | None, inside: Sequence[Node], tree: Tree) -> None:
    """A span that encloses the tools it asked for ended when the first of them began.

    chat span  |------------------------------|     the answer was there
    tools            |---------|  |----------|
    call       |-----|
    """
    tools = [tool for tool in inside if _encloses(call, tool, following)]
    if not tools:
        return
    last = max(tool.end for tool in tools)
    held_open = call.facts.ends_after_tools or call.end - last <= LATE_END_NS
    overtaken = (
        following is not None and following.start < call.end and not touches(call, following)
    )
    if held_open or overtaken:
        end = min(tool.start for tool in tools)
        tree.notes.append(Note("late_model_end", (call.id,), {"by_ns": call.end - end}))
        call.end = end


def _encloses(call: Node, tool: Node, following: Node | None) -> bool:
    """The whole tool, begun inside the call, lies in it, and the call asked for it: by its id, else
    by standing before the next call. A failed tool may carry its framework's id: its name tells.
    """
    if tool.end > call.end + MS or call.step is None or tool.step is None:
        return False
    if call.step.asks_for_tools() is False:
        return False
    asked = {r.call_id: r.name for r in call.step.tool_requests if r.call_id}
    if tool.step.call_id in asked:
        return True
    is_named = tool.step.is_error and tool.step.name in asked.values()
    if asked and tool.step.call_id is not None and not is_named:
        return False
    return following is None or tool.start < following.start


def touches(earlier: Node, later: Node) -> bool:
    """The later call starts before the earlier one ends, but by so little that they follow one
    another.
    """
    overlap = earlier.end - later.start
    return overlap <= max(TOUCH_NS, int(TOUCH_SHARE * min(earlier.duration, later.duration)))
