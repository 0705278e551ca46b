"""One call, several spans: wrappers, SDK, HTTP and server spans that describe one call become one
step.

framework LLM span  |--------------------|     wrapper: lends what the call lacks
  SDK LLM span        |----------------|       the call: innermost client span that carries usage
    server span          |-----------|         enriches it: queue, prefill, decode
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from itertools import islice

from tracebudget.core.content import Content
from tracebudget.core.dialects import recognise
from tracebudget.core.dialects.facts import Child, SpanFacts
from tracebudget.core.span import KIND_SERVER, Span
from tracebudget.core.step import (
    ACTORS,
    MODEL_KINDS,
    TOOLS,
    ModelFacts,
    Step,
    StepKind,
    as_call,
    duration_ns,
    read_step,
)
from tracebudget.core.tokens import Tokens
from tracebudget.core.tree import Node, Note, Tree, ancestors, relist

TWIN_OVERLAP = (
    0.9  # of the longer one: siblings from two instrumentations that share so much are one call
)
NEAR = 4  # siblings among which a twin is looked for: between the two others may have begun
HEADERS_NS = 20_000_000  # between a response's headers and the first read of its stream
RECORDS = frozenset({"ignore", "copy", "stream_log"})  # roles of spans that repeat another one
LOOK_UP = 16  # ancestors searched for a fact that a dialect writes further up

# What a call is a part of, or belongs to: beyond these it is another agent's, or another tool's,
# work.
HOLDERS = TOOLS | ACTORS | MODEL_KINDS
STEPS = frozenset(StepKind)


def read_steps(tree: Tree) -> None:
    """Give every node its step; drop placeholders of other spans; join what describes one call."""
    records: set[str | None] = set()  # the roles of records of other spans
    told_around: list[Node] = []  # to be read when the tree is as it will be
    for node in tree.nodes:
        if node.is_placeholder:
            continue
        reading = node.reading = recognise(node.span)
        role, dialect, _ = reading
        if role in RECORDS:
            records.add(role)
        elif dialect is not None and (dialect.looks_up or dialect.looks_down):
            told_around.append(node)
        elif dialect is not None:
            node.take(read_step(node.span, reading))
    if "ignore" in records:
        _drop_ignored(tree)
    for node in told_around:
        node.take(read_step(node.span, node.reading, spans_above(node), children_of(node)))
    if "copy" in records:
        _place_copies(tree)
    if "stream_log" in records:
        _join_stream_logs(tree)
    join_calls(tree)
    join_tools(tree)


def spans_above(node: Node) -> list[Span]:
    """Where a fact of a span may stand that its dialect writes further up; nearest first."""
    return [above.span for above in islice(ancestors(node), LOOK_UP)]


def children_of(node: Node) -> list[Child]:
    """What a span's children may tell of it."""
    return [Child(c.span.name, c.span.start_ns, c.duration) for c in node.children]


def _drop_ignored(tree: Tree) -> None:
    """Pending spans and raw copies repeat another span: their children move up to their parent."""
    ignored = [
        node for node in tree.nodes if node.reading.role == "ignore" and node.parent is not None
    ]
    for node in ignored:  # those above first: what was below two of them moves up twice
        parent = node.parent
        if parent is not None:
            tree.is_running |= parent.is_placeholder and parent is tree.root
            for child in node.children:
                if child.parent is node:
                    child.parent = parent
            node.parent = None
    if ignored:
        relist(tree)


def _place_copies(tree: Tree) -> None:
    """A raw copy of a call is nothing of its own below that call's span; without one it is the
    call.
    """
    for node in tree.nodes:
        if node.reading.role == "copy":
            above = next((up for up in ancestors(node) if up.step is not None), None)
            if above is not None and above.step is not None and above.step.kind in MODEL_KINDS:
                node.absorbed = above
            else:
                node.take(read_step(node.span, as_call(node.reading)))


# --- records of streams -------------------------------------------------------------------------


def _join_stream_logs(tree: Tree) -> None:
    """Logfire closes a streamed call's span when the headers are there. A record without length,
    written when the stream was consumed, knows how long that took, and the usage.

    call    |--|
    record     |------ its duration ------| written here
    """
    joined: set[Node] = set()
    for log in tree.nodes:
        if log.reading.role == "stream_log" and log.parent is not None:
            call = _call_of_stream(log, joined)
            if call is not None:
                joined.add(call)
                _end_by_log(call, log)


