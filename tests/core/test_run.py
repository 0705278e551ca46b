"""Runs: which agent a call belongs to, and where a call really ends."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import (
    Branch,
    Maker,
    agent,
    at,
    chat,
    guardrail,
    make_trace,
    ns,
    plain,
    retrieval,
    tool,
    workflow,
)
from tests.core.reading import Document, analyzed, ms, notes, report_of, segments, step, turns
from tracebudget.core.analysis import analyze
from tracebudget.core.span import KIND_CLIENT


def runs(document: Document) -> list[str]:
    """The spans that have turns, in order of their first."""
    return list(dict.fromkeys(turn["agent_span_id"] for turn in document["turns"]))


# --- whose run a call is --------------------------------------------------------------------------


def test_the_nearest_agent_above_is_the_run() -> None:
    document = analyzed(
        agent(0, 100, agent(10, 90, plain(15, 85, chat(20, 80)), id="inner"), id="outer")
    )
    assert runs(document) == ["inner"]  # the outer one made no call: it has no turns


def test_without_an_agent_the_outermost_workflow_is_the_run() -> None:
    """LangGraph: the graph is a workflow, each node another one inside it."""
    document = analyzed(
        plain(
            0,
            100,
            workflow(5, 95, workflow(10, 50, chat(20, 40)), workflow(50, 90, chat(60, 80)), id="w"),
        )
    )
    assert runs(document) == ["w"]
    assert len(document["turns"]) == 2


def test_an_agent_below_a_workflow_is_the_run() -> None:
    """OpenAI Agents: the outer workflow is no run."""
    document = analyzed(workflow(0, 100, agent(10, 90, chat(20, 80), id="a"), id="w"))
    assert runs(document) == ["a"]


def test_without_agent_and_workflow_the_tool_is_the_run() -> None:
    """
    agent  |-----------------------|
      chat   |--|
      tool        |------------|         two calls in it: a run named after the tool
        chat        |--| |--|
    """
    document = analyzed(
        agent(
            0,
            100,
            chat(5, 20),
            tool(25, 90, chat(30, 50), chat(55, 80), id="t", name="research"),
            id="a",
        )
    )
    assert runs(document) == ["a", "t"]
    assert [turn["agent"] for turn in document["turns"]] == ["support", "research", "research"]


def test_the_outermost_workflow_below_the_tool_is_the_run() -> None:
    document = analyzed(
        agent(0, 100, chat(5, 20), tool(25, 90, workflow(26, 89, chat(30, 50), id="w")), id="a")
    )
    assert runs(document) == ["a", "w"]


def test_without_any_of_them_the_request_is_the_run() -> None:
    document = analyzed(plain(0, 100, chat(10, 50), chat(60, 90), id="root"))
    assert runs(document) == ["root"]
    assert document["agents"] == []


def test_a_request_without_any_call_is_one_turn() -> None:
    document = analyzed(plain(0, 100, tool(10, 50), tool(50, 90), id="root"))
    assert turns(document) == [("root", 0, 100)]


def test_an_agent_without_a_call_has_no_turns() -> None:
    document = analyzed(
        agent(0, 100, chat(0, 50), agent(50, 90, tool(55, 80), id="mute"), id="top")
    )
    assert runs(document) == ["top"]


def test_tools_belong_to_the_nearest_run_above() -> None:
    report = report_of(
        agent(
            0,
            100,
            chat(0, 10),
            tool(10, 90, agent(15, 85, chat(20, 30), tool(30, 80, id="in")), id="out"),
        )
    )
    assert [[node.id for node in run.tools] for run in report.runs] == [["out"], ["in"]]


def test_agents_are_listed_once_in_order_of_their_first_turn() -> None:
    document = analyzed(
        agent(
            0,
            300,
            chat(0, 50),
            agent(60, 100, chat(60, 90), name="billing"),
            agent(100, 150, chat(100, 140), name="billing"),
            chat(160, 290),
            name="triage",
        )
    )
    assert document["agents"] == ["triage", "billing"]


# --- tools traced by hand -------------------------------------------------------------------------

ASKED = {"c1": "search"}


def test_a_plain_span_of_an_asked_tools_name_is_that_tool() -> None:
    by_hand = plain(100, 180, plain(110, 120, name="search"), name="search", id="t")
    document = analyzed(agent(0, 300, chat(0, 100, asks=ASKED), by_hand, chat(180, 300)))
    (found,) = (s for s in document["steps"] if s["kind"] == "tool_call")
    assert (found["span_id"], found["name"], found["call_id"]) == ("t", "search", "c1")
    assert (found["dialect"], found["turn"]) == ("gen_ai", 0)
    assert segments(document)["tool"] == 80


@pytest.mark.parametrize(
    ("answer", "after"),
    [
        (chat(0, 100, asks=ASKED), plain(100, 180, name="lookup")),
        (chat(0, 100), plain(100, 180, name="search")),
        (chat(0, 100, asks=ASKED), plain(100, 180, name="search", kind=KIND_CLIENT)),
        (  # it repeats what a span of the tool's own shows
            chat(0, 100, asks=ASKED),
            tool(100, 180, plain(110, 170, name="search"), name="search", call_id="c1", id="own"),
        ),
    ],
    ids=["another name", "not asked for", "a client", "known already"],
)
def test_any_other_plain_span_is_none(answer: Branch, after: Branch) -> None:
    document = analyzed(agent(0, 300, answer, after, chat(180, 300)))
    assert {s["span_id"] for s in document["steps"] if s["kind"] == "tool_call"} <= {"own"}


def test_tools_of_agents_below_tools_traced_by_hand_are_found_as_well() -> None:
    inner = [
        chat(110, 150, asks={"c2": "search"}),
        plain(150, 200, name="search", id="inner"),
        chat(200, 250),
    ]
    writer = plain(100, 250, plain(105, 250, *inner), name="ask_writer", id="outer")
    document = analyzed(
        agent(0, 300, chat(0, 100, asks={"c1": "ask_writer"}), writer, chat(250, 300))
    )
    tools = {s["span_id"]: s["turn"] for s in document["steps"] if s["kind"] == "tool_call"}
    assert tools == {"outer": 0, "inner": 1}
    assert [turn["agent"] for turn in document["turns"]][1:3] == ["ask_writer"] * 2


# --- effective end: tools inside the span of their call -------------------------------------------


def held_open(end: float, *tools: Branch, later: tuple[float, float] | None = None) -> Document:
    """A call that asks for what is inside it, and perhaps one after it."""
    asks = {"c1": "search", "c2": "search"}
    following = (chat(*later, id="next"),) if later else ()
    return analyzed(
        agent(0, 1000, chat(0, end, *tools, asks=asks, id="call"), *following, id="root")
    )


def test_a_call_that_encloses_its_tools_ended_when_the_first_began() -> None:
    """
    chat   |----------------------|   600: closed 10 ms after its last tool
      tools     |------| |-------|
    call   |----|                     200
    """
    document = held_open(600, tool(200, 400, call_id="c1"), tool(400, 590, call_id="c2"))
    assert ms(step(document, "call")["duration_ns"]) == 200
    assert segments(document) == {"decode": 200, "tool": 390, "framework": 410}
    assert notes(document)["late_model_end"]["span_ids"] == ["call"]
    assert notes(document)["late_model_end"]["evidence"]["by_ns"] == ns(400)


def test_a_call_that_closes_20_ms_after_its_last_tool_was_held_open() -> None:
    assert ms(step(held_open(420, tool(200, 400, call_id="c1")), "call")["duration_ns"]) == 200


def test_a_call_that_goes_on_longer_had_more_to_say() -> None:
    """Over 20 ms after its last tool, and no later call: a provider's own tool, perhaps."""
    document = held_open(421, tool(200, 400, call_id="c1"))
    assert ms(step(document, "call")["duration_ns"]) == 421
    assert "late_model_end" not in notes(document)


