"""The clock of a request: when it starts and ends, what is background, where a step hangs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter

from tracebudget.core.run import Run, started_between
from tracebudget.core.span import KIND_CONSUMER, KIND_PRODUCER
from tracebudget.core.step import WORK, StepKind
from tracebudget.core.tree import Node, Note, Tree, ancestors, relist

MS = 1_000_000
INSIDE_NS = MS  # rounding between two clocks of one process
AROUND_NS = 20 * MS  # what a tool that does nothing but call an agent takes beside it

COUNTED = frozenset(
    {StepKind.MODEL_CALL, StepKind.TOOL_CALL, StepKind.AGENT}
)  # what a launcher root waits for


def settle_clock(tree: Tree, runs: list[Run]) -> bool:
    """Correct what the request's own clock shows to be wrong. Tells whether anything moved or went
    to the background: then the runs are others.
    """
    if _is_tight(tree):
        has_moved = _lower_tools(tree, runs) | _rehang_called(tree, runs)
        if has_moved:
            relist(tree)
        tree.is_tight = not has_moved
        return has_moved
    reaches_out = any(map(_reaches_out, tree.nodes))
    if reaches_out:
        extend_for_streams(tree)
        extend_launcher(tree)
    has_moved = rehang(tree, runs)
    has_background = mark_background(tree)
    if reaches_out:
        note_outside(tree)
    return has_moved or has_background


def _is_tight(tree: Tree) -> bool:
    """Each span lies within its parent and begins before the parent's end, none is detached, and
    nobody left a message for another: then nothing is to be moved, and nothing in the background.
    """
    for node in tree.nodes:
        parent = node.parent
        if parent is not None and (
            node.end > parent.end
            or node.start < parent.start
            or node.start >= parent.end
            or node.detached
            or node.span.kind == KIND_CONSUMER
        ):
            return False
    return True


def _reaches_out(node: Node) -> bool:
    parent = node.parent
    return parent is not None and (node.start < parent.start or node.end > parent.end)


def extend_for_streams(tree: Tree) -> None:
    """The user waits for the stream, not for the handler: a call not known to be unstreamed that
    began before an ancestor's end and ends later extends it.

        root   |--------|.............         the handler returned the stream
        agent    |------|.............
        call          |--------------|
    """
    lid: dict[Node, int] = {}  # the earliest end at or above a node
    for node in tree.nodes:
        ceiling = lid[node.parent] if node.parent is not None else node.end
        lid[node] = min(ceiling, node.end)
        if node.end > ceiling and _may_be_streamed(node):
            for above in ancestors(node):
                if node.start < above.end < node.end:
                    above.end = node.end


def _may_be_streamed(node: Node) -> bool:
    step = node.step
    return (
        step is not None
        and step.model is not None
        and step.model.streamed is not False
        and not node.detached
    )


def extend_launcher(tree: Tree) -> None:
    """A root that ended before the first step below it was done, or before the tools ran that an
    answer in it had asked for, only launched the work: it ends with the last.
    """
    root = tree.root
    work = [
        n
        for n in tree.nodes
        if n.step is not None and n.step.kind in COUNTED and n is not root and not n.detached
    ]
    if root.is_placeholder or not work:
        return
    if root.end >= min(node.end for node in work) and not _left_tools_behind(root, work):
        return
    if min(node.start for node in work) < root.start:
        return  # what was there before the root was not launched by it
    tree.notes.append(Note("launcher_root", (root.id,), {"ended_after_ns": root.duration}))
    working = set(work)
    last: dict[Node, int] = {}  # the latest end of work at or below a node
    for node in reversed(tree.nodes):
        below = [last[child] for child in node.children if child in last]
        if below and (node.step is None or node.step.kind not in WORK):
            node.end = max(node.end, *below)
        if node in working:
            below.append(node.end)
        if below:
            last[node] = max(below)


def _left_tools_behind(root: Node, work: list[Node]) -> bool:
    """The last answer before the root's end asked for tools, and they began only after it."""
    answered = [
        node
        for node in work
        if node.step is not None
        and node.step.kind == StepKind.MODEL_CALL
        and node.end <= root.end + INSIDE_NS
    ]
    last = max(answered, key=attrgetter("end"), default=None)
    if last is None or last.step is None or last.step.asks_for_tools() is not True:
        return False
    began = [tool.start for tool in work if _is_tool(tool) and tool.start >= last.start]
    return bool(began) and min(began) >= root.end