def _call_of_stream(log: Node, joined: set[Node]) -> Node | None:
    """The sibling call, not joined yet, whose span ended when the log's stream began."""
    dialect = log.reading.dialect
    if dialect is None or log.parent is None:
        return None
    lasted = duration_ns(SpanFacts(log.span, dialect, log.reading.present), "stream_duration")
    if lasted is None:
        return None
    began = log.start - lasted
    near = [
        (abs(call.end - began), call.id, call)
        for call in log.parent.children
        if call.step is not None
        and call.step.kind == StepKind.MODEL_CALL
        and call not in joined
        and call.span.scope == log.span.scope
        and call.end <= log.start
    ]
    distance, _, call = min(near, default=(HEADERS_NS + 1, "", log))
    return call if distance <= HEADERS_NS else None


def _end_by_log(call: Node, log: Node) -> None:
    log.take(read_step(log.span, as_call(log.reading)))
    _lend(log, call)
    _absorb(log, call)
    if call.step is not None:
        call.take(replace(call.step, model=replace(call.facts, streamed=True)))
    call.end = log.start


# --- model calls --------------------------------------------------------------------------------


def join_calls(tree: Tree) -> None:
    """Decide for each chain and each group of siblings which span is the call."""
    exposed: dict[Node | None, list[Node]] = {}  # to the step above, last one first
    homes: dict[Node, Node] = {}
    for node in reversed(tree.nodes):
        step = node.step
        if step is not None and step.kind in MODEL_KINDS:
            _expose(node, exposed, homes)
        elif node in exposed:
            calls = exposed.pop(node)
            _settle(_join_twins(calls[::-1], tree) if calls[1:] else calls)
    _settle(exposed.get(None, ()))


def _expose(node: Node, exposed: dict[Node | None, list[Node]], homes: dict[Node, Node]) -> None:
    """Show a call, or those below it that are the calls, to what is above: the call, or else the
    barrier or the root, that it lies in.
    """
    seen = [node]
    if node in exposed:
        below = exposed.pop(node)[::-1]
        seen = (_decide_server if _is_server(node) else _decide)(node, below)
    exposed.setdefault(_home(node, HOLDERS, homes), []).extend(reversed(seen))


def _home(node: Node, kinds: Container[StepKind], homes: dict[Node, Node]) -> Node | None:
    """The nearest step of these kinds above a node, else the root; None above the root. Ways are
    remembered in `homes`, for they may be as long as the trace.
    """
    above = node.parent
    if above is None or (above.step is not None and above.step.kind in kinds):
        return above
    way: list[Node] = []
    while above.parent is not None and above not in homes:
        if above.step is not None and above.step.kind in kinds:
            break
        way.append(above)
        above = above.parent
    home = homes.get(above, above)
    for passed in way:
        homes[passed] = home
    return home


def _settle(calls: Sequence[Node]) -> None:
    """A server's view without a client's is the call itself."""
    for call in calls:
        if call.step is not None and call.step.kind == StepKind.SERVER_CALL:
            call.step = replace(call.step, kind=StepKind.MODEL_CALL)
            call.server = call


def _is_server(node: Node) -> bool:
    return node.step is not None and node.step.kind == StepKind.SERVER_CALL


def _decide(outer: Node, below: list[Node]) -> list[Node]:
    """Which of a candidate and those below it are the calls. Returns what stays visible to the span
    above.
    """
    if not below:
        return [outer]
    for server in filter(_is_server, below):
        outer.server = outer.server or server
    inner = [call for call in below if not _is_server(call)]
    good = [call for call in inner if call.step is not None and not call.step.is_error]
    carriers = [call for call in good if call.facts.has_usage]
    if not inner:
        return [outer]
    if outer.facts.has_usage and not carriers and inner[1:]:
        for detail in inner:
            _absorb(detail, outer)
        return [outer]
    if inner[1:] or (carriers and not inner[0].facts.is_record):
        if len(good) == 1:
            _lend(outer, good[0])
        _absorb(outer, good[0] if good else inner[0])
        return inner
    _lend(inner[0], outer)
    _absorb(inner[0], outer)
    return [outer]


