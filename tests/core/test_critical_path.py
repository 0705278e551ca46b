"""The walk: which span the request was waiting for, at every nanosecond.

The cases of Jaeger UI and of Uber's CRISP stand here with their own answers. Theirs are plain
spans, so every slice is framework; what is compared is whose slice it is. (Their times, µs from
zero, were moved to 2026.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given

from tests.builders import Branch, agent, chat, guardrail, http, plain, tool, wait
from tests.core.forests import forests
from tests.core.reading import analyzed, document_of, fixture_spans, path
from tracebudget.core.report import build_report
from tracebudget.core.span import Span
from tracebudget.core.step import WORK, StepKind
from tracebudget.core.tree import Node, build_tree


def owners(*tops: Branch) -> list[tuple[str, float, float]]:
    """(span id, from, until) of each slice."""
    return [(str(span_id), start, end) for _, start, end, span_id in path(analyzed(*tops))]


# --- plain spans ----------------------------------------------------------------------------------


def test_children_one_after_another_and_the_gaps_are_the_parents() -> None:
    """
    root  |--------------------|
      a      |----|
      b              |---|
    """
    assert owners(plain(0, 100, plain(10, 40, id="a"), plain(60, 80, id="b"), id="root")) == [
        ("root", 0, 10),
        ("a", 10, 40),
        ("root", 40, 60),
        ("b", 60, 80),
        ("root", 80, 100),
    ]


def test_a_child_that_ends_as_the_next_begins_is_on_the_path() -> None:
    """
    root  |--------------|
      a   |------|
      b          |-------|     the normal case of a sequential turn
    """
    assert owners(agent(0, 100, tool(0, 50, id="a"), tool(50, 100, id="b"))) == [
        ("a", 0, 50),
        ("b", 50, 100),
    ]


def test_of_overlapping_children_the_last_to_end_is_waited_for() -> None:
    """
    root  |--------------|
      a    |------|
      b       |------|         from 20 on; before it a
    """
    assert owners(agent(0, 100, tool(10, 50, id="a"), tool(20, 60, id="b"), id="root")) == [
        ("root", 0, 10),
        ("a", 10, 20),
        ("b", 20, 60),
        ("root", 60, 100),
    ]


def test_a_child_that_still_runs_at_the_cursor_is_no_gap() -> None:
    """
    root  |------------------|
      a     |------------|           Jaeger UI drops a here, and calls 10..40 the root's own;
      b           |--------|         two parallel tools must never become framework
    """
    assert owners(agent(0, 100, tool(10, 90, id="a"), tool(40, 95, id="b"), id="root")) == [
        ("root", 0, 10),
        ("a", 10, 40),
        ("b", 40, 95),
        ("root", 95, 100),
    ]


def test_a_short_child_inside_a_longer_one_is_beside_the_path() -> None:
    assert owners(agent(0, 100, tool(0, 100, id="a"), tool(30, 50, id="b"))) == [("a", 0, 100)]


def test_children_are_walked_the_same_way() -> None:
    """
    root  |----------------|
      t     |------------|
        http  |---|   |-|         an HTTP client inside the tool
    """
    assert owners(
        agent(
            0,
            100,
            tool(10, 90, http(20, 50, id="h"), http(60, 80, id="i"), id="t"),
            id="root",
        )
    ) == [
        ("root", 0, 10),
        ("t", 10, 90),  # all of it belongs to the tool
        ("root", 90, 100),
    ]


# --- ties -----------------------------------------------------------------------------------------


def test_of_two_that_run_at_the_cursor_the_later_start_wins() -> None:
    """
    a  |---------|
    b     |------|      both end at 100
    """
    assert owners(agent(0, 100, tool(0, 100, id="a"), tool(30, 100, id="b"))) == [
        ("a", 0, 30),
        ("b", 30, 100),
    ]


def test_of_two_with_one_start_the_later_end_wins() -> None:
    """Beyond the parent's end one lasts longer: the cursor sees both as 100."""
    assert owners(
        agent(0, 100, tool(0, 50, id="z"), tool(60, 110, id="a"), tool(60, 120, id="b"), id="root")
    )[-1] == ("b", 60, 100)


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_of_two_that_are_equal_the_id_decides(order: tuple[str, str]) -> None:
    one, two = order
    assert owners(agent(0, 100, tool(0, 100, id=one), tool(0, 100, id=two))) == [("a", 0, 100)]


# --- empty spans hide nothing ---------------------------------------------------------------------


def test_an_empty_span_never_hides_work_beside_it() -> None:
    """
    root   |------------------|
      call   |----------|
      span     |------------|      nothing typed below it: its own only where nothing else was
    """
    assert owners(agent(0, 100, chat(10, 70, id="call"), plain(20, 90, id="span"), id="root")) == [
        ("root", 0, 10),
        ("call", 10, 70),
        ("span", 70, 90),
        ("root", 90, 100),
    ]