def rehang(tree: Tree, runs: list[Run]) -> bool:
    """Hang what its parent cannot hold: tools inside the call that asked for them, steps that start
    after their parent ended, agents that were traced beside the tool that called them, or whose own
    spans are missing; and tools beside the call that holds their round. Tells whether anything
    moved.
    """
    moved = _lift_tools(tree)
    moved |= _lower_tools(tree, runs)
    moved |= _rehang_late(tree)
    moved |= _rehang_called(tree, runs)
    if moved:
        relist(tree)
    return moved


def _rehang_late(tree: Tree) -> bool:
    """Steps, and plain spans that hold one: a server answers, and its task goes on."""
    late = [node for node in tree.nodes if node.parent and node.start > node.parent.end]
    holders = _step_holders(tree) if late else set[Node]()
    moved = False
    for node in late:
        parent = node.parent
        if node not in holders or parent is None or parent.is_placeholder or node.detached:
            continue
        home = next((up for up in ancestors(parent) if up.end >= node.start), None)
        if home is not None:
            tree.notes.append(Note("rehung_step", (node.id,), {"from": parent.id, "to": home.id}))
            node.parent = home
            moved = True
    return moved


def _step_holders(tree: Tree) -> set[Node]:
    """The nodes with a step at or below them."""
    holders: set[Node] = set()
    for node in reversed(tree.nodes):
        if node.step is not None or node in holders:
            holders.add(node)
            if node.parent is not None:
                holders.add(node.parent)
    return holders


def _rehang_called(tree: Tree, runs: list[Run]) -> bool:
    return _rehang_agents(tree, runs) | _rehang_orphans(tree, runs)


def _rehang_orphans(tree: Tree, runs: list[Run]) -> bool:
    """What lies below a missing parent, and inside one tool call, was called by that tool: the
    agent between the two left no span. Of several tools it is the one that it fills.
    """
    missing = [node for node in tree.nodes if node.is_placeholder and node.parent is not None]
    tools = [tool for run in runs for tool in run.tools] if missing else []
    holders = _step_holders(tree) if tools else set[Node]()
    moved = False
    for node, around in _tools_around([node for node in missing if node in holders], tools):
        strangers = [tool for tool in around if not _is_above(node, tool)]
        filled = [tool for tool in strangers if tool.duration - node.duration <= AROUND_NS]
        caller = next((found[0] for found in (strangers, filled) if len(found) == 1), None)
        if caller is not None and node.parent is not None and not _is_above(caller, node):
            ids = {"from": node.parent.id, "to": caller.id}
            tree.notes.append(Note("rehung_step", (node.id,), ids))
            node.parent, moved = caller, True
    return moved


def _rehang_agents(tree: Tree, runs: list[Run]) -> bool:
    """An agent run below no tool, and inside a tool call of another run, was called by that
    tool.
    """
    agents = [run for run in runs if _is_agent(run.top) and run.top.parent is not None]
    tools = [tool for run in runs for tool in run.tools] if agents else []
    if not tools or not runs[1:]:
        return False
    served = _below_tools(tree)
    loose = {run.top: run for run in agents if run.top not in served}
    moved = False
    for top, around in _tools_around(loose, tools):
        run = loose[top]
        own = set(run.tools)
        strangers = [tool for tool in around if tool not in own and not _is_above(run.top, tool)]
        caller = _caller(run, strangers)
        if caller is not None and run.top.parent is not None:
            ids = {"from": run.top.parent.id, "to": caller.id}
            tree.notes.append(Note("rehung_step", (run.top.id,), ids))
            run.top.parent = caller
            moved = True
    return moved


def _caller(run: Run, tools: list[Node]) -> Node | None:
    """The tool that called a run: the only one around it, or that names it, or that ended with
    it.
    """
    name = run.name.casefold()
    named = [tool for tool in tools if tool.step and name in tool.step.name.casefold()]
    fitting = [tool for tool in tools if abs(tool.end - run.top.end) <= INSIDE_NS]
    return next((found[0] for found in (tools, named, fitting) if len(found) == 1), None)


