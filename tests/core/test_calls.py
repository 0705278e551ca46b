"""Wrappers, SDK, HTTP and server spans that describe one call are one step."""

from __future__ import annotations

import pytest

from tests.builders import (
    Branch,
    Maker,
    agent,
    chat,
    guardrail,
    http,
    plain,
    server,
    tool,
    workflow,
)
from tests.core.reading import Document, analyzed, kinds, ms, notes, part, segments, step
from tracebudget.core.span import KIND_CLIENT, KIND_SERVER


def calls(document: Document) -> list[str]:
    return [span_id for span_id, kind in kinds(document).items() if kind == "model_call"]


def tools(document: Document) -> list[str]:
    return [span_id for span_id, kind in kinds(document).items() if kind == "tool_call"]


# --- nested ---------------------------------------------------------------------------------------


def test_the_innermost_span_with_usage_is_the_call() -> None:
    """
    framework  |----------------|  1000/50
      sdk        |-----------|     1000/50: the call
        http       |-------|
    """
    document = analyzed(
        agent(
            0,
            900,
            chat(
                40,
                860,
                chat(50, 850, http(60, 840, id="http"), input=1000, output=50, id="sdk"),
                input=1000,
                output=50,
                id="framework",
            ),
        )
    )
    assert calls(document) == ["sdk"]
    assert segments(document) == {"decode": 800, "framework": 100}


def test_an_inner_span_without_usage_only_lends() -> None:
    """
    outer  |----------|    100/10, no TTFT: the call
      inner  |------|      first chunk 30 ms after its start, no usage
    """
    document = analyzed(
        agent(0, 100, chat(0, 100, chat(10, 90, ttft=30, id="in"), input=100, output=10, id="out"))
    )
    assert calls(document) == ["out"]
    assert ms(step(document, "out")["ttft_ns"]) == 40  # counted from the outer start


def test_a_wrapper_lends_what_its_one_call_lacks() -> None:
    """
    outer  |----------|    first chunk 40 ms after its start, finish reason, id
      inner  |------|      100/10: the call
    """
    document = analyzed(
        agent(
            0,
            100,
            chat(
                0,
                100,
                chat(10, 90, input=100, output=10, id="in", model="real"),
                ttft=40,
                stream=True,
                id="out",
            ),
        )
    )
    call = step(document, "in")
    assert calls(document) == ["in"]
    assert (call["model"], call["streamed"], ms(call["ttft_ns"])) == ("real", True, 30)


def test_a_wrapper_of_two_calls_lends_to_neither() -> None:
    """
    outer  |----------------|   first chunk at 40: whose?
      a      |----|
      b             |---|
    """
    document = analyzed(
        agent(
            0,
            200,
            chat(
                0,
                200,
                chat(10, 90, input=100, output=10, id="a"),
                chat(100, 190, input=120, output=10, id="b"),
                ttft=40,
                stream=True,
            ),
        )
    )
    assert calls(document) == ["a", "b"]
    assert [step(document, span_id)["ttft_ns"] for span_id in "ab"] == [None, None]


def test_counts_are_taken_whole_from_one_span() -> None:
    """Two instrumentations count differently: never the input of one with the output of another."""
    document = analyzed(
        agent(0, 100, chat(0, 100, chat(10, 90, input=100, id="in"), input=90, output=10))
    )
    assert (step(document, "in")["input_tokens"], step(document, "in")["output_tokens"]) == (
        100,
        None,
    )


def test_a_failed_attempt_inside_a_wrapper_stays_visible() -> None:
    """
    wrapper  |-------------------|
      429      |--|
      200            |--------|       the call; the wrapper holds one that came through
    """
    document = analyzed(
        agent(
            0,
            100,
            chat(
                0,
                100,
                chat(5, 20, error="429", id="bad"),
                chat(40, 95, input=100, output=10, id="good"),
                ttft=60,
            ),
        )
    )
    assert calls(document) == ["bad", "good"]
    assert step(document, "good")["attempt"] == 1
    assert ms(step(document, "good")["ttft_ns"]) == 20


