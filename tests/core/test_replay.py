"""The counterfactual behind every saving: play the request again with a change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import Branch, agent, chat, http, plain, tool
from tests.core.reading import ms, report_of
from tracebudget.core.replay import (
    Change,
    framework_cut,
    replay,
    saving_ns,
    time_without_models,
)
from tracebudget.core.report import Report
from tracebudget.core.span import KIND_CLIENT
from tracebudget.core.tree import Node

MS = 1_000_000


def node(report: Report, span_id: str) -> Node:
    return next(node for node in report.tree.nodes if node.id == span_id)


def nodes(report: Report, *span_ids: str) -> frozenset[Node]:
    return frozenset(node(report, span_id) for span_id in span_ids)


def after(report: Report, change: Change) -> float:
    """The request's new end-to-end time, ms."""
    return ms(replay(report, change))


def request(*tools: Branch) -> Report:
    """
    agent  |..|-chat-|..|-- tools --|..|-chat-|..|       10 ms of its own between all steps
    """
    start, end = 110 + 10, max((t.span.end_ns for t in tools), default=0)
    last = (end - (tools[0].span.start_ns - start * MS)) // MS if tools else start
    return report_of(
        agent(
            0,
            last + 130,
            chat(10, 110, id="ask"),
            *tools,
            chat(last + 10, last + 110, id="answer"),
            id="a",
        )
    )


def test_without_a_change_everything_comes_out_as_it_was() -> None:
    report = request(tool(120, 320, http(130, 300)), tool(120, 420, name="fetch"))
    assert replay(report, Change()) == report.end_to_end
    assert saving_ns(report, Change()) == 0


# --- shorter --------------------------------------------------------------------------------------


def test_a_step_on_the_path_that_is_shorter_saves_what_it_is_shorter() -> None:
    report = request(tool(120, 320, id="t"))
    change = Change(shorter={node(report, "t"): 150 * MS})
    assert ms(saving_ns(report, change)) == 150


def test_a_step_beside_the_path_saves_nothing() -> None:
    """
    tool   |-----------|  300
    fetch  |-----|        200
    """
    report = request(tool(120, 420, id="t"), tool(120, 320, name="fetch", id="f"))
    assert saving_ns(report, Change(shorter={node(report, "f"): 150 * MS})) == 0


def test_a_step_saves_until_another_is_the_longest() -> None:
    report = request(tool(120, 420, id="t"), tool(120, 320, name="fetch", id="f"))
    assert ms(saving_ns(report, Change(shorter={node(report, "t"): 150 * MS}))) == 100


def test_no_step_is_shorter_than_nothing() -> None:
    report = request(tool(120, 320, id="t"))
    change = Change(shorter={node(report, "t"): 900 * MS})
    assert ms(saving_ns(report, change)) == 200


def test_what_follows_a_shorter_step_keeps_its_distance() -> None:
    """The gaps of 10 ms stay gaps of 10 ms."""
    report = request(tool(120, 320, id="t"))
    assert after(report, Change(shorter={node(report, "t"): 200 * MS})) == 450 - 200


def test_a_shorter_inner_step_makes_the_outer_one_shorter() -> None:
    report = request(tool(120, 320, http(150, 300, id="h"), id="t"))
    assert ms(saving_ns(report, Change(shorter={node(report, "h"): 100 * MS}))) == 100


@pytest.mark.parametrize(("early", "saved"), [(0, 0), (30, 30), (90, 80)])
def test_a_step_saves_until_one_beside_all_the_others_is_the_longest(
    early: float, saved: float
) -> None:
    """
    chats  |--|--|--|--|--|                 the third is 80 ms shorter
    tool    |-----------|                   ends so much before the last of them
    """
    chats = [chat(start, start + 100, id=f"c{start}") for start in range(0, 500, 100)]
    report = report_of(agent(0, 500, *chats, tool(20, 500 - early)))
    assert ms(saving_ns(report, Change(shorter={node(report, "c200"): 80 * MS}))) == saved


# --- removed --------------------------------------------------------------------------------------


def test_a_step_that_did_not_happen_takes_the_gap_before_it_along() -> None:
    """
    agent  |..|-ask-|..|-t-|..|-answer-|..|
    agent  |..|-ask-|      |..|-answer-|..|
    """
    report = request(tool(120, 320, id="t"))
    assert ms(saving_ns(report, Change(removed=nodes(report, "t")))) == 10 + 200


def test_what_is_below_a_removed_step_did_not_happen_either() -> None:
    report = request(tool(120, 320, http(130, 310), id="t"))
    assert ms(saving_ns(report, Change(removed=nodes(report, "t")))) == 10 + 200


def test_a_removed_step_beside_the_path_saves_nothing() -> None:
    report = request(tool(120, 420, id="t"), tool(120, 320, name="fetch", id="f"))
    assert saving_ns(report, Change(removed=nodes(report, "f"))) == 0


