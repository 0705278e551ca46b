"""The clock of a request: when it starts and ends, what is background, where a step hangs."""

from __future__ import annotations

import pytest

from tests.builders import Branch, agent, chat, guardrail, http, ns, plain, tool, workflow
from tests.core.reading import Document, analyzed, ms, notes, segments, step, turns
from tracebudget.core.span import KIND_CONSUMER, KIND_PRODUCER, KIND_SERVER


def ends(document: Document) -> int | float:
    return ms(document["end_to_end_ns"])


# --- streams extend -------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, None])
def test_a_stream_extends_the_request(stream: bool | None) -> None:
    """
    root    |--------|.............         the handler returned the stream
      chat        |----------------|        the user waits for it
    """
    document = analyzed(plain(0, 300, chat(200, 900, stream=stream), kind=KIND_SERVER, id="root"))
    assert ends(document) == 900
    assert segments(document) == {"framework": 200, "decode": 700}


def test_a_call_known_to_be_unstreamed_extends_nothing() -> None:
    document = analyzed(plain(0, 300, chat(0, 100), chat(200, 900, stream=False)))
    assert ends(document) == 300
    assert document["segments"]["decode"]["critical_ns"] == ns(200)


def test_every_span_that_the_stream_outlives_lasts_as_long() -> None:
    """
    root    |----------|.......
      agent   |-----|..........          the agent is not done before its stream is
        chat     |-------------|
    """
    document = analyzed(plain(0, 300, agent(50, 250, chat(200, 900, id="call"), id="a")))
    assert ends(document) == 900
    assert turns(document) == [("a", 50, 900)]


def test_a_stream_that_began_when_the_request_was_over_extends_nothing() -> None:
    document = analyzed(plain(0, 300, agent(0, 290, chat(10, 280)), chat(310, 900, id="late")))
    assert ends(document) == 300
    assert step(document, "late")["turn"] is None


def test_a_tool_that_outlives_the_request_extends_nothing() -> None:
    """A memory write that nobody waits for is clipped to the request."""
    document = analyzed(agent(0, 300, chat(0, 100), tool(100, 900)))
    assert ends(document) == 300
    assert segments(document) == {"decode": 100, "tool": 200}


def test_a_span_that_ended_before_the_stream_began_stays_as_it_is() -> None:
    """
    root  |--------|..........
      mid   |--|                      over before its child began: the child hangs elsewhere
        chat      |-----------|
    """
    document = analyzed(plain(0, 300, plain(10, 50, chat(200, 900, id="call"), id="mid")))
    assert ends(document) == 900
    assert notes(document)["rehung_step"]["span_ids"] == ["call"]


def test_a_task_that_goes_on_after_its_handler_answered() -> None:
    """
    root     |--------------------|
      handler  |-|
        task      |-------------|           plain, and begins after its parent ended
          call      |---------|
    """
    task = plain(50, 280, chat(60, 260, stream=False, id="call"), id="task")
    document = analyzed(plain(0, 300, plain(10, 40, task, id="handler"), id="root"))
    assert segments(document) == {"decode": 200, "framework": 100}
    assert notes(document)["rehung_step"]["span_ids"] == ["task"]
    assert notes(document)["rehung_step"]["evidence"]["to"] == "root"


# --- launchers ------------------------------------------------------------------------------------


def test_a_launcher_root_ends_with_the_last_of_the_work() -> None:
    """
    root    |--|........................    5 ms: it only launched the work
      agent    |---------------------|
        chat     |-----|
        tool            |----------|
    """
    document = analyzed(
        plain(
            0,
            5,
            agent(6, 600, chat(10, 200, stream=False), tool(200, 580), id="a"),
            id="root",
        )
    )
    assert ends(document) == 600
    assert turns(document) == [("a", 6, 600)]
    assert notes(document)["launcher_root"]["span_ids"] == ["root"]


def test_spans_between_the_launcher_and_the_work_last_as_long() -> None:
    """
    root     |-|.................
      task    |--|...............       also over before its work
        tool      |-------------|
    """
    document = analyzed(plain(0, 5, plain(6, 20, tool(30, 500, id="t"), id="task"), id="root"))
    assert ends(document) == 500
    assert ("rehung_step" in notes(document)) is False
    assert segments(document) == {"framework": 30, "tool": 470}


def test_a_root_that_ended_while_its_answer_asked_for_tools_is_a_launcher() -> None:
    """
    root   |-------|...............|   350: ended 10 ms after the first answer
      chat |-----|                     100: asked for a tool
      tool           |----|            120..200
      chat                  |------|   210..350
    """
    asking, answer = chat(0, 100, asks={"c1": "search"}), chat(210, 350)
    document = analyzed(workflow(0, 110, asking, tool(120, 200, call_id="c1"), answer, id="root"))
    assert ends(document) == 350
    assert notes(document)["launcher_root"]["span_ids"] == ["root"]
    told = chat(0, 100, finish="stop")
    assert ends(analyzed(workflow(0, 110, told, tool(120, 200), answer))) == 110