def _decide_server(server: Node, below: list[Node]) -> list[Node]:
    """A gateway above an engine: the engine's own figures matter, the gateway is the outer
    interval.
    """
    inner, clients = (
        [call for call in below if _is_server(call)],
        [call for call in below if not _is_server(call)],
    )
    if inner and server.step is not None and inner[0].step is not None:
        facts = _filled(server.facts, inner[0].facts, inner[0].start - server.start)
        server.take(replace(server.step, model=facts))
    for call in inner:
        _absorb(call, server)
    return [server, *clients]


def _absorb(node: Node, call: Node) -> None:
    """This span is no step of its own: it describes `call`."""
    call.server = call.server or node.server
    node.absorbed, node.step = call, None


def _lend(lender: Node, call: Node) -> None:
    """Fill in what the call lacks from a span that describes the same one."""
    if lender.step is None or call.step is None:
        return
    facts = _filled(call.facts, lender.facts, lender.start - call.start)
    content = _filled_content(call.step.content, lender.step.content)
    call.take(replace(call.step, model=facts, content=content))


def _filled(own: ModelFacts, other: ModelFacts, shift_ns: int) -> ModelFacts:
    """`own` with gaps filled from `other`, whose span starts `shift_ns` later; its first-token
    times move with it.
    """
    shifted = tuple(
        replace(claim, after_ns=claim.after_ns + shift_ns) for claim in other.ttft_claims
    )
    values = {
        name: getattr(own, name) if getattr(own, name) is not None else getattr(other, name)
        for name in (
            "model",
            "provider",
            "streamed",
            "attempt_start_ns",
            "last_token_ns",
            "queue_ns",
            "prefill_ns",
            "decode_ns",
            "tpot_ns",
            "response_id",
            "finish_reason",
            "attempts",
        )
    }
    return ModelFacts(
        tokens=_filled_tokens(own.tokens, other.tokens),
        ttft_claims=own.ttft_claims + shifted,
        ends_early=own.ends_early,
        ends_after_tools=own.ends_after_tools,
        holds_rounds=own.holds_rounds,
        **values,
    )


def _filled_tokens(own: Tokens, other: Tokens) -> Tokens:
    """Counts are taken whole from one span: two instrumentations may count differently."""
    return (
        own
        if own.input is not None or own.output is not None
        else replace(other, refused=own.refused + other.refused)
    )


def _filled_content(own: Content | None, other: Content | None) -> Content | None:
    return own.borrowing(other) if own is not None and other is not None else own or other


# --- twins --------------------------------------------------------------------------------------


def _join_twins(calls: list[Node], tree: Tree) -> list[Node]:
    """Of siblings that are one call, the one that knows more stays."""
    kept: list[Node] = []
    for call in sorted(calls, key=Node.order):
        twin = _twin(call, kept, _are_twins)
        if twin is None:
            kept.append(call)
            continue
        stays, goes = sorted((twin, call), key=_knowledge, reverse=True)
        if _is_server(goes) and not _is_server(stays):
            stays.server = stays.server or goes
        else:
            _lend(goes, stays)
            _absorb(goes, stays)
        tree.notes.append(Note("twin_spans", tuple(sorted((stays.id, goes.id)))))
        kept[kept.index(twin)] = stays
    return kept


def _twin(node: Node, kept: Sequence[Node], are_twins: Callable[[Node, Node], bool]) -> Node | None:
    """Which of the last few siblings, in order, is the same call. One that had ended is not."""
    for other in kept[-NEAR:]:
        if other.end > node.start and are_twins(other, node):
            return other
    return None


def _knowledge(node: Node) -> tuple[bool, bool, bool]:
    facts = node.facts
    return (not _is_server(node), facts.has_usage, bool(facts.ttft_claims))