def _tools_around(nodes: Iterable[Node], tools: list[Node]) -> Iterator[tuple[Node, list[Node]]]:
    """Each node with the tools that enclose it in time: one sweep over both, in order of start."""
    pending, active = sorted(tools, key=lambda tool: tool.start, reverse=True), list[Node]()
    for node in sorted(nodes, key=lambda node: node.start):
        while pending and pending[-1].start <= node.start + INSIDE_NS:
            active.append(pending.pop())
        active = [tool for tool in active if tool.end + INSIDE_NS >= node.start]
        yield node, [tool for tool in active if _inside(node, tool)]


def _below_tools(tree: Tree) -> set[Node]:
    below: set[Node] = set()
    for node in tree.nodes:
        parent = node.parent
        if parent is not None and (parent in below or _is_tool(parent)):
            below.add(node)
    return below


def _is_tool(node: Node) -> bool:
    return node.step is not None and node.step.kind == StepKind.TOOL_CALL


def _is_agent(node: Node) -> bool:
    return node.step is not None and node.step.kind == StepKind.AGENT


def _is_above(node: Node, other: Node) -> bool:
    return any(up is node for up in ancestors(other))


def _inside(node: Node, other: Node) -> bool:
    return other.start - INSIDE_NS <= node.start and node.end <= other.end + INSIDE_NS


def _lift_tools(tree: Tree) -> bool:
    """Tools that hang below the model call that asked for them, whatever plain spans lie between,
    and start when it has ended, follow it.
    """
    moved = False
    for node in tree.nodes:
        if node.step is None or node.step.kind not in COUNTED:
            continue
        asking = next((up for up in ancestors(node) if up.step is not None), None)
        if asking is None or asking.step is None or asking.parent is None:
            continue
        if asking.step.kind == StepKind.MODEL_CALL and node.start >= asking.end:
            if node.start > asking.end:
                ids = {"from": asking.id, "to": asking.parent.id}
                tree.notes.append(Note("rehung_step", (node.id,), ids))
            node.parent = asking.parent
            moved = True
    return moved


def _lower_tools(tree: Tree, runs: list[Run]) -> bool:
    """Tools inside a call whose span holds all rounds of its agent hang below it: while they ran,
    the model had nothing to do.

        llm    |------------------------------|
        tools          |---------|
    """
    moved = False
    for run in runs:
        for call in run.calls:
            if not call.facts.holds_rounds:
                continue
            for tool in started_between(run.tools, call.start, call.end):
                if tool.parent is call.parent and call.parent is not None:
                    ids = {"from": call.parent.id, "to": call.id}
                    tree.notes.append(Note("rehung_step", (tool.id,), ids))
                    tool.parent, moved = call, True
    return moved


def mark_background(tree: Tree) -> bool:
    """What starts when the request is over, or hangs in a cut ring, is shown and not counted; so is
    what is below it.

    A message that was only left for a consumer is not waited for either, unless the agent's own
    work happens there. Tells whether there is any.
    """
    root, left = tree.root, _left_for_consumers(tree)
    found = False
    for node in tree.nodes[1:]:
        is_late = node.start >= root.end and node.start > root.start
        is_below = node.parent is not None and node.parent.background
        if is_late or is_below or node.detached or node in left:
            node.background = found = True
    return found


def _left_for_consumers(tree: Tree) -> set[Node]:
    """Consumers that nobody waits for."""
    consumers = [
        node
        for node in tree.nodes
        if node.span.kind == KIND_CONSUMER
        and node.parent is not None
        and node.parent.span.kind == KIND_PRODUCER
    ]
    return set(consumers) - _with_work_below(tree) if consumers else set()


def _with_work_below(tree: Tree) -> set[Node]:
    works: set[Node] = set()
    for node in reversed(tree.nodes):
        if (node.step is not None and node.step.kind in WORK) or node in works:
            works.add(node)
            if node.parent is not None:
                works.add(node.parent)
    return works


def note_outside(tree: Tree) -> None:
    """Typed steps that reach beyond their parent are clipped to it in the walk; say so."""
    outside = [
        node.id
        for node in tree.nodes
        if node.step is not None
        and node.parent is not None
        and not node.background
        and not node.parent.is_placeholder
        and (node.start < node.parent.start - INSIDE_NS or node.end > node.parent.end + INSIDE_NS)
    ]
    if outside:
        tree.notes.append(Note("outside_parent", tuple(sorted(outside))))