def test_a_root_that_saw_one_step_done_is_no_launcher() -> None:
    """What outlives it is background."""
    document = analyzed(agent(0, 300, tool(0, 200), tool(350, 900, id="late"), id="root"))
    assert ends(document) == 300
    assert "launcher_root" not in notes(document)
    assert step(document, "late")["turn"] is None


def test_a_root_that_ends_with_its_first_step_is_no_launcher() -> None:
    document = analyzed(agent(0, 200, tool(0, 200), id="root"))
    assert "launcher_root" not in notes(document)


# --- background -----------------------------------------------------------------------------------


def test_what_starts_after_the_end_is_shown_and_not_counted() -> None:
    """
    root   |------------|
      chat   |--------|
      tool                |------|     a log shipper
    """
    document = analyzed(
        agent(0, 300, chat(0, 280), tool(320, 900, plain(400, 500), id="ship"), id="root")
    )
    shipped = step(document, "ship")
    assert (shipped["turn"], shipped["critical_ns"], ms(shipped["start_ns"])) == (None, 0, 320)
    assert segments(document) == {"decode": 280, "framework": 20}
    assert document["segments"]["tool"]["busy_ns"] == 0


def test_a_message_left_for_a_consumer_is_not_waited_for() -> None:
    """
    root        |----------------|
      producer    |--------|           leaves a message
        consumer    |-----|            somebody else's time
    """
    left = plain(
        10, 90, plain(20, 80, id="consumer", kind=KIND_CONSUMER), kind=KIND_PRODUCER, id="producer"
    )
    document = analyzed(agent(0, 100, chat(90, 100), left))
    assert "consumer" not in {piece["span_id"] for piece in document["path"]}


def test_an_agents_own_work_behind_a_queue_is_waited_for() -> None:
    left = plain(
        10,
        90,
        plain(20, 80, tool(30, 70, id="t"), kind=KIND_CONSUMER),
        kind=KIND_PRODUCER,
    )
    document = analyzed(agent(0, 100, left))
    assert segments(document)["tool"] == 40


# --- where a step hangs ---------------------------------------------------------------------------


def test_a_step_that_starts_after_its_parent_ended_hangs_at_the_nearest_still_open() -> None:
    """
    agent   |----------------------------|
      node    |-------|
        chat    |----|
        tool               |-----|           the framework kept the old context
    """
    document = analyzed(
        agent(
            0,
            500,
            plain(10, 150, plain(20, 140, chat(20, 120), tool(200, 400, id="t"), id="node")),
            id="a",
        )
    )
    assert segments(document)["tool"] == 200
    assert notes(document)["rehung_step"]["span_ids"] == ["t"]
    assert notes(document)["rehung_step"]["evidence"] == {"from": "node", "to": "a", "count": 1}


def test_a_step_that_starts_as_its_parent_ends_stays() -> None:
    document = analyzed(agent(0, 500, plain(0, 150, tool(150, 400))))
    assert "rehung_step" not in notes(document)


def test_a_tool_below_the_call_that_asked_for_it_follows_it() -> None:
    """
    agent   |-----------------|
      chat    |---|
        tool       |------|         a child of the call, after it
    """
    document = analyzed(
        agent(0, 500, chat(0, 100, tool(120, 300, id="t", call_id="c1"), asks={"c1": "search"}))
    )
    assert segments(document) == {"decode": 100, "tool": 180, "framework": 220}
    assert notes(document)["rehung_step"]["span_ids"] == ["t"]


def test_a_tool_below_its_call_and_plain_spans_follows_the_call() -> None:
    """Codex runs a tool below the span of the event that asked for it."""
    event = plain(90, 100, plain(100, 300, tool(110, 290, id="t")))
    document = analyzed(agent(0, 400, chat(0, 100, event, id="call"), id="a"))
    assert notes(document)["rehung_step"]["evidence"] == {"from": "call", "to": "a", "count": 1}
    assert segments(document)["tool"] == 180


def loose_agent(*tools: Branch, around: tuple[float, float] = (200, 700)) -> Document:
    """An agent traced beside the tools of another one."""
    inner = agent(*around, chat(around[0], around[1], id="inner call"), id="b", name="expert")
    return analyzed(agent(0, 1000, chat(0, 100), *tools, inner, chat(900, 1000), id="a"))


def test_an_agent_inside_exactly_one_tool_call_was_called_by_it() -> None:
    """
    agent a   |-------------------------------|
      tool        |------------------|
      agent b       |--------------|             traced beside the tool that called it
    """
    document = loose_agent(tool(150, 800, id="t"))
    assert notes(document)["rehung_step"]["evidence"]["to"] == "t"
    assert step(document, "b")["turn"] == 0
    assert ms(step(document, "t")["critical_ns"]) == 650