def test_an_agent_span_left_open_hides_nothing() -> None:
    """
    root     |-----------------------------|
      sub      |---chat---|................     left open until the end
      call                   |---chat---|       the caller went on
    """
    sub = agent(10, 200, chat(10, 80, id="c1"), id="sub")
    assert owners(agent(0, 200, sub, chat(100, 180, id="c2"), id="root")) == [
        ("root", 0, 10),
        ("c1", 10, 80),
        ("sub", 80, 100),
        ("c2", 100, 180),
        ("sub", 180, 200),
    ]


def test_a_span_competes_with_the_hull_of_the_work_below_it() -> None:
    """
    node    |--------------------|      10..90, its tool 30..60: competes with 30..60
      t         |------|
    other         |------------|        40..80
    """
    node = plain(10, 90, tool(30, 60, id="t"), id="node")
    assert owners(agent(0, 100, node, tool(40, 80, id="other"), id="root")) == [
        ("root", 0, 10),
        ("node", 10, 30),
        ("t", 30, 40),
        ("other", 40, 80),
        ("node", 80, 90),
        ("root", 90, 100),
    ]


def test_a_gap_inside_the_hull_is_covered_by_the_hull() -> None:
    """
    node    |--t--|....|--u--|        the gap is the node's own, whatever empty span runs beside
    empty      |----------|
    """
    node = plain(0, 100, tool(0, 30, id="t"), tool(70, 100, id="u"), id="node")
    assert owners(agent(0, 100, node, plain(20, 80, id="empty"))) == [
        ("t", 0, 30),
        ("node", 30, 70),
        ("u", 70, 100),
    ]


def test_a_guardrail_that_does_nothing_itself_hides_no_call() -> None:
    assert owners(agent(0, 100, chat(0, 90, id="c"), guardrail(10, 95, id="g"), id="root")) == [
        ("c", 0, 90),
        ("g", 90, 95),
        ("root", 95, 100),
    ]


def test_spans_of_no_length_take_no_time() -> None:
    assert owners(agent(0, 100, chat(0, 60, id="c"), plain(60, 60), plain(70, 70), id="root")) == [
        ("c", 0, 60),
        ("root", 60, 100),
    ]


def test_a_wait_is_work_of_a_person() -> None:
    """A person decides while another tool runs: what ends last is waited for."""
    assert owners(agent(0, 100, tool(0, 60, id="t"), wait(20, 90, id="w"), id="root")) == [
        ("t", 0, 20),
        ("w", 20, 90),
        ("root", 90, 100),
    ]


def test_what_reaches_out_of_its_parent_is_clipped_to_it() -> None:
    """
    node    |--------|
      t   |------------|
    """
    assert owners(agent(0, 100, plain(20, 60, tool(10, 80, id="t")), tool(90, 95), id="root"))[
        :3
    ] == [
        ("root", 0, 20),
        ("t", 20, 60),
        ("root", 60, 90),
    ]


# --- the cases of Jaeger UI -----------------------------------------------------------------------


def shares(name: str) -> list[tuple[str, float, float]]:
    """(span name, from, until) of each slice of a fixture, in µs from the root's start."""
    spans = fixture_spans(f"critical_path/{name}.json")
    names = {span.span_id: span.name for span in spans}
    return [
        (
            names[piece["span_id"]],
            piece["start_ns"] / 1000,
            (piece["start_ns"] + piece["duration_ns"]) / 1000,
        )
        for piece in document_of(spans)["path"]
    ]


def test_jaeger_1_two_children_in_a_row() -> None:
    """
    C  |---------------------------|  1..101
    D       |-----|                   20..40
    E                |---|            50..60         as in Jaeger UI
    """
    assert shares("jaeger-1") == [
        ("operation C", 0, 19),
        ("operation D", 19, 39),
        ("operation C", 39, 49),
        ("operation E", 49, 59),
        ("operation C", 59, 100),
    ]


def test_jaeger_2_two_children_that_overlap() -> None:
    """
    op1  |--------------------------|  1..101
    op2    |---------|                 10..50
    op3       |---------|              20..60

    Jaeger UI leaves op2 out, since it still runs when op3 begins, and gives 10..20 to op1. Nothing
    waits for nothing: until 20 it was op2.
    """
    assert shares("jaeger-2") == [
        ("op1", 0, 9),
        ("op2", 9, 19),
        ("op3", 19, 59),
        ("op1", 59, 100),
    ]


def test_jaeger_5_a_message_that_nobody_waits_for() -> None:
    """
    A  |-------------|     1..31, a producer
    B     |----|           its consumer: not on the path, as in Jaeger UI
    C      |-|
    """
    assert shares("jaeger-5") == [("op-A", 0, 30)]