@pytest.mark.parametrize("between", [tool, agent, workflow])
def test_a_tool_an_agent_or_a_workflow_between_makes_two_calls(between: Maker) -> None:
    document = analyzed(
        agent(
            0,
            300,
            chat(
                0,
                300,
                between(50, 200, chat(60, 190, input=10, output=5, id="inner")),
                input=100,
                output=10,
                id="outer",
            ),
        )
    )
    assert calls(document) == ["outer", "inner"]


def test_a_plain_span_between_makes_no_two_calls() -> None:
    document = analyzed(
        agent(
            0,
            100,
            chat(0, 100, plain(5, 95, chat(10, 90, input=9, output=3, id="in")), input=9, output=3),
        )
    )
    assert calls(document) == ["in"]


# --- side by side ---------------------------------------------------------------------------------


def twins(shared_from: float, *, ids: tuple[str | None, str | None] = (None, None)) -> Document:
    """
    one  |----------------|  100      the one with usage
    two   ...-------------|  100      of another scope, with TTFT
    """
    first, second = ({"gen_ai.response.id": name} for name in ids)
    return analyzed(
        agent(
            0,
            100,
            chat(0, 100, input=50, output=5, scope="sdk", id="one", attributes=first),
            chat(
                shared_from,
                100,
                ttft=30,
                stream=True,
                scope="framework",
                id="two",
                attributes=second,
            ),
        )
    )


def test_siblings_of_two_scopes_that_share_most_of_their_time_are_one_call() -> None:
    document = twins(10)
    assert calls(document) == ["one"]
    assert ms(step(document, "one")["ttft_ns"]) == 40
    assert notes(document)["twin_spans"]["span_ids"] == ["one", "two"]


def test_siblings_that_share_less_are_two_calls() -> None:
    assert calls(twins(10.1)) == ["one", "two"]


def test_siblings_with_one_response_id_that_overlap_are_one_call() -> None:
    assert calls(twins(70, ids=("r1", "r1"))) == ["one"]


def test_siblings_with_two_response_ids_are_two_calls() -> None:
    assert calls(twins(0, ids=("r1", "r2"))) == ["one", "two"]


def test_siblings_of_one_scope_are_a_parallel_pair() -> None:
    """The same question asked twice at once, by one instrumentation."""
    document = analyzed(
        agent(0, 100, chat(0, 100, scope="sdk", id="one"), chat(0.1, 100, scope="sdk", id="two"))
    )
    assert calls(document) == ["one", "two"]
    assert "twin_spans" not in notes(document)


def test_siblings_that_count_differently_are_two_calls() -> None:
    document = analyzed(
        agent(
            0,
            100,
            chat(0, 100, input=50, output=5, scope="sdk", id="one"),
            chat(0, 100, input=70, output=5, scope="framework", id="two"),
        )
    )
    assert calls(document) == ["one", "two"]


def test_one_span_exported_twice_under_two_ids_is_one_call() -> None:
    """Equal content, two ids: one piece of work."""
    document = analyzed(
        agent(
            0,
            100,
            chat(0, 60, input=50, output=5, id="one", ttft=20),
            chat(0, 60, input=50, output=5, id="two", ttft=20),
        )
    )
    assert calls(document) == ["one"]
    assert notes(document)["twin_spans"]["span_ids"] == ["one", "two"]


# --- the server's view ----------------------------------------------------------------------------


def test_a_server_below_its_client_enriches_the_call() -> None:
    """
    client  |----------------------|  0..500, 100/20
      server    |----------------|    20..490: queue 60, prefill 40, first token 100 after arrival
    """
    document = analyzed(
        agent(
            0,
            500,
            chat(
                0,
                500,
                server(20, 490, queue=60, prefill=40, ttft=100, input=100, output=20, id="srv"),
                input=100,
                output=20,
                id="call",
            ),
        )
    )
    call = step(document, "call")
    assert kinds(document) == {
        "0000000000000001": "agent",
        "call": "model_call",
        "srv": "server_call",
    }
    assert (ms(call["ttft_ns"]), call["ttft_source"]) == (120, "reported")
    assert (part(document, "network"), part(document, "queue")) == (20, 60)
    assert segments(document) == {"prefill": 120, "decode": 380}


def test_a_server_without_a_client_is_the_call() -> None:
    document = analyzed(
        agent(0, 500, server(0, 500, queue=10, prefill=40, ttft=50, input=9, output=20, id="srv"))
    )
    assert kinds(document)["srv"] == "model_call"
    assert (ms(step(document, "srv")["ttft_ns"]), step(document, "srv")["ttft_source"]) == (
        50,
        "reported",
    )