def test_a_later_call_that_starts_before_its_end_shows_that_it_had_ended() -> None:
    """
    chat  |----------------------|  600
    tool       |------|
    next                 |----|     the run went on: the first call had been over
    """
    document = held_open(600, tool(200, 400, call_id="c1"), later=(450, 550))
    assert ms(step(document, "call")["duration_ns"]) == 200
    assert turns(document) == [("root", 0, 450), ("root", 450, 1000)]


def test_tools_of_another_call_cut_nothing() -> None:
    document = held_open(600, tool(200, 595, call_id="other"))
    assert ms(step(document, "call")["duration_ns"]) == 600


def test_tools_that_a_call_did_not_ask_for_cut_nothing() -> None:
    """It ended with "stop": the tool inside is another one's."""
    document = analyzed(
        agent(0, 1000, chat(0, 600, tool(200, 590), finish="stop", id="call"), chat(700, 900))
    )
    assert ms(step(document, "call")["duration_ns"]) == 600


def test_a_tool_under_its_frameworks_own_id_is_known_by_its_name() -> None:
    """A tool that failed may carry the id of the framework's run; another name is another tool."""
    failed = tool(200, 590, call_id="run-7", error="TimeoutError")
    assert ms(step(held_open(600, failed), "call")["duration_ns"]) == 200
    stranger = tool(200, 590, call_id="run-7", name="lookup")
    assert ms(step(held_open(600, stranger), "call")["duration_ns"]) == 600


