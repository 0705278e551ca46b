"""Segments: every slice is prefill, decode, tool, framework or wait, and says which part of it."""

from __future__ import annotations

import pytest

from tests.builders import (
    Branch,
    Maker,
    agent,
    chat,
    embedding,
    guardrail,
    http,
    plain,
    queue,
    retrieval,
    server,
    tool,
    wait,
    workflow,
)
from tests.core.reading import Document, analyzed, busy, diagnoses, ms, notes, part, path, segments
from tracebudget.core.span import KIND_CLIENT


def inside(*steps: Branch, end: float = 100) -> Document:
    """An agent with these steps, and a model call at the end, so that it is one at work."""
    return analyzed(agent(0, end + 10, *steps, chat(end, end + 10, stream=False), id="a"))


def gaps(document: Document) -> dict[str, list[tuple[float, float]]]:
    """The stretches of each part of framework."""
    found: dict[str, list[tuple[float, float]]] = {}
    for what, start, end, _ in path(document):
        if what.startswith("framework/"):
            found.setdefault(what.removeprefix("framework/"), []).append((start, end))
    return found


# --- whose slice ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "segment"),
    [
        (chat(10, 90, http(20, 80)), "decode"),
        (tool(10, 90, plain(20, 80, kind=KIND_CLIENT, name="SELECT orders")), "tool"),
        (tool(10, 90, chat(10, 90)), "decode"),
        (retrieval(10, 90), "tool"),
        (embedding(10, 90), "tool"),
        (tool(10, 90, agent(10, 90, chat(10, 20), chat(80, 90))), "framework"),
        (guardrail(10, 90), "framework"),
        (plain(10, 90), "framework"),
        (wait(10, 90), "wait"),
        (queue(10, 90), "prefill"),
        (tool(10, 90, workflow(20, 80)), "tool"),
        (agent(10, 90, chat(10, 20), chat(80, 90)), "framework"),
    ],
    ids=[
        "HTTP below a call is the model's",
        "SQL below a tool is the tool's",
        "a call below a tool is the model's",
        "retrieval",
        "embedding",
        "a sub-agent's own time, also below a tool",
        "guardrail",
        "nobody's",
        "a person",
        "waiting for a slot",
        "a workflow without a call is the machinery of its tool",
        "a sub-agent's own time",
    ],
)
def test_a_slice_belongs_to_the_nearest_typed_step(step: Branch, segment: str) -> None:
    """The middle of the step, 50 ms, is asked for."""
    middle = [what for what, start, end, _ in path(inside(step)) if start <= 50 < end]
    assert middle[0].split("/")[0] == segment


def test_a_call_below_a_tool_leaves_the_tool_the_rest() -> None:
    document = inside(tool(0, 100, chat(30, 60, id="inner"), id="t"))
    assert path(document)[:3] == [
        ("tool", 0, 30, "t"),
        ("decode/unsplit", 30, 60, "inner"),
        ("tool", 60, 100, "t"),
    ]


# --- model time -----------------------------------------------------------------------------------


def test_before_the_first_token_prefill_after_it_decode() -> None:
    document = analyzed(agent(0, 100, chat(0, 100, ttft=30, id="c")))
    assert path(document) == [("prefill", 0, 30, "c"), ("decode", 30, 100, "c")]


def test_model_time_that_nothing_splits_is_decode_unsplit() -> None:
    document = analyzed(agent(0, 100, chat(0, 100, id="c")))
    assert path(document) == [("decode/unsplit", 0, 100, "c")]
    assert part(document, "unsplit") == 100


def test_a_first_token_at_the_end_leaves_no_decode() -> None:
    document = analyzed(agent(0, 100, chat(0, 100, ttft=100, output=1)))
    assert segments(document) == {"prefill": 100}


def engine(**phases: float) -> Document:
    """
    client  |-----------------------------------|  0..500
      server  |-------------------------------|    20..490
              |queue|prefill|other|              first token 120 ms after arrival
    """
    srv = server(20, 490, ttft=120, input=100, output=20, **phases)
    return analyzed(agent(0, 500, chat(0, 500, srv, input=100, output=20, id="c")))