def test_a_gateway_above_an_engine_is_one_call() -> None:
    """
    client     |------------------------|
      gateway    |--------------------|      SERVER: the outer interval of the server's side
        engine       |--------------|        its first token: 80 after its start
    """
    document = analyzed(
        agent(
            0,
            500,
            chat(
                0,
                500,
                chat(
                    30,
                    490,
                    server(40, 480, ttft=80, id="engine"),
                    kind=KIND_SERVER,
                    id="gateway",
                ),
                input=9,
                output=20,
                id="call",
            ),
        )
    )
    assert calls(document) == ["call"]
    assert (ms(step(document, "call")["ttft_ns"]), part(document, "network")) == (120, 30)


def test_a_server_beside_its_client_is_the_same_call() -> None:
    """
    client  |--------------------|   0..500, 100/20, scope of the SDK
    server   |------------------|    10..495, 100/20: its parent got lost on the way
    """
    document = analyzed(
        agent(
            0,
            500,
            chat(0, 500, input=100, output=20, scope="sdk", id="call"),
            server(10, 495, queue=0, prefill=90, ttft=90, input=100, output=20, id="srv"),
        )
    )
    assert calls(document) == ["call"]
    assert (ms(step(document, "call")["ttft_ns"]), step(document, "call")["ttft_source"]) == (
        100,
        "reported",
    )
    assert kinds(document)["srv"] == "server_call"
    assert notes(document)["twin_spans"]["span_ids"] == ["call", "srv"]


def test_a_server_beside_its_client_with_one_response_id_reports_and_does_not_measure() -> None:
    """An engine's first token is the engine's figure, wherever its span hangs."""
    same = {"gen_ai.response.id": "r1", "gen_ai.request.id": "r1"}
    document = analyzed(
        agent(
            0,
            500,
            chat(0, 500, input=100, output=20, scope="sdk", id="call", attributes=same),
            server(10, 495, ttft=90, input=100, output=20, attributes=same),
        )
    )
    assert calls(document) == ["call"]
    assert step(document, "call")["ttft_source"] == "reported"


# --- agents ---------------------------------------------------------------------------------------


def test_an_agent_that_repeats_usage_adds_nothing() -> None:
    """The agent span carries the sum of its calls, first chunk and finish reason as well."""
    repeated = {
        "gen_ai.usage.input_tokens": 113,
        "gen_ai.usage.output_tokens": 11,
        "gen_ai.response.time_to_first_chunk": 0.02,
    }
    document = analyzed(
        agent(0, 100, chat(0, 60, input=113, output=11, id="call"), attributes=repeated)
    )
    assert calls(document) == ["call"]
    assert sum(s.get("input_tokens") or 0 for s in document["steps"]) == 113


# --- tools ----------------------------------------------------------------------------------------


def test_a_tool_inside_the_same_tool_is_one_call() -> None:
    document = analyzed(
        agent(0, 100, tool(0, 90, tool(5, 80, call_id="c1", error="Boom", id="in"), id="out"))
    )
    assert tools(document) == ["out"]
    assert (step(document, "out")["call_id"], step(document, "out")["error_type"]) == ("c1", "Boom")


def test_a_tool_that_calls_another_tool_is_two_calls() -> None:
    document = analyzed(agent(0, 100, tool(0, 90, tool(5, 80, name="fetch", id="in"), id="out")))
    assert tools(document) == ["out", "in"]


def mcp(start: float, end: float, *children: Branch, kind: int, id: str) -> Branch:
    own = {"mcp.method.name": "tools/call", "gen_ai.tool.name": "search"}
    return plain(start, end, *children, name="tools/call search", kind=kind, attributes=own, id=id)


def test_mcp_client_and_server_are_the_tool_around_them() -> None:
    """
    execute_tool  |------------|
      mcp client    |--------|
        mcp server    |----|
    """
    inner = mcp(10, 80, mcp(20, 70, kind=KIND_SERVER, id="srv"), kind=KIND_CLIENT, id="client")
    assert tools(analyzed(agent(0, 100, tool(0, 90, inner, id="out")))) == ["out"]


