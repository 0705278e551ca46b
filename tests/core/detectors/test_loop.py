"""Steps 1, 5 and 6: which segment, which gap, and whether a faster model would help at all."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Branch, agent, chat, http, ns, plain, server, tool, wait
from tests.core.detectors.proof import FIRES, SILENT, UNKNOWN, proves
from tests.core.reading import (
    Document,
    analyzed,
    cannot_tell,
    diagnoses,
    difference,
    found,
    ms,
    triage,
)


def one_turn(model: float, tools: float, framework: float, **known: Any) -> Document:
    """One turn: the loop takes its time, the model asks, the tool runs.

    agent  |..framework..|--model--|------tools------|
    """
    end = model + tools + framework
    call = chat(framework, framework + model, ttft=model / 2, input=100, output=20)
    return analyzed(agent(0, end, call, tool(framework + model, end), id="a"), **known)


# --- tools_dominate (T-2) -------------------------------------------------------------------------


def test_the_golden_case() -> None:
    """Model 300 ms, tools 1.5 s, framework 200 ms in one turn."""
    document = one_turn(300, 1500, 200)
    assert {"tools_dominate", "framework_overhead", "model_not_bottleneck"} <= set(
        diagnoses(document)
    )
    assert diagnoses(document)["model_not_bottleneck"]["evidence"]["gain_percent"] == 15


@proves("tools_dominate", FIRES)
def test_tools_that_take_most_of_the_request() -> None:
    finding = diagnoses(one_turn(300, 1500, 200))["tools_dominate"]
    assert finding["evidence"] == {
        "tool_ns": ns(1500),
        "model_ns": ns(300),
        "end_to_end_ns": ns(2000),
        "limit_ns": None,
    }
    assert (finding["step"], finding["saving_ns"], finding["severity"]) == (1, None, "warning")


@pytest.mark.parametrize(
    ("model", "tools", "framework", "fires"),
    [
        (200, 600, 0, True),
        (700, 690, 0, False),  # less than half
        (200, 600, 300, True),  # framework 300: exactly half of it
        (200, 600, 301, False),  # the next segment is more than half as long
        (300, 590, 0, True),  # prefill and decode are two segments of 150
        (0.5, 0, 100, False),
    ],
)
@proves("tools_dominate", SILENT)
def test_half_of_the_request_and_twice_the_next_segment(
    model: float, tools: float, framework: float, fires: bool
) -> None:
    assert ("tools_dominate" in diagnoses(one_turn(model, tools, framework))) is fires


def test_without_a_model_there_is_nothing_to_dominate() -> None:
    """A job that only embeds."""
    assert found("tools_dominate", plain(0, 300, tool(0, 290))) is None


@pytest.mark.parametrize(
    ("tools", "limit", "fires"),
    [(400, 399, True), (400, 400, False), (300, 200, False)],
    ids=["over", "within", "over, but the model takes as long"],
)
def test_tools_over_their_budget_and_longer_than_the_model(
    tools: float, limit: float, fires: bool
) -> None:
    document = one_turn(300, tools, 500, budgets={"tool": ns(limit)})
    assert ("tools_dominate" in diagnoses(document)) is fires


def test_a_person_who_took_his_time_makes_no_tool_slow() -> None:
    document = analyzed(
        agent(0, 5000, chat(0, 400, ttft=200), tool(400, 4700, wait(500, 4600)), chat(4700, 5000))
    )
    assert "tools_dominate" not in diagnoses(document)


def untraced() -> Branch:
    """
    agent  |-asks-|..................|-chat-|     900 of 1,100 ms that no span shows
    """
    return agent(0, 1100, chat(0, 100, asks={"c1": "search"}), chat(1000, 1100), id="a")


@proves("tools_dominate", UNKNOWN)
def test_of_what_is_mostly_untraced_nothing_is_said() -> None:
    assert cannot_tell("tools_dominate", untraced()) == ["mostly_untraced"]
    assert triage(analyzed(untraced()), 1) == ("unknown", "mostly_untraced")


# --- framework_overhead (T-2) ---------------------------------------------------------------------


@proves("framework_overhead", FIRES, SILENT)
def test_framework_beyond_50_ms_a_turn() -> None:
    """200 ms in one turn: 150 too much."""
    faulty, twin = one_turn(300, 1500, 200), one_turn(300, 1500, 50)
    finding = diagnoses(faulty)["framework_overhead"]
    assert finding["evidence"] == {
        "framework_ns": ns(200),
        "turns": 1,
        "per_turn_ns": ns(200),
        "allowed_ns": ns(50),
        "io_ns": 0,
    }
    assert finding["saving_ns"] == difference(faulty, twin) == ns(150)
    assert "framework_overhead" not in diagnoses(twin)


def test_framework_over_its_budget() -> None:
    known = {"budgets": {"framework": ns(20)}}
    faulty, twin = one_turn(900, 0, 45, **known), one_turn(900, 0, 20, **known)
    assert diagnoses(faulty)["framework_overhead"]["saving_ns"] == difference(faulty, twin)
    assert "framework_overhead" not in diagnoses(twin)


def test_framework_within_its_budget_is_none_however_long() -> None:
    document = one_turn(100, 100, 900, budgets={"framework": ns(900)})
    assert "framework_overhead" not in diagnoses(document)


@pytest.mark.parametrize(("framework", "fires"), [(100, True), (99, False)])
def test_framework_of_a_tenth_of_the_request(framework: float, fires: bool) -> None:
    document = one_turn(1000 - framework, 0, framework)
    assert ("framework_overhead" in diagnoses(document)) is fires


def test_each_turn_may_have_its_50_ms() -> None:
    """
    agent  |..|-chat-|..|-chat-|..|    40 ms before, between and after: 120 of two turns' 100
    """
    document = analyzed(
        agent(0, 420, chat(40, 190, stream=False), chat(230, 380, stream=False), id="a")
    )
    evidence = diagnoses(document)["framework_overhead"]["evidence"]
    assert (evidence["turns"], ms(evidence["allowed_ns"])) == (2, 100)
    assert ms(diagnoses(document)["framework_overhead"]["saving_ns"]) == 20


def test_io_is_part_of_it_and_said() -> None:
    document = analyzed(agent(0, 600, http(0, 300), chat(300, 600)))
    evidence = diagnoses(document)["framework_overhead"]["evidence"]
    assert (ms(evidence["framework_ns"]), ms(evidence["io_ns"])) == (300, 300)


def test_ignorance_and_waits_between_attempts_are_no_overhead() -> None:
    waits = agent(0, 700, chat(0, 100, error="429"), chat(400, 700))
    assert found("framework_overhead", untraced()) is None
    assert found("framework_overhead", waits) is None


@proves("framework_overhead", UNKNOWN)
def test_what_is_not_traced_could_be_the_framework() -> None:
    assert cannot_tell("framework_overhead", untraced()) == ["mostly_untraced"]


# --- many_turns -----------------------------------------------------------------------------------


def thinking(turns: int, *, error: str | None = None, **known: Any) -> Document:
    calls = (chat(100 * n, 100 * n + 100, stream=False) for n in range(turns))
    failed: dict[str, Any] = {"status": 2, "attributes": {"error.type": error}} if error else {}
    return analyzed(agent(0, 100 * turns, *calls, id="a", **failed), **known)


@proves("many_turns", FIRES, SILENT)
def test_more_rounds_than_five() -> None:
    finding = diagnoses(thinking(6))["many_turns"]
    assert finding["evidence"] == {"turns": 6, "limit": 5, "gave_up": False}
    assert (finding["span_ids"], finding["saving_ns"]) == (["a"], None)
    assert "many_turns" not in diagnoses(thinking(5))


def test_more_rounds_than_promised() -> None:
    assert diagnoses(thinking(3, budgets={"turns": 2}))["many_turns"]["evidence"]["limit"] == 2
    assert "many_turns" not in diagnoses(thinking(8, budgets={"turns": 8}))


@pytest.mark.parametrize(
    "error", ["MaxTurnsExceeded", "GraphRecursionError", "max_iterations", "max steps reached"]
)
def test_an_agent_that_was_stopped_for_its_rounds(error: str) -> None:
    assert diagnoses(thinking(2, error=error))["many_turns"]["evidence"]["gave_up"] is True


def test_an_agent_that_failed_for_another_reason() -> None:
    assert "many_turns" not in diagnoses(thinking(2, error="TimeoutError"))


# --- network_gap ----------------------------------------------------------------------------------


def called(client: float, served: float, before: float) -> Document:
    """
    client  |------------------|
      server     |--------|          `before` ms after the client
    """
    srv = server(before, before + served, ttft=50, input=100, output=20, id="srv")
    return analyzed(agent(0, client, chat(0, client, srv, input=100, output=20, id="call")))


@proves("network_gap", FIRES, SILENT)
def test_client_and_server_that_disagree_by_much() -> None:
    faulty, twin = called(1000, 700, 100), called(700, 700, 0)
    finding = diagnoses(faulty)["network_gap"]
    assert finding["evidence"] == {
        "client_ns": ns(1000),
        "server_ns": ns(700),
        "gap_ns": ns(300),
    }
    assert (finding["step"], finding["span_ids"]) == (5, ["call"])
    assert finding["saving_ns"] == difference(faulty, twin) == ns(300)
    assert "network_gap" not in diagnoses(twin)
    assert triage(twin, 5) == ("clear", None)


@pytest.mark.parametrize(("client", "served"), [(400, 300), (1000, 800)], ids=["100 ms", "20 %"])
def test_a_gap_that_is_mere_distance(client: float, served: float) -> None:
    assert "network_gap" not in diagnoses(called(client, served, 10))


@proves("network_gap", UNKNOWN)
def test_without_a_servers_span_the_network_is_unknown() -> None:
    document = analyzed(agent(0, 1000, chat(0, 1000)))
    assert triage(document, 5) == ("unknown", "no_server_spans")


# --- handoff_gap ----------------------------------------------------------------------------------


def handoff(gap: float) -> Document:
    """
    root  |----a----|..gap..|----b----|     500 ms each
    """
    return analyzed(
        plain(
            0,
            1000 + gap,
            agent(0, 500, chat(0, 500), id="a"),
            agent(500 + gap, 1000 + gap, chat(500 + gap, 1000 + gap), id="b"),
        )
    )


@proves("handoff_gap", FIRES, SILENT)
def test_time_between_agents_in_which_neither_works() -> None:
    faulty, twin = handoff(80), handoff(0)
    finding = diagnoses(faulty)["handoff_gap"]
    assert (finding["evidence"], finding["span_ids"]) == ({"gap_ns": ns(80)}, ["a", "b"])
    assert finding["saving_ns"] == difference(faulty, twin) == ns(80)
    assert "handoff_gap" not in diagnoses(twin)


@pytest.mark.parametrize("gap", [50, 52], ids=["50 ms", "less than 5 %"])
def test_a_gap_that_is_scheduling(gap: float) -> None:
    assert "handoff_gap" not in diagnoses(handoff(gap))


# --- model_not_bottleneck -------------------------------------------------------------------------


@proves("model_not_bottleneck", FIRES)
def test_the_ceiling_of_an_infinitely_fast_model() -> None:
    finding = diagnoses(one_turn(300, 1500, 200))["model_not_bottleneck"]
    assert finding["evidence"] == {
        "remaining_ns": ns(1700),
        "end_to_end_ns": ns(2000),
        "model_ns": ns(300),
        "limit_ns": None,
        "gain_percent": 15,
    }
    assert (finding["step"], finding["saving_ns"]) == (6, None)


@pytest.mark.parametrize(("limit", "fires"), [(1699, True), (1700, False)])
def test_without_model_time_still_over_its_budget(limit: float, fires: bool) -> None:
    document = one_turn(300, 1500, 200, budgets={"end_to_end": ns(limit)})
    assert ("model_not_bottleneck" in diagnoses(document)) is fires


@pytest.mark.parametrize(("model", "fires"), [(499, True), (500, False)])
@proves("model_not_bottleneck", SILENT)
def test_without_a_budget_more_than_half_must_remain(model: float, fires: bool) -> None:
    document = one_turn(model, 1000 - model, 0)
    assert ("model_not_bottleneck" in diagnoses(document)) is fires


@proves("model_not_bottleneck", UNKNOWN)
def test_what_is_not_traced_could_be_a_model() -> None:
    assert found("model_not_bottleneck", untraced()) is None
    assert cannot_tell("model_not_bottleneck", untraced()) == ["untraced_could_be_model"]
    assert triage(analyzed(untraced()), 6) == ("unknown", "untraced_could_be_model")


def test_what_ran_beside_a_model_may_have_waited_for_it() -> None:
    """
    agent  |--------chat---------|
              |------tool--------|      both end together: a tool that nobody closed, perhaps
    """
    request_ = agent(0, 1000, chat(100, 1000, stream=False), tool(50, 1000))
    assert found("model_not_bottleneck", request_) is None
    assert cannot_tell("model_not_bottleneck", request_) == ["work_beside_model"]


def test_a_request_without_a_model_is_not_blamed_on_one() -> None:
    assert found("model_not_bottleneck", plain(0, 100, tool(0, 90))) is None


def test_a_tool_beside_the_model_remains_without_it() -> None:
    """
    agent  |-chat-|
           |--------tool---------|      900 of 1,000 ms, whatever the model does
                      |-chat-|
    """
    document = analyzed(
        agent(0, 1000, chat(0, 100), tool(100, 1000), chat(300, 900, id="beside"), id="a")
    )
    evidence = diagnoses(document)["model_not_bottleneck"]["evidence"]
    assert ms(evidence["remaining_ns"]) == 900


# --- model_bound ----------------------------------------------------------------------------------


def bound(*, ttft: float | None = 200, served: bool = True, **facts: Any) -> Document:
    """One call of 950 ms in 1,000, its server's span below it."""
    facts = {"input": 100, "output": 51, "cached": 0, **facts}
    spans = (server(0, 950, input=100, output=51),) if served else ()
    return analyzed(agent(0, 1000, chat(0, 950, *spans, ttft=ttft, id="c", **facts)))