def test_network_queue_prefill_and_what_does_not_add_up() -> None:
    document = engine(queue=60, prefill=40)
    assert path(document) == [
        ("prefill/network", 0, 20, "c"),
        ("prefill/queue", 20, 80, "c"),
        ("prefill", 80, 120, "c"),
        ("prefill/engine_other", 120, 140, "c"),
        ("decode", 140, 500, "c"),
    ]
    assert {name: part(document, name) for name in ("network", "queue", "engine_other")} == {
        "network": 20,
        "queue": 60,
        "engine_other": 20,
    }


def test_phases_that_add_up_leave_no_other_time() -> None:
    assert part(engine(queue=80, prefill=40), "engine_other") == 0


def test_phases_that_nothing_tells_are_null() -> None:
    document = analyzed(agent(0, 100, chat(0, 100, ttft=30)))
    assert document["segments"]["prefill"]["parts"] == {
        "queue": None,
        "network": None,
        "engine_other": None,
    }


def test_a_queue_longer_than_the_first_token_is_cut_there_and_noted() -> None:
    """The wall clock wins."""
    document = engine(queue=200)
    assert (part(document, "queue"), segments(document)["prefill"]) == (120, 140)
    assert notes(document)["reported_exceeds_wall"]["evidence"]["queue_ns"] == 200_000_000


def test_waiting_for_a_slot_at_the_client_is_queue() -> None:
    """Pydantic AI: a span of its own inside the call's wrapper, or before the call."""
    document = analyzed(agent(0, 200, queue(0, 80, id="q"), chat(80, 200, ttft=40)))
    assert path(document)[0] == ("prefill/queue", 0, 80, "q")
    assert part(document, "queue") == 80


# --- attempts -------------------------------------------------------------------------------------


def test_a_failed_attempt_is_prefill_and_the_wait_before_the_next_is_framework() -> None:
    """
    agent   |---------------------------------------------|
      chat  |-429-|
      chat             |-429-|
      chat                            |----*--------------|
              prefill   wait   prefill  wait   prefill  decode
    """
    document = analyzed(
        agent(
            0,
            1000,
            chat(0, 50, error="429"),
            chat(150, 200, error="429"),
            chat(500, 1000, ttft=100, id="good"),
        )
    )
    assert gaps(document) == {"retry_wait": [(50, 150), (200, 500)]}
    assert segments(document) == {"prefill": 200, "decode": 400, "framework": 400}
    assert part(document, "retry_wait") == 400


def test_a_failed_attempt_that_had_begun_to_answer_is_prefill_too() -> None:
    """The stream broke after its first token, and was asked for anew: its tokens were for nothing.

    chat  |--*---x        first token 20, broken at 50
    chat            |--*------|
    """
    document = analyzed(
        agent(0, 300, chat(0, 50, ttft=20, error="ReadError"), chat(100, 300, ttft=40))
    )
    assert segments(document) == {"prefill": 90, "decode": 160, "framework": 50}


def test_a_wait_between_two_good_calls_is_no_retry_wait() -> None:
    assert gaps(inside(chat(0, 50))) == {}


def test_hidden_attempts_are_prefill_and_the_first_token_counts_from_the_last() -> None:
    """
    call   |------------------------------------|  0..1000, one span
      http |-429-|                                 0..100
      http            |-------------------------|  300..1000
    first chunk                 *                  400 after the call's start, 100 after the attempt
    """
    document = analyzed(
        agent(
            0,
            1000,
            chat(0, 1000, http(0, 100, status=429), http(300, 1000), ttft=400, id="c"),
        )
    )
    assert segments(document) == {"prefill": 400, "decode": 600}
    assert ms(document["steps"][1]["ttft_ns"]) == 100


# --- unattributed ---------------------------------------------------------------------------------


def test_a_gap_after_a_call_that_asked_for_tools_no_span_shows() -> None:
    """
    agent   |-------------------------|
      chat  |---|  asks for a tool
      chat           |-----|             100..400: it ran, and nobody says so
    """
    document = analyzed(
        agent(0, 700, chat(0, 100, asks={"c1": "search"}, id="ask"), chat(400, 700))
    )
    assert gaps(document) == {"unattributed": [(100, 400)]}
    assert part(document, "unattributed") == 300
    assert notes(document)["tools_not_traced"]["span_ids"] == ["ask"]
    assert notes(document)["tools_not_traced"]["evidence"]["unattributed_ns"] == 300_000_000