@pytest.mark.parametrize("name", ["search", "mcp__docs__search", "docs.search"])
def test_an_mcp_server_beside_its_client_is_the_clients_call(name: str) -> None:
    """Claude's SDK does not hand its context on to a server in the same process."""
    served = mcp(20, 70, kind=KIND_SERVER, id="srv")
    document = analyzed(agent(0, 100, tool(10, 80, name=name, id="t"), served))
    assert [s["span_id"] for s in document["steps"] if s["kind"] == "tool_call"] == ["t"]


@pytest.mark.parametrize(("name", "end"), [("research", 70), ("search", 90)])
def test_another_tools_server_is_a_call_of_its_own(name: str, end: float) -> None:
    served = mcp(20, end, kind=KIND_SERVER, id="srv")
    document = analyzed(agent(0, 100, tool(10, 80, name=name, id="t"), served))
    assert len([s for s in document["steps"] if s["kind"] == "tool_call"]) == 2


def test_an_mcp_server_alone_is_the_tool_call() -> None:
    document = analyzed(agent(0, 100, mcp(20, 70, kind=KIND_SERVER, id="srv")))
    assert tools(document) == ["srv"]
    assert segments(document) == {"tool": 50, "framework": 50}


def test_an_approval_inside_a_tool_is_no_part_of_its_execution() -> None:
    """Claude Code
    tool            |---------------|
      blocked         |----|              a person
      execution             |-----|       the work: the same call
    """
    document = analyzed(
        agent(
            0,
            100,
            plain(
                0,
                100,
                plain(5, 40, name="claude_code.tool.blocked_on_user", id="wait"),
                plain(45, 95, name="claude_code.tool.execution", id="exec"),
                name="claude_code.tool",
                attributes={"tool_name": "Bash"},
                id="tool",
            ),
        )
    )
    assert kinds(document) == {"0000000000000001": "agent", "tool": "tool_call", "wait": "wait"}
    assert segments(document) == {"tool": 65, "wait": 35}


def test_two_instrumentations_of_one_tool_side_by_side_are_one_call() -> None:
    document = analyzed(
        agent(0, 100, tool(0, 90, scope="a", id="one"), tool(1, 90, scope="b", id="two"))
    )
    assert tools(document) == ["one"]
    assert notes(document)["twin_spans"]["span_ids"] == ["one", "two"]


@pytest.mark.parametrize(
    "other",
    [
        tool(0, 90, scope="a", id="two"),  # one scope writes one span a call
        tool(0, 90, scope="b", id="two", name="fetch"),
        tool(0, 70, scope="b", id="two"),
        tool(0, 90, scope="b", id="two", call_id="c2"),
    ],
)
def test_two_tools_side_by_side_are_two(other: Branch) -> None:
    document = analyzed(agent(0, 100, tool(0, 90, scope="a", id="one", call_id="c1"), other))
    assert sorted(tools(document)) == ["one", "two"]


def test_a_span_that_repeats_another_is_left_out_and_its_children_move_up() -> None:
    """ADK's "(merged tools)" repeats the tools beside it."""
    document = analyzed(
        agent(
            0,
            100,
            tool(0, 50, id="one", name="search"),
            tool(0, 50, tool(10, 40, id="two", name="fetch"), id="merged", name="(merged tools)",
                 attributes={"gcp.vertex.agent.event_id": "e1"}),
        )
    )  # fmt: skip
    assert sorted(tools(document)) == ["one", "two"]


def test_a_pending_span_says_that_the_request_is_running() -> None:
    """Logfire sends a copy of each span when it starts; nothing else has come yet."""
    pending = {"logfire.span_type": "pending_span", "gen_ai.operation.name": "invoke_agent"}
    document = analyzed(
        plain(0, 0, id="copy", parent="root", scope="logfire", attributes=pending),
        chat(10, 60, id="call", parent="root"),
    )
    assert (document["state"], document["state_reason"]) == ("running", "root_not_ended")
    assert calls(document) == ["call"]


def test_a_guardrails_call_is_a_call_of_its_own() -> None:
    document = analyzed(
        agent(
            0,
            100,
            guardrail(0, 40, chat(5, 35, id="judge", input=5, output=1)),
            chat(40, 100, id="call", input=9, output=9),
        )
    )
    assert calls(document) == ["judge", "call"]