def test_a_tool_without_a_name_is_the_one_that_was_asked_for() -> None:
    """Haystack 2 runs an answer's tools in one span; which ones, only the answer tells."""
    invoker = plain(
        110,
        200,
        name="haystack.component.run",
        attributes={"haystack.component.type": "ToolInvoker"},
        id="tool",
    )

    def invoked(asks: dict[str, str]) -> Document:
        return step(analyzed(agent(0, 300, chat(0, 100, asks=asks), invoker)), "tool")

    asked = invoked({"c1": "search"})
    assert (asked["name"], asked["call_id"]) == ("search", "c1")
    assert invoked({"c1": "search", "c2": "fetch"})["name"] == "haystack.component.run"


def test_a_tool_that_outlasts_the_call_is_no_tool_inside_it() -> None:
    document = held_open(600, tool(200, 700, call_id="c1"))
    assert ms(step(document, "call")["duration_ns"]) == 600


def test_the_last_tokens_time_ends_the_call_where_it_is_stated() -> None:
    """OpenLLMetry writes an event a chunk; the last one lies before the tools.

    chat    |--------------------------------|  600, chunks at 100, 140, 150
      tool             |---------------|        200..500
    call    |-----|                             150
    """
    chunks = [("llm.content.completion.chunk", ms) for ms in (100, 140, 150)]
    call = chat(
        0,
        600,
        tool(200, 500, call_id="c1"),
        asks={"c1": "search"},
        events=chunks,
        attributes={"llm.is_streaming": True},
        id="call",
    )
    document = analyzed(agent(0, 1000, call))
    assert ms(step(document, "call")["duration_ns"]) == 150


# --- effective end: a stream span closed at the headers -------------------------------------------


def test_a_stream_that_its_tracer_did_not_follow_ends_with_the_next_step() -> None:
    """
    call   |-|                     MLflow: its output is the stream object
    tool          |------|         200..400
    call   |-----|           |---| to the tool, to the end of the agent
    """
    stream = {
        "mlflow.spanType": '"CHAT_MODEL"',
        "mlflow.spanOutputs": '"<anthropic.AsyncStream object at 0x7f>"',
    }
    document = analyzed(
        agent(
            0,
            900,
            plain(0, 5, name="create", attributes=stream, id="first"),
            tool(200, 400),
            plain(410, 415, name="create", attributes=stream, id="second"),
        )
    )
    first, second = step(document, "first"), step(document, "second")
    assert (ms(first["duration_ns"]), first["streamed"]) == (200, True)
    assert ms(second["duration_ns"]) == 490


FIRST_TOKEN = "First Token Stream Event"
OPENINFERENCE = {"openinference.span.kind": "LLM"}


def closed_at_headers(*around: Branch, inside: float | None = None) -> Document:
    """A call span 0..40 whose own first-token event lies at 90."""
    call = plain(
        0, 40, name="ChatCompletion", id="call", attributes=OPENINFERENCE,
        events=[(FIRST_TOKEN, 90)],
    )  # fmt: skip
    if inside is not None:
        call = agent(0, inside, call, id="step")
    return analyzed(agent(0, 500, call, *around))