@proves("model_bound", FIRES)
def test_all_else_is_clear_and_the_model_has_the_time() -> None:
    document = bound()
    assert [triage(document, step)[0] for step in (1, 2, 3, 4, 5)] == ["clear"] * 5
    assert diagnoses(document)["model_bound"]["evidence"] == {
        "prefill_ns": ns(200),
        "decode_ns": ns(750),
        "unsplit_ns": 0,
        "larger": "decode",
    }


def test_it_says_which_of_prefill_and_decode() -> None:
    assert diagnoses(bound(ttft=800))["model_bound"]["evidence"]["larger"] == "prefill"


def test_the_network_step_may_stay_unknown() -> None:
    """Few servers send spans."""
    document = bound(served=False)
    assert triage(document, 5)[0] == "unknown"
    assert "model_bound" in diagnoses(document)


@proves("model_bound", UNKNOWN)
def test_with_an_earlier_step_unknown_it_cannot_say() -> None:
    document = bound(ttft=None)
    assert triage(document, 2) == ("unknown", "ttft_unknown")
    assert "model_bound" not in diagnoses(document)
    assert triage(document, 6) == ("unknown", "earlier_steps_unknown")


def test_with_something_found_earlier_it_is_silent() -> None:
    """A retry of the call."""
    document = analyzed(
        agent(0, 1000, chat(0, 50, error="429"), chat(60, 950, ttft=100, input=9, output=51))
    )
    assert triage(document, 2)[0] == "found"
    assert "model_bound" not in diagnoses(document)


@proves("model_bound", SILENT)
def test_of_a_model_that_has_less_it_is_silent() -> None:
    request: Branch = agent(
        0, 1000, chat(0, 700, server(0, 700), ttft=100, input=9, output=51), tool(700, 1000)
    )
    assert found("model_bound", request) is None


def test_a_lean_request_has_no_performance_finding_but_its_bound() -> None:
    assert set(diagnoses(one_turn(300, 100, 5))) <= {"model_bound"}