def test_the_last_step_removed() -> None:
    report = request(tool(120, 320, id="t"))
    assert ms(saving_ns(report, Change(removed=nodes(report, "answer")))) == 10 + 100


# --- at once --------------------------------------------------------------------------------------


def test_a_step_that_starts_without_its_gap() -> None:
    """A retry that did not wait."""
    report = report_of(
        agent(0, 700, chat(0, 100, error="429", id="bad"), chat(400, 700, id="good"))
    )
    assert ms(saving_ns(report, Change(at_once=nodes(report, "good")))) == 300
    both = Change(removed=nodes(report, "bad"), at_once=nodes(report, "good"))
    assert ms(saving_ns(report, both)) == 400


# --- together -------------------------------------------------------------------------------------


def wave(report: Report, *span_ids: str, lanes: int | None = None) -> Change:
    group = tuple(node(report, span_id) for span_id in span_ids)
    return Change(together=(group,), max_parallel=lanes)


def serial() -> Report:
    """
    agent  |-ask-|-a-|.|--b--|.|-c-|-answer-|     100, 300 and 200 ms, 10 ms between
    """
    return request(
        tool(120, 220, id="a1"), tool(230, 530, name="b", id="b1"), tool(540, 740, id="c1")
    )


def test_steps_of_one_wave_start_with_the_first() -> None:
    """620 ms become the 300 of the longest."""
    report = serial()
    assert ms(saving_ns(report, wave(report, "a1", "b1", "c1"))) == 620 - 300


@pytest.mark.parametrize(
    ("lanes", "lasts"),
    [
        (1, 600),  # one after the other, without the gaps
        (2, 300),  # a, then c, beside b
        (3, 300),
        (9, 300),
    ],
)
def test_at_most_so_many_steps_run_at_once(lanes: int, lasts: int) -> None:
    report = serial()
    assert ms(saving_ns(report, wave(report, "a1", "b1", "c1", lanes=lanes))) == 620 - lasts


def test_a_wave_of_one_is_no_change() -> None:
    report = serial()
    assert saving_ns(report, wave(report, "b1")) == 0


def test_changes_add_up() -> None:
    """The longest of the wave is halved as well: 150 is less than the 200 of c."""
    report = serial()
    change = Change(
        shorter={node(report, "b1"): 150 * MS},
        together=wave(report, "a1", "b1", "c1").together,
    )
    assert ms(saving_ns(report, change)) == 620 - 200


# --- the framework's own time ---------------------------------------------------------------------


def test_framework_time_is_taken_where_it_is() -> None:
    report = request(tool(120, 320))
    assert ms(saving_ns(report, framework_cut(report, 25 * MS))) == 25


def test_more_framework_time_than_there_is_cannot_be_taken() -> None:
    """Five gaps of 10 ms, of which the one after the last step is no longer than the others."""
    report = request(tool(120, 320))
    own = sum(ms(p.duration) for p in report.path if p.segment == "framework")
    assert ms(saving_ns(report, framework_cut(report, 900 * MS))) == own == 50


def test_ignorance_and_retry_waits_are_nobodys_to_take() -> None:
    report = report_of(
        agent(
            0,
            700,
            chat(0, 50, error="429"),
            chat(100, 200, asks={"c1": "search"}),
            chat(600, 700),
        )
    )
    assert saving_ns(report, framework_cut(report, 900 * MS)) == 0


# --- the ceiling ----------------------------------------------------------------------------------


def test_time_without_models() -> None:
    report = request(tool(120, 320))
    assert ms(time_without_models(report)) == 450 - 200


def test_time_without_models_when_a_tool_runs_beside_one() -> None:
    """
    agent  |-ask-|
           |------tool------|       300 ms: hides the model, and remains without it
                 |-chat-|
    """
    report = report_of(
        agent(0, 400, chat(0, 100), tool(100, 400, id="t"), chat(150, 250, id="beside"))
    )
    assert ms(time_without_models(report)) == 300


def test_a_model_inside_a_tool_takes_its_time_along() -> None:
    report = request(tool(120, 320, chat(150, 300)))
    assert ms(time_without_models(report)) == 450 - 200 - 150


# --- odd shapes -----------------------------------------------------------------------------------


def test_what_reaches_out_of_its_parent_counts_as_far_as_it_is_inside() -> None:
    report = report_of(
        agent(0, 500, plain(100, 300, tool(200, 600, id="t"), id="p"), chat(310, 500, stream=False))
    )
    assert replay(report, Change()) == report.end_to_end
    assert ms(saving_ns(report, Change(removed=nodes(report, "p")))) == 300


def test_background_work_is_not_played() -> None:
    report = report_of(agent(0, 100, chat(0, 90), tool(110, 900, id="late")))
    assert saving_ns(report, Change(removed=nodes(report, "late"))) == 0


# --- wrappers beside work -------------------------------------------------------------------------


def graph_node(end: float = 990, **fields: Any) -> Report:
    """
    root    |------------------------|
      agent  |--------chat----------|       the work
      node   |---------------------|        an agent span beside it that holds nothing
    """
    work = agent(0, 1000, chat(10, 990, id="c"), id="a")
    return report_of(plain(0, 1000, work, agent(10, end, name="node", id="n", **fields)))