def test_an_agent_inside_two_tool_calls_could_be_either_ones() -> None:
    document = loose_agent(tool(150, 800, name="x"), tool(160, 790, name="y"))
    assert "rehung_step" not in notes(document)


def lost_agent(*tools: Branch) -> Document:
    """What an agent did whose own span is missing, beside the tools of another one."""
    family = [
        chat(200, 400, parent="gone"),
        tool(400, 500, name="z", parent="gone"),
        chat(500, 700, parent="gone", id="last"),
    ]
    caller = agent(0, 1000, chat(0, 100), *tools, chat(900, 1000), id="a")
    return analyzed(caller, *family)


def test_what_is_below_a_missing_parent_was_called_by_the_tool_around_it() -> None:
    """The agent between was sampled out."""
    document = lost_agent(tool(150, 800, id="t"))
    assert notes(document)["rehung_step"]["evidence"] == {"from": "a", "to": "t", "count": 1}
    assert [turn["agent_span_id"] for turn in document["turns"]] == ["a", "t", "t", "a"]
    assert segments(document)["tool"] == 250


def test_of_two_tools_around_it_called_the_one_that_it_fills() -> None:
    document = lost_agent(tool(100, 800, name="x"), tool(195, 705, name="y", id="t"))
    assert notes(document)["rehung_step"]["evidence"]["to"] == "t"
    assert "rehung_step" not in notes(lost_agent(tool(100, 800), tool(110, 790, name="y")))


def test_an_agent_that_a_tool_does_not_hold_is_left_alone() -> None:
    document = loose_agent(tool(150, 600))
    assert "rehung_step" not in notes(document)


def test_an_agent_that_already_hangs_below_a_tool_is_left_alone() -> None:
    inner = agent(200, 700, chat(200, 700), id="b")
    document = analyzed(
        agent(0, 1000, chat(0, 100), tool(150, 800, inner), tool(150, 900, name="y"))
    )
    assert "rehung_step" not in notes(document)


# --- outside their parent -------------------------------------------------------------------------


def test_a_step_outside_its_parent_is_clipped_and_noted() -> None:
    """
    node   |--------|            100..300
      tool     |---------|       200..500: counts until 300
    """
    document = analyzed(
        agent(0, 1000, plain(100, 300, tool(200, 500, id="t")), chat(600, 1000, stream=False))
    )
    assert segments(document) == {"framework": 500, "tool": 100, "decode": 400}
    assert notes(document)["outside_parent"]["span_ids"] == ["t"]


def test_a_child_longer_than_its_parent_leaves_it_no_time_of_its_own() -> None:
    document = analyzed(agent(0, 100, tool(-20, 180, id="t")))
    assert segments(document) == {"tool": 100}
    assert ms(step(document, "t")["start_ns"]) == -20
    assert ms(step(document, "t")["critical_ns"]) == 100


def test_a_millisecond_outside_is_rounding() -> None:
    document = analyzed(agent(0, 100, plain(10, 50, tool(9, 51))))
    assert "outside_parent" not in notes(document)


# --- complete or not ------------------------------------------------------------------------------


def state(*tops: Branch) -> tuple[str, str | None]:
    document = analyzed(*tops)
    return document["state"], document["state_reason"]


def test_a_root_without_a_parent_is_complete() -> None:
    assert state(agent(0, 100)) == ("complete", None)


def test_a_root_whose_parent_is_remote_is_complete() -> None:
    assert state(agent(0, 100, parent="elsewhere", flags=0x300)) == ("complete", None)


def test_a_flag_without_its_mask_says_nothing() -> None:
    assert state(agent(0, 100, parent="elsewhere", flags=0x200)) == (
        "incomplete",
        "missing_parent",
    )


@pytest.mark.parametrize("kind", [KIND_SERVER, KIND_CONSUMER])
def test_a_root_that_serves_a_call_is_complete(kind: int) -> None:
    assert state(agent(0, 100, parent="elsewhere", kind=kind)) == ("complete", None)


def test_a_root_that_covers_all_other_spans_is_complete() -> None:
    assert state(agent(0, 100, tool(10, 90), parent="elsewhere")) == ("complete", None)


@pytest.mark.parametrize(
    "tops",
    [
        (agent(0, 100, parent="elsewhere"),),  # it covers no other span
        (agent(0, 100, tool(0, 50), tool(60, 150), parent="elsewhere"),),
        (tool(0, 100, parent="x"), tool(50, 150, parent="x")),
    ],
)
def test_else_it_is_incomplete_and_says_why(tops: tuple[Branch, ...]) -> None:
    assert state(*tops) == ("incomplete", "missing_parent")


def test_guardrails_and_requests_of_others_hold_no_clock() -> None:
    """What is neither model, tool nor agent extends nothing."""
    document = analyzed(workflow(0, 100, chat(0, 90), guardrail(95, 300), http(96, 400), id="root"))
    assert ends(document) == 100
