"""From a heap of spans to one tree: repeats, orphans, rings, false times, skewed clocks."""

from __future__ import annotations

import itertools

import pytest

from tests.builders import agent, at, chat, make_span, make_trace, ns, plain, tool
from tests.core.reading import analyzed, document_of, notes, path, segments, step
from tracebudget.core.span import KIND_CLIENT, KIND_SERVER, Span
from tracebudget.core.tree import Node, build_tree


def shape(node: Node) -> dict[str, list[str]]:
    """Children of each span, by id."""
    below = {node.id: [child.id for child in node.children]}
    for child in node.children:
        below |= shape(child)
    return {span_id: children for span_id, children in below.items() if children}


def test_no_spans_are_no_trace() -> None:
    with pytest.raises(ValueError, match="at least one span"):
        build_tree([])


# --- identity -------------------------------------------------------------------------------------


def test_the_same_span_twice_is_one_span() -> None:
    spans = make_trace(agent(0, 100, chat(0, 60, input=50, output=10)))
    assert document_of(spans + spans) == document_of(spans)


@pytest.mark.parametrize("order", [[0, 1, 2], [0, 2, 1], [2, 0, 1], [2, 1, 0]])
def test_of_two_contents_the_later_end_wins(order: list[int]) -> None:
    """
    root  |----------| 100
    once  |---|               at first exported open, with what was known
    again |------|            then whole
    """
    root, once, again = (
        make_span("root", 0, 100, id="root"),
        make_span("chat", 0, 30, id="one", parent="root"),
        make_span("chat", 0, 60, id="one", parent="root"),
    )
    spans = [[root, once, again][index] for index in order]
    tree = build_tree(spans)
    assert [node.end for node in tree.nodes if node.id == "one"] == [at(60)]
    assert notes(document_of(spans))["span_conflict"]["span_ids"] == ["one"]


def test_two_contents_that_end_together_leave_one_answer_in_any_order() -> None:
    one = make_span("x", 0, 50, id="one", attributes={"a": 1})
    other = make_span("x", 0, 50, id="one", attributes={"a": 2})
    winners = [build_tree(spans).root.span for spans in ([one, other], [other, one])]
    assert winners[0] == winners[1]


def test_client_and_server_half_may_share_an_id() -> None:
    """
    gateway  root    |--------------|
             client    |----------|          id 2, kind CLIENT
    agent    server      |------|            id 2, kind SERVER: below the client half
             chat          |--|              parent 2: below the half of its own service
    """
    spans = [
        make_span("root", 0, 100, id="1", service="gateway"),
        make_span("call", 10, 90, id="2", parent="1", kind=KIND_CLIENT, service="gateway"),
        make_span("call", 20, 80, id="2", parent="1", kind=KIND_SERVER, service="agent"),
        make_span("chat", 30, 70, id="3", parent="2", service="agent"),
    ]
    for order in itertools.permutations(spans):
        tree = build_tree(order)
        services = [(node.id, node.span.service) for node in tree.nodes]
        assert services == [("1", "gateway"), ("2", "gateway"), ("2", "agent"), ("3", "agent")]
        assert [len(node.children) for node in tree.nodes] == [1, 1, 1, 0]
        assert not tree.notes


def test_both_halves_count_their_time_once() -> None:
    """One chat below the server half: 40 ms model, the rest framework, nothing twice."""
    client = make_span("call", 0, 100, id="2", kind=KIND_CLIENT, service="gateway")
    half = make_span("call", 10, 90, id="2", kind=KIND_SERVER, service="agent")
    call = make_trace(chat(30, 70, id="3", parent="2", service="agent"))
    assert segments(document_of([client, half, *call])) == {"decode": 40, "framework": 60}


# --- the root -------------------------------------------------------------------------------------


def test_one_span_without_a_parent_is_the_root_even_if_orphans_reach_beyond() -> None:
    """
    root    |-----|
    orphan      |------|       its parent never came
    """
    document = analyzed(plain(0, 50, id="root"), plain(40, 90, id="late", parent="gone"))
    assert document["name"] == "work"
    assert document["end_to_end_ns"] == ns(50)
    assert document["state"] == "complete"
    assert notes(document)["missing_parent"]["span_ids"] == ["late"]


def test_of_several_parentless_spans_the_one_that_covers_the_rest_is_the_root() -> None:
    """
    a    |-----|
    b  |----------|
    """
    tree = build_tree(make_trace(plain(10, 50, id="a"), plain(0, 100, id="b")))
    assert tree.root.id == "b"
    assert shape(tree.root) == {"b": ["a"]}
    assert not tree.notes