def test_jaeger_6_a_child_that_overruns_and_a_grandchild_that_begins_too_early() -> None:
    """
    A  |-----------------|         1..30
    B         |-------------|      15..35: clipped to A
    C      |----------|            10..25: clipped to B          as in Jaeger UI
    """
    assert shares("jaeger-6") == [("op-A", 0, 14), ("op-C", 14, 24), ("op-B", 24, 29)]


# --- the cases of CRISP ---------------------------------------------------------------------------


def test_crisp_10_children_that_overlap_by_a_little() -> None:
    """
    O1  |----------------------------------|  0..1000
    O2    |-------|                           10..210
    O3            |----|                      209..309: began before O2 had ended
    O4                 |----------|           308..608

    CRISP takes overlaps of 1 µs for skew of the clock and counts both spans whole: 400 for O1, 200,
    100, 300. Ours tile the clock: what both claim goes to the later one.
    """
    assert shares("crisp-10") == [
        ("O1", 0, 10),
        ("O2", 10, 209),
        ("O3", 209, 308),
        ("O4", 308, 608),
        ("O1", 608, 1000),
    ]


def test_crisp_15_failed_attempts_are_waited_for_too() -> None:
    """
    O1  |-x--x--x--x--x--|---------|  0..100: five failed O2 of 10, then O3 85..100
                                      times in the file end at 100

    CRISP leaves failed calls out of its path: 35 for O1, 15 for O3, 50 saved. The user waited for
    them, so they are on ours.
    """
    found = shares("crisp-15")
    total = {name: sum(end - start for n, start, end in found if n == name) for name, *_ in found}
    assert total == {"O1": 35, "O2": 50, "O3": 15}


# --- the rule, word by word -----------------------------------------------------------------------

Interval = tuple[int, int]


def walked(node: Node, start: int, end: int) -> Iterator[tuple[int, int, Node]]:
    """The walk through a stretch of a span as the rule says it: slow, recursive and plain.

    First the work below its children competes; where none of it covers, the children themselves;
    what is left is its own.
    """
    for begin, until, child in last_to_end(node, competing, start, end):
        if child is not None:
            yield from walked(child, begin, until)
            continue
        for inner_begin, inner_until, cover in last_to_end(node, lasting, begin, until):
            if cover is not None:
                yield from walked(cover, inner_begin, inner_until)
            else:
                yield inner_begin, inner_until, node


def last_to_end(
    node: Node, interval_of: Callable[[Node], Interval | None], start: int, end: int
) -> Iterator[tuple[int, int, Node | None]]:
    """At the cursor, of the children that started before it, the one with the greatest
    min(end, cursor); ties: latest start, then later end, then id. None where no child covers.
    """
    intervals = {child: interval_of(child) for child in node.children if not child.background}
    cursor = end
    while cursor > start:
        began = [
            (min(i[1], cursor), i[0], i[1], child)
            for child, i in intervals.items()
            if i is not None and i[0] < cursor and i[1] > start
        ]
        best = max((row[:3] for row in began), default=None)
        if best is None:
            yield start, cursor, None
            return
        winner = min((row[3] for row in began if row[:3] == best), key=lambda child: child.id)
        if best[0] < cursor:
            yield best[0], cursor, None
        yield max(best[1], start), best[0], winner
        cursor = max(best[1], start)


def is_work(node: Node) -> bool:
    return node.step is not None and node.step.kind in WORK


def competing(node: Node) -> Interval | None:
    """A model or tool call competes with its own interval, any other span with the hull of the
    work below it, clipped to itself.
    """
    if is_work(node):
        return node.start, node.end
    below = [competing(child) for child in node.children if not child.background]
    hulls = [hull for hull in below if hull is not None]
    if not hulls:
        return None
    start, end = min(h[0] for h in hulls), max(h[1] for h in hulls)
    clipped = max(start, node.start), min(end, node.end)
    return clipped if clipped[0] < clipped[1] else None


def lasting(node: Node) -> Interval | None:
    """What is no work covers time where no sibling's work does."""
    return None if is_work(node) or node.start >= node.end else (node.start, node.end)


@given(forests())
def test_the_walk_is_what_the_rule_says(trace: list[Span]) -> None:
    """Every step has as much of the path at and below it as the slow walk finds there. A server's
    view of a call and a workflow without one have no time of their own.
    """
    report = build_report(build_tree(trace))
    root = report.tree.root
    critical = dict.fromkeys(filter(takes_time, report.steps), 0)
    for start, end, owner in walked(root, root.start, root.end):
        at: Node | None = owner
        while at is not None:
            if at in critical:
                critical[at] += end - start
            at = at.parent
    assert {node: node.critical_ns for node in critical} == critical


def takes_time(node: Node) -> bool:
    return is_work(node) or (
        node.step is not None and node.step.kind in {StepKind.AGENT, StepKind.GUARDRAIL}
    )