def test_nobody_waits_for_an_empty_span_beside_the_work() -> None:
    report = graph_node()
    assert replay(report, Change()) == report.end_to_end
    assert ms(time_without_models(report)) == 20


def test_somebody_waits_for_a_client_beside_the_work() -> None:
    """An agent elsewhere, of which nothing else is here."""
    assert ms(time_without_models(graph_node(kind=KIND_CLIENT))) == 990


def test_a_span_that_stays_open_while_its_tools_run_beside_it() -> None:
    """
    agent  |------------------------------|
      llm   |--chat--|···········|             ADK's `call_llm`
      tool              |--------|
      llm                         |--chat--|
    """
    report = report_of(
        agent(
            0,
            1000,
            plain(10, 610, chat(10, 310, id="c")),
            tool(320, 600, id="t"),
            plain(620, 990, chat(620, 990, id="d")),
        )
    )
    assert replay(report, Change()) == report.end_to_end
    assert ms(saving_ns(report, Change(removed=nodes(report, "t")))) == 10 + 280
    assert ms(saving_ns(report, Change(shorter={node(report, "c"): 200 * MS}))) == 200
    assert ms(time_without_models(report)) == 1000 - 300 - 370


def test_time_of_a_span_that_does_not_count_is_its_holders() -> None:
    """The empty span is open for 100 ms longer than the work: that is time of the root."""
    report = report_of(plain(0, 1000, chat(0, 900), plain(10, 1000), id="root"))
    change = framework_cut(report, 60 * MS)
    assert change.shorter == {node(report, "root"): 60 * MS}
    assert ms(saving_ns(report, change)) == 60


@pytest.mark.parametrize(("overlap", "saved"), [(5, 500), (6, 0)])
def test_long_steps_that_overlap_by_a_hundredth_follow_each_other(
    overlap: float, saved: float
) -> None:
    """An agent's span that closes while the next one is at work already."""
    report = report_of(
        plain(
            0,
            2000 - overlap,
            agent(0, 1000, chat(0, 1000, id="c")),
            agent(1000 - overlap, 2000 - overlap, chat(1000 - overlap, 2000 - overlap)),
        )
    )
    assert ms(saving_ns(report, Change(shorter={node(report, "c"): 500 * MS}))) == saved


def test_steps_that_overlap_by_less_than_a_millisecond_wait_for_each_other() -> None:
    """
    a  |------|
    b        |------|      0.5 ms before a ended: clocks round
    """
    report = report_of(agent(0, 200, tool(0, 100, id="a"), tool(99.5, 200, name="b", id="b")))
    assert replay(report, Change()) == report.end_to_end
    saved = ms(saving_ns(report, Change(shorter={node(report, "a"): 50 * MS})))
    assert 49 <= saved <= 50


# --- however little of it is played ---------------------------------------------------------------


def played_in_full(report: Report, change: Change) -> int:
    """Every span, and every child of it, one after the other."""
    lasts = dict.fromkeys(change.removed, 0)
    for span in reversed(report.tree.nodes):
        if span not in lasts:
            rehearsal, ends = report.rehearsals.of(span), dict[Node, int]()
            for index, child in enumerate(rehearsal.children):
                waited = [ends[c] for c in rehearsal.by_end[: rehearsal.waits[index]]]
                gap = 0 if change.is_at_once(child) else rehearsal.gaps[index]
                length = max(0, lasts[child] - rehearsal.outside(child))
                ends[child] = max(0, max(waited, default=0) + gap) + length
            own = span.duration - rehearsal.ended_at(len(ends)) - change.shorter.get(span, 0)
            lasts[span] = max(0, max(ends.values(), default=0) + own)
    return lasts[report.tree.root]


STEP = st.tuples(st.integers(0, 400), st.sampled_from([0.5, 5, 20, 90, 400]))  # start and length


@given(st.lists(STEP, min_size=1, max_size=12), st.data())
def test_what_is_not_played_would_have_come_out_as_it_was(
    steps: list[tuple[int, float]], data: st.DataObject
) -> None:
    drawn = [
        tool(start, start + length, http(start, start + length / 2))
        if length > 50
        else chat(start, start + length)
        for start, length in steps
    ]
    end = max(start + length for start, length in steps)
    report = report_of(plain(0, 900, agent(0, end, *drawn), chat(850, 890)))
    below = report.tree.nodes[1:]
    some = st.lists(st.integers(0, len(below) - 1), max_size=2, unique=True)
    cuts = {below[place]: data.draw(st.integers(0, 400)) * MS for place in data.draw(some)}
    removed, at_once = (frozenset(below[place] for place in data.draw(some)) for _ in range(2))
    change = Change(shorter=cuts, removed=removed, at_once=at_once)
    played, in_full = replay(report, change), played_in_full(report, change)
    assert played == in_full