def _are_twins(a: Node, b: Node) -> bool:
    shared = min(a.end, b.end) - max(a.start, b.start)
    one, two = a.facts, b.facts
    if shared <= 0:
        return False
    if one.response_id is not None and one.response_id == two.response_id:
        return True
    if one.response_id is not None and two.response_id is not None:
        return False
    if a.span.scope == b.span.scope:
        return _is_same_span(a, b)
    return shared >= TWIN_OVERLAP * max(a.duration, b.duration) and not _contradict(
        one.tokens, two.tokens
    )


def _is_same_span(a: Node, b: Node) -> bool:
    """One span that was exported under two ids."""
    return (
        (a.start, a.end, a.span.name) == (b.start, b.end, b.span.name)
        and a.span.attributes == b.span.attributes
        and a.duration > 0
    )


def _contradict(one: Tokens, two: Tokens) -> bool:
    pairs = ((one.input, two.input), (one.output, two.output))
    return any(a is not None and b is not None and a != b for a, b in pairs)


# --- tools --------------------------------------------------------------------------------------


def join_tools(tree: Tree) -> None:
    """A tool span inside a tool span of the same name, and a tool's server side, are that tool's
    call.
    """
    tools = [node for node in tree.nodes if node.step is not None and node.step.kind in TOOLS]
    homes: dict[Node, Node] = {}
    for tool in tools:
        above = _home(tool, STEPS, homes)
        _join_to_outer(tool, above if above is not None and _is_tool_call(above) else None)
    if tools[1:]:
        parents = {tool.parent for tool in tools}
        for parent in tree.nodes:
            if parent in parents:
                _join_tool_twins(parent, tree)


def _is_tool_call(node: Node) -> bool:
    return node.step is not None and node.step.kind is StepKind.TOOL_CALL


def _join_to_outer(tool: Node, outer: Node | None) -> None:
    """`outer`: the tool call around it with nothing but plain spans between."""
    step = tool.step
    if step is None:
        return
    if outer is None:
        if step.kind is StepKind.TOOL_SERVER:
            tool.step = replace(step, kind=StepKind.TOOL_CALL)
    elif step.kind is StepKind.TOOL_SERVER or _is_same_tool(outer.step, step):
        outer.step = _with_inner(outer.step, step)
        tool.absorbed, tool.step = outer, None


def _is_same_tool(outer: Step | None, inner: Step) -> bool:
    return outer is not None and (
        outer.name.casefold() == inner.name.casefold() or inner.dialect == "mcp"
    )


def _with_inner(outer: Step | None, inner: Step) -> Step:
    """The outer span's step with what only the inner one knows: that it failed, and its content."""
    assert outer is not None
    return replace(
        outer,
        is_error=outer.is_error or inner.is_error,
        error_type=outer.error_type or inner.error_type,
        call_id=outer.call_id or inner.call_id,
        content=_filled_content(outer.content, inner.content),
        arguments_refused=outer.arguments_refused or inner.arguments_refused,
    )


def _join_tool_twins(parent: Node, tree: Tree) -> None:
    """Two instrumentations that each wrote a span of one tool call, side by side; or its client and
    the MCP server that it called, to whose tool's name clients add the server's.
    """
    kept: list[Node] = []
    for node in parent.children:
        if node.step is None or node.step.kind is not StepKind.TOOL_CALL:
            continue
        twin = _twin(node, kept, _are_tool_twins)
        if twin is None:
            kept.append(node)
        else:
            twin.step = _with_inner(twin.step, node.step)
            node.absorbed, node.step = twin, None
            tree.notes.append(Note("twin_spans", tuple(sorted((twin.id, node.id)))))


def _holds(outer: Node, inner: Node) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _are_tool_twins(a: Node, b: Node) -> bool:
    one, two = a.step, b.step
    if one is None or two is None:
        return False
    if two.dialect == "mcp" and b.span.kind == KIND_SERVER and _holds(a, b):
        return re.search(rf"(^|\W|_){re.escape(two.name)}$", one.name) is not None
    if one.name != two.name:
        return False
    shared = min(a.end, b.end) - max(a.start, b.start)
    if a.span.scope == b.span.scope:
        return one.call_id is not None and _is_same_span(a, b)
    if one.call_id and two.call_id and one.call_id != two.call_id:
        return False
    return shared > 0 and shared >= TWIN_OVERLAP * max(a.duration, b.duration)