def test_a_gap_in_which_one_of_two_tools_is_missing() -> None:
    asks = {"c1": "search", "c2": "fetch"}
    document = analyzed(
        agent(0, 700, chat(0, 100, asks=asks), tool(100, 200, call_id="c1"), chat(400, 700))
    )
    assert gaps(document) == {"unattributed": [(200, 400)]}


def test_a_gap_after_tools_that_all_have_spans_is_framework() -> None:
    asks = {"c1": "search"}
    document = analyzed(
        agent(0, 700, chat(0, 100, asks=asks), tool(100, 200, call_id="c1"), chat(400, 700))
    )
    assert gaps(document) == {}
    assert segments(document)["framework"] == 200


def test_a_gap_after_an_answer_is_framework() -> None:
    document = analyzed(agent(0, 700, chat(0, 100), chat(400, 700)))
    assert gaps(document) == {}


def test_a_gap_before_a_call_whose_decode_is_impossible() -> None:
    """400 tokens in 5 ms: the span was opened at the end of the stream.

    agent  |---------------------------|
      tool |---|
      chat                         ||     the gap before it was most likely the model's
    """
    document = analyzed(agent(0, 5000, chat(0, 50), tool(50, 100), chat(4995, 5000, output=400)))
    assert gaps(document) == {"unattributed": [(100, 4995)]}
    assert "framework_overhead" not in diagnoses(document)


def test_a_fast_but_possible_call_leaves_the_gap_to_the_framework() -> None:
    """0.2 ms a token after the first is what one stream can carry."""
    document = analyzed(agent(0, 5000, chat(0, 50), tool(50, 100), chat(4900, 5000, output=501)))
    assert gaps(document) == {}


@pytest.mark.parametrize("root", [agent, plain])
def test_an_agent_or_a_request_without_any_call(root: Maker) -> None:
    """Its tools show; whether a model was asked between them, nobody knows."""
    document = analyzed(root(0, 100, tool(20, 50), id="root"))
    assert gaps(document) == {"unattributed": [(0, 20), (50, 100)]}


def test_a_sub_agent_without_any_call() -> None:
    document = inside(agent(10, 90, tool(20, 50), id="mute"))
    assert gaps(document) == {"unattributed": [(10, 20), (50, 90)]}


def test_a_sub_agent_of_which_nothing_is_traced() -> None:
    """
    tool    |--------------|
      agent   |..........|         its own time is no tool's, and nobody knows what it did
    """
    document = inside(tool(0, 100, agent(10, 90, id="mute"), id="t"))
    assert segments(document)["tool"] == 20
    assert gaps(document) == {"unattributed": [(10, 90)]}


def test_the_time_of_a_missing_parent() -> None:
    """
    root    |-----------------------------|
      (gone)   |..................|           what it did itself, nobody knows
        chat     |---|
        tool              |---|
    """
    document = analyzed(
        plain(0, 100, chat(80, 100, stream=False), id="root"),
        chat(10, 30, stream=False, parent="gone"),
        tool(50, 60, parent="gone"),
    )
    assert gaps(document) == {"unattributed": [(30, 50)]}


def test_a_hole_after_a_tool_at_the_end_of_a_run() -> None:
    """The call that read its result was streamed, left early and never exported."""
    document = analyzed(
        agent(0, 5000, chat(0, 500, asks={"c1": "search"}), tool(500, 1000, call_id="c1"))
    )
    assert gaps(document) == {"unattributed": [(1000, 5000)]}


def test_ignorance_is_no_overhead() -> None:
    """Outside the framework budget, and no finding."""
    document = analyzed(
        agent(0, 700, chat(0, 100, asks={"c1": "search"}), chat(400, 700)),
        budgets={"framework": 0},
    )
    assert document["budgets"][0]["value"] == 0
    assert "framework_overhead" not in diagnoses(document)