def test_several_parentless_spans_get_a_root_over_all() -> None:
    """
    a  |----|
    b     |----|
    """
    document = analyzed(plain(0, 60, id="a"), plain(40, 100, id="b"))
    assert document["end_to_end_ns"] == ns(100)
    assert (document["state"], document["state_reason"]) == ("incomplete", "missing_root")
    assert notes(document)["missing_root"]["span_ids"] == ["a", "b"]


def test_nothing_is_known_of_the_gaps_below_a_root_that_is_not_here() -> None:
    """
    a  |--|
    b         |--|        what the dots were, nobody knows: ../unattributed
    """
    document = analyzed(plain(0, 30, id="a"), plain(70, 100, id="b"))
    assert ("framework/unattributed", 30, 70, None) in path(document)


def test_one_placeholder_for_each_parent_that_is_not_here() -> None:
    """
    root  |---------------------|
    a, b    |--| |--|                  both name "gone"
    c                 |--|             names "lost"
    """
    tree = build_tree(
        make_trace(
            plain(0, 100, id="root"),
            plain(10, 20, id="a", parent="gone"),
            plain(30, 40, id="b", parent="gone"),
            plain(60, 80, id="c", parent="lost"),
        )
    )
    assert shape(tree.root) == {"root": ["gone", "lost"], "gone": ["a", "b"], "lost": ["c"]}
    assert [(n.id, n.start, n.end) for n in tree.nodes if n.is_placeholder] == [
        ("gone", at(10), at(40)),
        ("lost", at(60), at(80)),
    ]


def test_orphans_of_one_lost_parent_hang_below_it_as_root() -> None:
    """The lost root lasts from its first child to its last one."""
    tree = build_tree(
        make_trace(plain(10, 40, id="a", parent="gone"), plain(60, 90, id="b", parent="gone"))
    )
    assert (tree.root.id, tree.root.start, tree.root.end) == ("gone", at(10), at(90))
    assert tree.missing_parents == ["gone"]


def test_a_single_orphan_is_the_local_root() -> None:
    """Its own parent is elsewhere: this part of the trace starts here."""
    tree = build_tree(make_trace(plain(0, 100, plain(10, 20, id="b"), id="a", parent="elsewhere")))
    assert shape(tree.root) == {"a": ["b"]}
    assert tree.orphan_root


def test_an_orphan_that_covers_all_other_orphans_is_the_root() -> None:
    """
    a  |---------|       parent "x"
    b    |---|           parent "y"
    """
    tree = build_tree(
        make_trace(plain(0, 100, id="a", parent="x"), plain(20, 60, id="b", parent="y"))
    )
    assert shape(tree.root) == {"a": ["y"], "y": ["b"]}


# --- rings ----------------------------------------------------------------------------------------


def test_a_span_that_is_its_own_parent_is_a_root() -> None:
    document = analyzed(agent(0, 100, chat(0, 60, id="call"), id="self", parent="self"))
    assert document["end_to_end_ns"] == ns(100)
    assert document["state"] == "complete"
    assert notes(document)["parent_cycle"]["span_ids"] == ["self"]


def test_a_ring_beside_the_root_is_listed_and_not_counted() -> None:
    """
    root   |---------|
    chat     |----|
    a -> b -> a              a ring of two tools: no time of this request
    """
    document = analyzed(
        agent(0, 100, chat(10, 60, id="call"), id="root"),
        tool(20, 90, name="fetch", id="a", parent="b"),
        tool(20, 90, name="parse", id="b", parent="a"),
    )
    assert segments(document) == {"decode": 50, "framework": 50}
    assert notes(document)["parent_cycle"]["span_ids"] == ["a", "b"]
    assert [step(document, span_id)["turn"] for span_id in "ab"] == [None, None]


def test_what_hangs_on_a_ring_is_detached_with_it() -> None:
    tree = build_tree(
        make_trace(
            plain(0, 100, id="root"),
            plain(0, 50, id="a", parent="b"),
            plain(0, 50, plain(10, 20, id="c"), id="b", parent="a"),
        )
    )
    assert shape(tree.root) == {"root": ["a"], "a": ["b"], "b": ["c"]}
    assert len(tree.notes) == 1


