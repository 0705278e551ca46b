"""From a heap of spans to one tree: repeats, orphans, cycles, false times and skewed clocks are
settled here, once.

The result depends on the set of spans alone, never on the order in which they arrived: everything
is sorted first. Nothing raises and nothing is dropped; every assumption leaves a note.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tracebudget.core.dialects import PLAIN, Reading
from tracebudget.core.record import record
from tracebudget.core.span import KIND_CONSUMER, KIND_SERVER, Span
from tracebudget.core.step import ModelFacts, Step
from tracebudget.core.ttft import NO_TTFT, Ttft

if TYPE_CHECKING:  # what is found out later, and noted on the node
    from tracebudget.core.run import Scope, Turn

MISSING = "missing span"  # what a placeholder is called
YEAR_2000_NS = 946_684_800 * 1_000_000_000  # times before it are a wrong unit, or a test


@record
class Note:
    """An assumption, or a doubt about the data: becomes a data-quality finding."""

    code: str
    span_ids: tuple[str, ...]
    evidence: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Node:
    """A span in its place, and what is found out about it. `start` and `end` are for attribution
    and may be corrected; the span is as received.

    A placeholder for a span that is not here has an empty `Span` with the missing id. The last
    fields are there only when what they say is settled: asked before, they raise AttributeError.
    """

    span: Span
    start: int
    end: int
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    is_placeholder: bool = False
    detached: bool = False  # part of a cycle that was cut: listed, never counted
    reading: Reading = PLAIN
    step: Step | None = None
    absorbed: Node | None = None  # this span describes the same call as that one
    ttft: Ttft = NO_TTFT
    server: Node | None = None  # the inference server's view of this call
    attempt: int = 0
    background: bool = False
    turn: Turn | None = None  # in which a step stands; not in the background, nor outside all runs
    critical_ns: int = 0  # of the request's path, at or below
    # of a model or server call: those of its step
    facts: ModelFacts = field(init=False, repr=False)
    # whose work it is
    scope: Scope = field(init=False, repr=False)
    # the nearest typed step at or above to which its time belongs
    owner: Node | None = field(init=False, repr=False)
    # of the work at or below it, None where there is none (critical_path.py)
    hull: tuple[int, int] | None = field(init=False, repr=False)
    # the path may go on to what is below it
    is_entered: bool = field(init=False, repr=False)

    @property
    def id(self) -> str:
        return self.span.span_id

    @property
    def duration(self) -> int:
        return self.end - self.start

    def take(self, step: Step | None) -> None:
        """Become this step."""
        self.step = step
        if step is not None and step.model is not None:
            self.facts = step.model

    def order(self) -> tuple[int, int, str]:
        """Steps and siblings stand in this order: start, later end, id."""
        return (self.start, -self.end, self.span.span_id)


@dataclass(slots=True)
class Tree:
    """One trace, rooted. `nodes` are in depth-first order, parents before children."""

    root: Node
    nodes: list[Node]
    notes: list[Note]
    missing_parents: list[str]
    has_true_root: bool
    orphan_root: bool  # the root names a parent that is not here
    is_running: bool = (
        False  # a placeholder says that the root began, and nothing yet that it ended
    )
    is_tight: bool = False  # every span lies within its parent


def build_tree(spans: Iterable[Span]) -> Tree:
    """Root, order and repair the spans of one trace. Raises ValueError for no spans at all."""
    notes: list[Note] = []
    unique = _unique(spans, notes)
    if not unique:
        raise ValueError("a trace needs at least one span")
    nodes = [Node(span, span.start_ns, span.end_ns) for span in unique]
    orphans, tops = _link(nodes, notes)
    root, missing = _rooted(tops, orphans, notes)
    tree = Tree(
        root,
        subtree(root),
        notes,
        missing,
        bool(tops),
        not tops and not root.is_placeholder and bool(root.span.parent_id),
    )
    _mend_times(tree)
    _mend_skew(tree)
    return tree


def relist(tree: Tree) -> None:
    """Find all children anew after nodes got other parents, and list the nodes. A node without a
    parent is gone.
    """
    for node in tree.nodes:
        node.children = []
    for node in tree.nodes:
        if node.parent is not None:
            node.parent.children.append(node)
    for node in tree.nodes:
        if node.children[1:]:
            node.children.sort(key=Node.order)
    tree.nodes = subtree(tree.root)


def subtree(top: Node) -> list[Node]:
    """A node and all that is below it, depth first, parents before children."""
    nodes, stack = [], [top]
    while stack:
        node = stack.pop()
        nodes.append(node)
        if node.children:
            stack += node.children[::-1]
    return nodes


def ancestors(node: Node) -> Iterable[Node]:
    """From the parent up to the root."""
    above = node.parent
    while above is not None:
        yield above
        above = above.parent


# --- identity -----------------------------------------------------------------------------------


def _unique(spans: Iterable[Span], notes: list[Note]) -> list[Span]:
    """One span an identity (id, service, kind). Of two contents the one that ends later wins, with
    a note.
    """
    arrived = list(spans)
    if len({span.span_id for span in arrived}) == len(arrived):
        return sorted(arrived, key=_order)
    by_identity: dict[tuple[str, str, int], Span] = {}
    for span in arrived:
        identity = (span.span_id, span.service, span.kind)
        known = by_identity.get(identity)
        if known is None:
            by_identity[identity] = span
        elif known != span:
            winner = max(known, span, key=lambda s: (s.end_ns, s.start_ns, repr(s)))
            by_identity[identity] = winner
            notes.append(Note("span_conflict", (span.span_id,)))
    notes[:] = _once(notes)
    return sorted(by_identity.values(), key=lambda s: (*_order(s), s.service, s.kind))


def _order(span: Span) -> tuple[int, int, str]:
    return span.start_ns, -span.end_ns, span.span_id


def _once(notes: Sequence[Note]) -> list[Note]:
    return list({(note.code, note.span_ids): note for note in notes}.values())


# --- parents ------------------------------------------------------------------------------------


def _link(nodes: list[Node], notes: list[Note]) -> tuple[list[Node], list[Node]]:
    """Hang every node below its parent. Returns the orphans and the nodes that name no parent."""
    _find_parents(nodes)
    orphans, tops, may_be_ring = list[Node](), list[Node](), False
    for node in nodes:
        parent = node.parent
        if parent is not None:
            parent.children.append(node)
            # in a ring, not every parent can be the earlier one
            may_be_ring = may_be_ring or parent.start >= node.start
        elif node.span.parent_id and node.span.parent_id != node.id:
            orphans.append(node)
        else:
            tops.append(node)
            if node.span.parent_id:
                notes.append(Note("parent_cycle", (node.id,)))
    if may_be_ring:
        _cut_cycles(nodes, orphans, notes)
    return orphans, tops


def _find_parents(nodes: list[Node]) -> None:
    """Tell every node the span that its parent id means."""
    only = {node.span.span_id: node for node in nodes}
    if len(only) == len(nodes):  # no two spans share an id
        for node in nodes:
            parent = only.get(node.span.parent_id)
            if parent is not node:
                node.parent = parent
        return
    by_id: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        by_id[node.id].append(node)
    for node in nodes:
        node.parent = _half_named(node, by_id)


def _half_named(node: Node, by_id: dict[str, list[Node]]) -> Node | None:
    """The span that a parent id means. Client and server halves may share an id: the server half
    hangs below the client half, and their children below the half of their own service, the
    server's first.
    """
    named, halves = by_id.get(node.span.parent_id, []), by_id[node.id]
    if len(halves) > 1 and node.span.kind in {KIND_SERVER, KIND_CONSUMER}:
        client = next(
            (half for half in halves if half.span.kind not in {KIND_SERVER, KIND_CONSUMER}), None
        )
        if client is not None:
            return client
    candidates = [other for other in named if other is not node]
    if node.span.parent_id == node.id or not candidates:
        return None
    same_service = [other for other in candidates if other.span.service == node.span.service]
    serving = [other for other in candidates if other.span.kind in {KIND_SERVER, KIND_CONSUMER}]
    return (same_service or serving or candidates)[0]


def _cut_cycles(nodes: list[Node], orphans: list[Node], notes: list[Note]) -> None:
    """Cut each ring once, at its first node in order; its members are detached from what is
    counted.
    """
    settled: set[Node] = set()
    for node in nodes:
        if node.parent is None or node.parent.start < node.start:
            continue
        trail: list[Node] = []
        on_trail: set[Node] = set()
        at: Node | None = node
        while at is not None and at not in settled and at not in on_trail:
            trail.append(at)
            on_trail.add(at)
            at = at.parent
        if at is not None and at in on_trail:
            ring = trail[trail.index(at) :]
            first = min(ring, key=Node.order)
            if first.parent is not None:
                first.parent.children.remove(first)
            first.parent, first.detached = None, True
            orphans.append(first)
            notes.append(Note("parent_cycle", tuple(sorted(member.id for member in ring))))
        settled |= on_trail


# --- the root -----------------------------------------------------------------------------------


def _rooted(tops: list[Node], orphans: list[Node], notes: list[Note]) -> tuple[Node, list[str]]:
    """Choose or make the root, and hang the rest below it; one placeholder for each parent that is
    not here.
    """
    if len(tops) == 1 and not orphans:
        return tops[0], []
    lost = [node for node in orphans if not node.detached]
    missing = sorted({node.span.parent_id for node in lost})
    root = _local_root(tops, orphans)
    if root is None:
        root = _synthetic(tops or orphans, missing[0] if not tops and len(missing) == 1 else "")
        notes.append(Note("missing_root", tuple(node.id for node in tops or orphans)))
    for node in tops:
        _hang(node, root)
    families: dict[str, list[Node]] = {parent_id: [] for parent_id in missing}
    for node in lost:
        if node is not root:
            families[node.span.parent_id].append(node)
    for parent_id, family in families.items():
        _hang_family(parent_id, family, root, notes)
    for node in orphans:
        if node.detached:
            _hang(node, root)
    root.children.sort(key=Node.order)
    return root, missing


def _local_root(tops: list[Node], orphans: list[Node]) -> Node | None:
    """The one span without a parent; of several that which covers the rest; of orphans that which
    covers all.
    """
    if len(tops) == 1:
        return tops[0]
    candidates = tops or [node for node in orphans if not node.detached] or orphans
    if len(candidates) == 1:
        return candidates[0]
    first, last = min(node.start for node in candidates), max(node.end for node in candidates)
    return next((node for node in candidates if node.start == first and node.end >= last), None)


def _hang(node: Node, root: Node) -> None:
    if node is not root:
        node.parent = root
        root.children.append(node)


def _hang_family(parent_id: str, family: list[Node], root: Node, notes: list[Note]) -> None:
    """The orphans of one missing parent: below a placeholder, which is the root itself if it was
    made for them.
    """
    if not family:
        return
    notes.append(Note("missing_parent", tuple(node.id for node in family), {"parent": parent_id}))
    if root.is_placeholder and root.id == parent_id:
        home = root
    else:
        home = _synthetic(family, parent_id)
        _hang(home, root)
    for node in family:
        _hang(node, home)


def _synthetic(nodes: Sequence[Node], span_id: str) -> Node:
    """A stand-in over all nodes, under the missing id where one is known."""
    first, last = min(nodes, key=lambda n: n.start), max(nodes, key=lambda n: n.end)
    span = Span(
        trace_id=first.span.trace_id,
        span_id=span_id,
        parent_id="",
        name=MISSING,
        kind=0,
        start_ns=first.start,
        end_ns=last.end,
        attributes={},
        resource=first.span.resource,
    )
    return Node(span, first.start, max(last.end, first.start), is_placeholder=True)


# --- times --------------------------------------------------------------------------------------


def _mend_times(tree: Tree) -> None:
    """Say what is wrong with the times, and mend what can be."""
    early, has_odd_ends = list[str](), False
    for node in tree.nodes:
        if node.is_placeholder or node.end < node.start:
            has_odd_ends = True
        if node.start < YEAR_2000_NS and node.span.start_ns > 0 and not node.is_placeholder:
            early.append(node.id)
    if has_odd_ends:
        _mend_ends(tree)
    if early:
        tree.notes.append(Note("suspect_unit", tuple(sorted(early)), {"start_ns": tree.root.start}))


def _mend_ends(tree: Tree) -> None:
    """Ends before starts become zero lengths; an end that was never written is the last
    descendant's; a placeholder lasts as long as its children.
    """
    last: dict[Node, int] = {}  # the latest end at or below a node
    for node in reversed(tree.nodes):
        below = node.start
        for child in node.children:
            below = max(below, last[child])
        if node.is_placeholder:
            node.start = min((child.start for child in node.children), default=node.start)
            node.end = max((child.end for child in node.children), default=node.end)
        elif node.span.end_ns == 0 and node.span.start_ns != 0:
            node.end = max(below, node.start)
            tree.notes.append(Note("unfinished_span", (node.id,), {"assumed_end_ns": node.end}))
        elif node.end < node.start:
            tree.notes.append(
                Note("ends_before_start", (node.id,), {"by_ns": node.start - node.end})
            )
            node.end = node.start
        last[node] = below if below > node.end else node.end


# --- clocks of different hosts ------------------------------------------------------------------


HOST_KEYS = ("host.id", "host.name", "k8s.node.name", "host.ip")


def _host(node: Node) -> tuple[str, str] | None:
    """(service, host) of the sender, None where the host is unknown: then its clock may be the
    same.
    """
    resource = node.span.resource
    host = next((resource[key] for key in HOST_KEYS if resource.get(key)), None)
    return (node.span.service, str(host)) if host else None


def _mend_skew(tree: Tree) -> None:
    """One offset a pair of (service, host), to the middle of the parent, where children start
    before parents and fit.

    parent (host a)  |-----------------|
    child  (host b)    <-|-----|                   before its parent, would fit: moved
    """
    offsets = _offsets(tree)
    if not offsets:
        return
    shift_of: dict[Node, int] = {}
    for node in tree.nodes:
        if node.parent is not None:
            shift = shift_of.get(node.parent, 0) + offsets.get(_crossing(node), 0)
            shift_of[node] = shift
            node.start, node.end = node.start + shift, node.end + shift


def _offsets(tree: Tree) -> dict[Any, int]:
    """How far each sender's clock is behind that of the one above it, by the first child that
    proves it.
    """
    offsets: dict[Any, int] = {}
    for node in tree.nodes:
        parent = node.parent
        if parent is None or node.start >= parent.start or node.duration > parent.duration:
            continue
        pair = _crossing(node)
        if pair is not None and pair not in offsets:
            offsets[pair] = parent.start + (parent.duration - node.duration) // 2 - node.start
            tree.notes.append(Note("clock_skew", (node.id,), {"offset_ns": offsets[pair]}))
    return offsets


def _crossing(node: Node) -> tuple[Any, Any] | None:
    """The pair of senders where a span and its parent come from two hosts."""
    above, here = _host(node.parent) if node.parent else None, _host(node)
    return (above, here) if above and here and above[1] != here[1] else None
