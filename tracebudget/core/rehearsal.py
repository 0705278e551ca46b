"""What a replay starts from: for each span, which of its children had ended when the next began.

Made once a span, when a replay first reaches it, and shared by all replays of one request.
"""

from __future__ import annotations

from tracebudget.core.tree import Node, Tree

TOUCH_NS = 1_000_000  # siblings that overlap by less were one after the other


class Rehearsal:
    """A span's children as they were. Children count as far as their parent contains them.

    `waits[i]`: how many of `by_end` had ended when child i began; `was[i]`: their latest end.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self.children = [
            c
            for c in node.children
            if not c.background and c.end > node.start and c.start < node.end
        ]
        self.place = {child: index for index, child in enumerate(self.children)}
        self.by_end = sorted(self.children, key=lambda child: child.end)
        self.waits: list[int] = []
        self.was: list[int] = []
        ended, was = 0, node.start
        for index, child in enumerate(self.children):
            while self.has_ended(ended, child.start, index):
                was = max(was, self.end(self.by_end[ended]))
                ended += 1
            self.waits.append(ended)
            self.was.append(was)

    def end(self, child: Node) -> int:
        """A child's end, as far as the parent contains it."""
        return min(child.end, self.node.end)

    def has_ended(self, position: int, moment: int, begun: int) -> bool:
        """The child at this position of `by_end` ended by a moment at which `begun` had begun."""
        if position == len(self.by_end):
            return False
        child = self.by_end[position]
        return self.end(child) <= moment + TOUCH_NS and self.place[child] < begun


class Rehearsals:
    """The rehearsals of one request, made as they are asked for."""

    def __init__(self, tree: Tree) -> None:
        self.order = {node: index for index, node in enumerate(tree.nodes)}  # parents first
        self.made: dict[Node, Rehearsal] = {}

    def of(self, node: Node) -> Rehearsal:
        """The rehearsal of a span's children."""
        rehearsal = self.made.get(node)
        if rehearsal is None:
            rehearsal = self.made[node] = Rehearsal(node)
        return rehearsal