def test_a_stream_span_closed_at_the_headers_ends_with_the_span_around_it() -> None:
    """
    step  |-------------|        200
      call  |--|   * first token 90
    """
    document = closed_at_headers(inside=200)
    call = step(document, "call")
    assert (ms(call["duration_ns"]), ms(call["ttft_ns"])) == (200, 90)
    assert notes(document)["unfinished_span"]["span_ids"] == ["call"]


def test_a_stream_span_closed_at_the_headers_ends_before_the_next_call() -> None:
    document = closed_at_headers(chat(300, 400, id="next"))
    assert ms(step(document, "call")["duration_ns"]) == 300


def test_with_nothing_around_it_the_end_is_unknown() -> None:
    """The call is the whole trace: its span is all there is, and its first token lies outside."""
    trace = make_trace(
        plain(0, 40, id="call", attributes=OPENINFERENCE, events=[(FIRST_TOKEN, 90)])
    )
    document = analyze(trace).document()
    assert step(document, "call")["ttft_ns"] is None
    assert document["end_to_end_ns"] == ns(40)


LOGFIRE = {
    "logfire.msg_template": "Chat Completion with {request_data[model]!r}",
    "request_data": '{"model": "m", "stream": true}',
}


def logfire_call(start: float, end: float, **fields: Any) -> Branch:
    """Closed when the headers are there."""
    return plain(start, end, kind=3, scope="logfire.openai", attributes=LOGFIRE, **fields)


def stream_log(at: float, took: float | None, **more: Any) -> Branch:
    """Written when the stream was consumed, `took` ms after the headers."""
    told = {} if took is None else {"duration": took / 1000}
    attributes = {**LOGFIRE, "logfire.span_type": "log", **told, **more}
    return plain(at, at, scope="logfire.openai", attributes=attributes)


def test_a_stream_log_tells_when_the_stream_was_consumed() -> None:
    """
    agent  |----------------------------|  500
      chat  |--|                           closed at 40
      log                  .               at 300: "streaming response ... took 0.26s"
    """
    usage = {"gen_ai.usage.input_tokens": 50, "gen_ai.usage.output_tokens": 9}
    document = analyzed(
        agent(0, 500, logfire_call(0, 40, id="call"), stream_log(300, 260, **usage))
    )
    call = step(document, "call")
    assert (ms(call["duration_ns"]), call["streamed"]) == (300, True)
    assert (call["input_tokens"], call["output_tokens"]) == (50, 9)
    assert segments(document) == {"decode": 300, "framework": 200}


def test_each_stream_log_ends_its_own_call() -> None:
    """Two streams side by side, both consumed later: the duration tells which is whose."""
    document = analyzed(
        agent(
            0,
            900,
            logfire_call(0, 40, id="one"),
            logfire_call(100, 150, id="two"),
            stream_log(600, 450),
            stream_log(700, 660),
        )
    )
    assert [ms(step(document, i)["duration_ns"]) for i in ("one", "two")] == [700, 500]


@pytest.mark.parametrize("log", [stream_log(300, 100), stream_log(300, None)])
def test_a_stream_log_of_no_call_ends_none(log: Branch) -> None:
    """Nothing ended when its stream began; or it does not say when that was."""
    document = analyzed(agent(0, 500, logfire_call(0, 40, id="call"), log))
    assert ms(step(document, "call")["duration_ns"]) == 40


# --- calls beside the rounds ----------------------------------------------------------------------


@pytest.mark.parametrize("beside", [guardrail, retrieval])
def test_calls_below_guardrail_and_retrieval_belong_to_the_run_and_open_no_turn(
    beside: Maker,
) -> None:
    document = analyzed(
        agent(0, 200, chat(0, 50), beside(60, 100, chat(65, 95)), chat(110, 190), id="a")
    )
    assert turns(document) == [("a", 0, 110), ("a", 110, 200)]


def test_a_run_starts_and_ends_with_its_span() -> None:
    document = analyzed(agent(10, 110, chat(30, 60), id="a"))
    assert document["started_at"].endswith(".010000000Z")
    assert at(10) == report_of(agent(10, 110, chat(30, 60))).runs[0].top.start
    assert turns(document) == [("a", 0, 100)]