# --- io -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "around",
    [
        lambda call: call,
        lambda call: agent(5, 95, call, chat(80, 90)),
        lambda call: workflow(5, 95, call, chat(80, 90)),
        lambda call: guardrail(5, 95, call),
    ],
    ids=["request", "agent", "workflow", "guardrail"],
)
def test_a_client_span_of_nobody_but_an_agent_is_io(around: Maker) -> None:
    document = inside(around(plain(10, 60, kind=KIND_CLIENT, id="redis")))
    assert gaps(document)["io"] == [(10, 60)]
    assert part(document, "io") == 50


@pytest.mark.parametrize("around", [tool, chat, retrieval])
def test_a_client_span_below_work_is_that_work(around: Maker) -> None:
    assert "io" not in gaps(inside(around(10, 90, plain(20, 60, kind=KIND_CLIENT))))


def test_io_counts_as_framework() -> None:
    document = inside(plain(10, 60, kind=KIND_CLIENT))
    assert segments(document)["framework"] == 100


# --- between runs ---------------------------------------------------------------------------------


def handoff(gap: float, *between: Branch) -> Document:
    """
    root   |---a---|......|---b---|     two agents of one request, one after the other
    """
    start = 100 + gap
    return analyzed(
        plain(
            0,
            start + 100,
            agent(0, 100, chat(0, 100)),
            *between,
            agent(start, start + 100, chat(start, start + 100)),
            id="root",
        )
    )


def test_time_between_two_runs_is_a_handoff() -> None:
    assert gaps(handoff(80)) == {"handoff": [(100, 180)]}
    assert part(handoff(80), "handoff") == 80


def test_time_before_the_first_and_after_the_last_run_is_none() -> None:
    document = analyzed(
        plain(0, 500, agent(100, 200, chat(100, 200)), agent(200, 300, chat(200, 300)))
    )
    assert gaps(document) == {}
    assert segments(document)["framework"] == 300


def test_more_than_half_a_minute_between_two_runs_was_a_person() -> None:
    document = handoff(30_001)
    assert segments(document) == {"decode": 200, "wait": 30_001}
    assert busy(document)["wait"] == 30_001


def test_half_a_minute_is_still_a_handoff() -> None:
    assert segments(handoff(30_000)) == {"decode": 200, "framework": 30_000}


def test_a_gap_in_which_something_else_was_open_is_no_persons() -> None:
    """The root alone may be open: here a job runs for a whole minute."""
    document = handoff(60_000, plain(110, 60_090))
    assert "wait" not in segments(document)


def test_a_long_gap_inside_a_run_is_no_persons() -> None:
    document = analyzed(agent(0, 60_000, chat(0, 100), chat(50_000, 60_000)))
    assert "wait" not in segments(document)


# --- a person -------------------------------------------------------------------------------------


def test_a_wait_inside_a_tool_is_wait_and_the_rest_the_tools() -> None:
    document = inside(tool(0, 100, wait(20, 80)))
    assert segments(document) == {"tool": 40, "wait": 60, "decode": 10}


# --- busy time ------------------------------------------------------------------------------------


def test_three_parallel_tools_are_300_ms_critical_and_900_ms_busy() -> None:
    document = inside(*(tool(0, 300, name=name) for name in ("x", "y", "z")), end=300)
    assert (segments(document)["tool"], busy(document)["tool"]) == (300, 900)


def test_a_sub_agents_work_is_not_counted_again_for_its_tool() -> None:
    """
    tool    |----------------|   100 ms: 70 of them another agent's
      agent    |----------|
        chat     |------|        50
    """
    document = inside(tool(0, 100, agent(10, 80, chat(20, 70))))
    assert busy(document) == {"tool": 30, "framework": 20, "decode": 60}


def test_busy_time_of_calls_is_split_like_the_calls() -> None:
    document = inside(chat(0, 100, ttft=40), chat(20, 90, ttft=10))
    assert busy(document)["prefill"] == 50
    assert busy(document)["decode"] == 120 + 10


def test_two_parallel_agents_are_busy_twice() -> None:
    work = (chat(100, 300, stream=False), tool(300, 400))
    b, c = (tool(100, 400, agent(100, 400, *work, name=name), name=name) for name in ("b", "c"))
    document = analyzed(agent(0, 500, chat(0, 100, stream=False), b, c, chat(400, 500)))
    assert busy(document) == {"decode": 600, "tool": 200}
    assert segments(document) == {"decode": 400, "tool": 100}
