"""Turns: rounds of a run. They tile it; a model call opens each."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given

from tests.builders import (
    Branch,
    Maker,
    agent,
    chat,
    embedding,
    guardrail,
    ns,
    plain,
    retrieval,
    tool,
    workflow,
)
from tests.core.forests import forests
from tests.core.reading import Document, analyzed, diagnoses, ms, notes, step, turns
from tracebudget.core.report import build_report
from tracebudget.core.run import Run
from tracebudget.core.span import Span
from tracebudget.core.tree import Node, build_tree


def starts(document: Document, run: str = "a") -> list[int | float]:
    """When the turns of a run begin."""
    return [start for span_id, start, _ in turns(document) if span_id == run]


def rounds(*steps: Branch, end: float = 1000) -> list[int | float]:
    """When the turns of an agent with these steps begin."""
    return starts(analyzed(agent(0, end, *steps, id="a")))


# --- tiling ---------------------------------------------------------------------------------------


def test_turn_0_begins_with_the_run_and_the_last_ends_with_it() -> None:
    """
    agent  |....|-chat-|-tool-|...|-chat-|....|     0..1000
    turns  |------------ 0 -------|---- 1 ----|
    """
    document = analyzed(agent(0, 1000, chat(50, 200), tool(200, 400), chat(450, 900), id="a"))
    assert turns(document) == [("a", 0, 450), ("a", 450, 1000)]


def test_the_segments_of_a_turn_sum_to_its_duration() -> None:
    document = analyzed(
        agent(0, 1000, chat(50, 200, ttft=60), tool(200, 400), chat(450, 900, ttft=100))
    )
    assert [
        {name: ms(value) for name, value in turn["segments"].items()} for turn in document["turns"]
    ] == [
        {"prefill": 60, "decode": 90, "tool": 200, "framework": 100, "wait": 0},
        {"prefill": 100, "decode": 350, "tool": 0, "framework": 100, "wait": 0},
    ]


# --- what opens a turn ----------------------------------------------------------------------------


def test_a_call_after_the_one_before_it_opens_a_turn() -> None:
    assert rounds(chat(0, 100), chat(100, 200), chat(250, 300)) == [0, 100, 250]


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [(5, [0, 95]), (5.1, [0])],
)
def test_an_overlap_up_to_5_ms_is_none(overlap: float, expected: list[float]) -> None:
    """A hundred ms each: 1 % of the shorter is less than 5 ms, so 5 ms count."""
    assert rounds(chat(0, 100), chat(100 - overlap, 200)) == expected


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [(10, [0, 990]), (10.1, [0])],
)
def test_an_overlap_up_to_1_percent_of_the_shorter_is_none(
    overlap: float, expected: list[float]
) -> None:
    assert rounds(chat(0, 1000), chat(1000 - overlap, 3000), end=4000) == expected


def test_every_earlier_call_must_have_ended() -> None:
    """The third overlaps the first by 15 ms, less than 1 % of 2,000; the second by 10 ms of 110."""
    assert rounds(chat(0, 2015), chat(1900, 2010), chat(2000, 5000), end=6000) == [0]


def test_a_call_that_overlaps_an_earlier_one_is_its_sibling() -> None:
    """
    chat  |--------|
    chat      |----------|      asked in parallel: one turn
    """
    document = analyzed(agent(0, 1000, chat(0, 300), chat(100, 400, id="beside"), id="a"))
    assert starts(document) == [0]
    assert step(document, "beside")["turn"] == 0


def test_a_call_after_the_turns_tools_opens_one_though_a_sibling_still_runs() -> None:
    """
    chat  |---|
    chat    |-------------------|        a slow sibling
    tool      |------|
    chat               |----|            the tools are done: the agent went on
    """
    assert rounds(chat(0, 100), chat(50, 600), tool(100, 300), chat(320, 400)) == [0, 320]


def test_a_call_while_a_tool_of_the_turn_still_runs_opens_none() -> None:
    """
    chat  |---|
    chat    |-------------------|
    tool      |-----|
    tool      |-------------|
    chat              |---|
    """
    assert rounds(chat(0, 100), chat(50, 600), tool(100, 200), tool(100, 400), chat(250, 300)) == [
        0
    ]


def test_a_call_after_the_one_before_it_opens_one_though_a_tool_still_runs() -> None:
    """A tool in the background does not hold the rounds back: every earlier call has ended."""
    assert rounds(chat(0, 100), tool(100, 900), chat(200, 300)) == [0, 200]


@pytest.mark.parametrize("beside", [guardrail, retrieval, embedding])
def test_calls_that_judge_or_look_up_open_none(beside: Maker) -> None:
    steps = (chat(0, 100), beside(110, 200, chat(115, 195, id="judge")), chat(220, 300))
    document = analyzed(agent(0, 1000, *steps, id="a"))
    assert starts(document) == [0, 220]
    assert step(document, "judge")["turn"] == 0


def test_a_judge_before_the_first_call_stands_in_turn_0() -> None:
    steps = (guardrail(0, 100, chat(10, 90, id="judge")), chat(120, 300))
    assert rounds(*steps) == [0]


# --- attempts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failed",
    [
        chat(0, 100, error="RateLimitError"),
        chat(0, 100, attributes={"http.response.status_code": 429}),
        chat(0, 100, attributes={"http.response.status_code": 503}),
        chat(0, 100, attributes={"http.status_code": "500"}),
    ],
)
def test_a_call_that_repeats_a_failed_one_is_the_next_attempt_of_the_same_turn(
    failed: Branch,
) -> None:
    document = analyzed(agent(0, 1000, failed, chat(300, 500, id="again"), id="a"))
    assert starts(document) == [0]
    assert step(document, "again")["attempt"] == 1


def test_attempts_count_up() -> None:
    """429, 503, then the answer: one turn, and the next one counts from 0 again."""
    document = analyzed(
        agent(
            0,
            1000,
            chat(0, 100, error="429"),
            chat(200, 300, error="503", id="second"),
            chat(500, 700, id="third"),
            chat(800, 900, id="next"),
            id="a",
        )
    )
    assert starts(document) == [0, 800]
    assert [step(document, i)["attempt"] for i in ("second", "third", "next")] == [1, 2, 0]


def test_a_call_after_a_failed_one_and_a_tool_repeats_nothing() -> None:
    assert rounds(chat(0, 100, error="Boom"), tool(110, 200), chat(210, 300)) == [0, 210]


def test_a_call_after_a_failed_judge_repeats_nothing() -> None:
    """The guardrail's model failed; what follows is the agent's own round."""
    steps = (chat(0, 100), guardrail(110, 150, chat(115, 145, error="429")), chat(160, 300))
    assert rounds(*steps) == [0, 160]


def test_a_call_whose_arguments_did_not_parse_was_a_call() -> None:
    """The question asked again is a new turn, and a finding ties the two."""
    broken = chat(0, 100, asks={"c1": "search"}, arguments='{"q": "par', id="first")
    document = analyzed(
        agent(
            0,
            1000,
            broken,
            chat(100, 300, asks={"c2": "search"}, id="again"),
            tool(300, 400, call_id="c2"),
            chat(400, 500),
            id="a",
        )
    )
    assert starts(document) == [0, 100, 400]
    assert diagnoses(document)["malformed_tool_arguments"]["span_ids"] == ["first", "again"]


# --- nested runs ----------------------------------------------------------------------------------


def delegating(*beside: Branch) -> Document:
    """
    agent a  |-chat-|----------------- tool ----------------|-chat-|     0..1000
      agent b         |-chat-|-tool-|-chat-|                             200..700
    """
    inner = agent(200, 700, chat(200, 300), tool(300, 450, name="fetch"), chat(450, 700), id="b")
    return analyzed(
        agent(0, 1000, chat(0, 150), tool(150, 800, inner, name="ask"), *beside,
              chat(800, 1000), id="a")
    )  # fmt: skip


def test_a_nested_run_has_turns_of_its_own_inside_the_turn_that_called_it() -> None:
    document = delegating()
    assert turns(document) == [
        ("a", 0, 800),
        ("b", 200, 450),
        ("b", 450, 700),
        ("a", 800, 1000),
    ]
    assert [turn["parent_turn"] for turn in document["turns"]] == [None, 0, 0, None]
    assert [turn["index"] for turn in document["turns"]] == [0, 1, 2, 3]


def test_the_calling_turn_shows_what_it_delegated() -> None:
    assert [ms(turn["delegated_ns"]) for turn in delegating()["turns"]] == [500, 0, 0, 0]


def test_every_slice_belongs_to_the_innermost_turn_open_there() -> None:
    """150 ms model and 150 ms around the sub-agent are the caller's own; the rest is b's."""
    document = delegating()
    assert [ms(turn["on_path_ns"]) for turn in document["turns"]] == [300, 250, 250, 200]
    assert document["outside_turns_ns"] == 0


def test_parallel_runs_may_exceed_the_request_and_the_path_does_not() -> None:
    """
    a  |-chat-|-- tool: b --------|
              |-- tool: c ---|          beside it: not on the path
    """
    b = agent(100, 600, chat(100, 600), id="b")
    c = agent(100, 500, chat(100, 500), id="c")
    document = analyzed(
        agent(0, 600, chat(0, 100), tool(100, 600, b, name="b"), tool(100, 500, c, name="c"))
    )
    durations = {t["agent_span_id"]: ms(t["duration_ns"]) for t in document["turns"]}
    on_path = {t["agent_span_id"]: ms(t["on_path_ns"]) for t in document["turns"]}
    assert (durations["b"], durations["c"]) == (500, 400)
    assert (on_path["b"], on_path["c"]) == (500, 0)
    assert sum(on_path.values()) == 600
    assert ms(document["turns"][0]["delegated_ns"]) == 500  # a union, not a sum


def test_time_outside_every_run_belongs_to_no_turn() -> None:
    """
    root   |....|-agent-|.........|      an endpoint that does other things, too
    """
    document = analyzed(plain(0, 1000, agent(200, 600, chat(200, 600), id="a"), name="POST /ask"))
    assert turns(document) == [("a", 200, 600)]
    assert ms(document["outside_turns_ns"]) == 600
    assert [piece["turn"] for piece in document["path"]] == [None, 0, None]


def test_the_segments_of_a_turn_are_those_of_its_own_run_alone() -> None:
    """A run beside the path is walked all the same: its turn knows where its time went."""
    c = agent(100, 500, chat(100, 200, ttft=40), tool(200, 500, name="fetch"), id="c")
    document = analyzed(
        agent(0, 700, chat(0, 100), tool(100, 700, name="b"), tool(100, 500, c, name="c"))
    )
    turn = next(t for t in document["turns"] if t["agent_span_id"] == "c")
    assert {name: ms(v) for name, v in turn["segments"].items() if v} == {
        "prefill": 40,
        "decode": 60,
        "tool": 300,
    }
    assert turn["on_path_ns"] == 0


# --- turns that spans name ------------------------------------------------------------------------


def test_explicit_turn_spans_that_agree_are_left_alone() -> None:
    document = analyzed(
        agent(
            0,
            200,
            plain(0, 100, chat(0, 90), name="step 0"),
            plain(100, 200, chat(100, 190), name="step 1"),
            id="a",
        )
    )
    assert starts(document) == [0, 100]
    assert "turns_disagree" not in notes(document)


@pytest.mark.parametrize("name", ["turn", "step 0", "execute_event_loop_cycle"])
def test_explicit_turn_spans_that_disagree_are_noted_and_the_rules_win(name: str) -> None:
    document = analyzed(
        agent(0, 200, plain(0, 200, chat(0, 90), chat(100, 190), name=name, id="said"), id="a")
    )
    assert starts(document) == [0, 100]
    assert notes(document)["turns_disagree"]["span_ids"] == ["said"]


# --- steps and their turns ------------------------------------------------------------------------


def test_steps_stand_in_the_turn_in_which_they_began() -> None:
    document = analyzed(
        agent(0, 500, chat(0, 100), tool(100, 200, id="t"), chat(200, 300), tool(310, 400, id="u"))
    )
    assert [step(document, span_id)["turn"] for span_id in "tu"] == [0, 1]


def test_an_agent_stands_in_the_turn_of_its_caller() -> None:
    """The outer agent was called by nobody: null."""
    document = delegating()
    assert (step(document, "a")["turn"], step(document, "b")["turn"]) == (None, 0)


def test_a_call_that_is_the_whole_request_stands_in_its_own_turn() -> None:
    document = analyzed(chat(0, 100, id="only"))
    assert step(document, "only")["turn"] == 0


def test_a_workflow_outside_every_run_stands_in_no_turn() -> None:
    document = analyzed(workflow(0, 100, agent(0, 90, chat(0, 80)), id="w"))
    assert step(document, "w")["turn"] is None


def test_calls_of_no_length_still_open_turns() -> None:
    document = analyzed(agent(0, 100, chat(10, 10), chat(10, 10), chat(50, 60), id="a"))
    assert sum(turn["duration_ns"] for turn in document["turns"]) == ns(100)


# --- the rule, word by word -----------------------------------------------------------------------


def openers(run: Run) -> list[Node]:
    """The calls that open turns as the rule says it: each asked against all before it. A tool that
    began before its turn's call answers nothing that the call asked.
    """
    found: list[Node] = []
    for index, call in enumerate(run.calls):
        earlier = run.calls[:index]
        if call.scope.is_side or (earlier and repeats(earlier[-1], call, run)):
            continue
        if not found or all(has_ended(other, call) for other in earlier):
            found.append(call)
        else:
            mine = [tool for tool in run.tools if found[-1].start <= tool.start < call.start]
            if mine and all(tool.end <= call.start for tool in mine):
                found.append(call)
    return found or run.calls[:1]


def has_ended(earlier: Node, call: Node) -> bool:
    """An overlap up to max(5 ms, 1 % of the shorter) is none."""
    shorter = min(earlier.duration, call.duration)
    return earlier.end - call.start <= max(ns(5), shorter // 100)


def repeats(last: Node, call: Node, run: Run) -> bool:
    """The call before it failed and was over, and no tool has begun since."""
    failed = last.step is not None and last.step.is_error and last.end <= call.start
    since = any(last.end <= tool.start < call.start for tool in run.tools)
    return failed and not since and not last.scope.is_side


def boundaries(run: Run, opened: Sequence[Node]) -> list[int]:
    start, end = run.top.start, run.top.end
    inside = [min(max(call.start, start), end) for call in opened[1:]]
    return [start, *inside, end]


@given(forests())
def test_turns_open_where_the_rule_says(trace: list[Span]) -> None:
    for run in build_report(build_tree(trace)).runs:
        edges = [turn.start for turn in run.turns] + [run.turns[-1].end]
        assert edges == boundaries(run, openers(run))