def test_a_trace_that_is_nothing_but_a_ring_is_analysed() -> None:
    document = analyzed(plain(0, 50, id="a", parent="b"), plain(10, 60, id="b", parent="a"))
    assert "parent_cycle" in notes(document)
    assert document["end_to_end_ns"] > 0


# --- times ----------------------------------------------------------------------------------------


def test_an_end_before_its_start_is_a_zero_length() -> None:
    document = analyzed(agent(0, 1000, chat(600, 350, id="call")))
    assert (step(document, "call")["start_ns"], step(document, "call")["duration_ns"]) == (
        ns(600),
        0,
    )
    assert notes(document)["ends_before_start"]["evidence"]["by_ns"] == ns(250)
    assert document["end_to_end_ns"] == ns(1000)


def test_an_end_that_was_never_written_is_the_last_descendants() -> None:
    """
    root  |---------- - - -         end 0
    chat    |----|
    tool            |-----| 900
    """
    document = analyzed(
        agent(0, 0, chat(0, 300), plain(400, 500, tool(450, 900, id="t")), id="root", end_ns=0)
    )
    assert document["end_to_end_ns"] == ns(900)
    assert notes(document)["unfinished_span"]["evidence"]["assumed_end_ns"] == at(900)
    assert (document["state"], document["state_reason"]) == ("incomplete", "root_not_ended")


def test_an_unfinished_span_with_nothing_below_has_no_length() -> None:
    document = analyzed(agent(0, 100, tool(50, 0, id="t", end_ns=0)))
    assert step(document, "t")["duration_ns"] == 0


def test_times_before_2000_are_kept_and_called_suspect() -> None:
    """Microseconds written as nanoseconds lie in January 1970."""
    start = at(0) // 1000
    spans = [make_span("x", id="x", start_ns=start, end_ns=start + 2000)]
    document = document_of(spans)
    assert document["end_to_end_ns"] == 2000
    assert document["started_at"].startswith("1970-01-21")
    assert notes(document)["suspect_unit"]["span_ids"] == ["x"]


# --- clocks of two hosts --------------------------------------------------------------------------


def skewed(start: float, end: float, **more: str) -> list[Span]:
    return make_trace(
        agent(
            10,
            110,
            tool(start, end, id="child", **{"service": "tools", "host": "b", **more}),
            host="a",
        )
    )


def test_a_child_of_another_host_before_its_parent_moves_to_the_middle() -> None:
    """
    parent (a)    |----------------|       10..110
    child  (b)  |------|                   0..50 would fit: moved by 35 to 35..85
    """
    document = document_of(skewed(0, 50))
    moved = step(document, "child")
    assert (moved["start_ns"], moved["duration_ns"]) == (ns(25), ns(50))
    assert notes(document)["clock_skew"]["evidence"]["offset_ns"] == ns(35)


@pytest.mark.parametrize(
    ("start", "end", "more"),
    [
        (0, 50, {"host": "a"}),  # one host has one clock
        (0, 50, {"host": ""}),  # nobody knows that it is another
        (0, 150, {}),  # would not fit
        (20, 150, {}),  # starts inside
    ],
)
def test_clocks_are_left_alone(start: float, end: float, more: dict[str, str]) -> None:
    document = document_of(skewed(start, end, **more))
    assert "clock_skew" not in notes(document)
    assert step(document, "child")["start_ns"] == ns(start - 10)


def test_one_offset_serves_all_spans_between_two_hosts() -> None:
    """
    root (a)   |-------------------------------|     0..200
    one  (b) |----|                                  -20..20: moved by 100, and what is below it
    two  (b)                |----|                   120..160: its clock is the same
    """
    document = document_of(
        make_trace(
            agent(
                0,
                200,
                tool(
                    -20, 20, plain(-10, 10, host="b", service="x"), id="one", host="b", service="x"
                ),
                tool(70, 90, id="two", host="b", service="x"),
                host="a",
            )
        )
    )
    starts = {span_id: step(document, span_id)["start_ns"] for span_id in ("one", "two")}
    assert starts == {"one": ns(80), "two": ns(170)}


def test_a_skewed_child_takes_its_subtree_along() -> None:
    tree = build_tree(
        make_trace(
            plain(
                10,
                110,
                plain(0, 50, plain(5, 10, id="leaf", host="b"), id="child", host="b"),
                host="a",
            )
        )
    )
    leaf = next(node for node in tree.nodes if node.id == "leaf")
    assert (leaf.start, leaf.end) == (at(40), at(45))
    assert leaf.span.start_ns == at(5)  # what was received stays as it was
