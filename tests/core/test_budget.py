"""Budgets: what was promised, and whether one request kept it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Branch, agent, chat, http, ns, plain, server, tool, wait
from tests.core.reading import analyzed, report_of
from tracebudget.core.budget import METRICS, Budget, check_request, measure
from tracebudget.core.fit import CallFit
from tracebudget.core.profile import Profile

Judged = tuple[int | None, str, str | None]

FIT = Profile(fits={"m": CallFit(a_ns=0, b_ns=0, c_ns=2e6, count=40)})


def judged(metric: str, limit: float, *tops: Branch, **known: Any) -> Judged:
    """(value, state, span id) of one budget; limits in ms, but for counts."""
    in_ns = round(limit) if metric in {"turns", "input_tokens"} else ns(limit)
    (row,) = analyzed(*tops, budgets={metric: in_ns}, **known)["budgets"]
    assert (row["metric"], row["limit"]) == (metric, in_ns)
    return row["value"], row["state"], row["span_id"]


# --- whole requests -------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "state"), [(100, "within"), (99.999999, "over")])
def test_a_budget_is_kept_up_to_its_limit(limit: float, state: str) -> None:
    assert judged("end_to_end", limit, agent(0, 100, id="a")) == (ns(100), state, "a")


def test_end_to_end_leaves_out_what_a_person_took() -> None:
    request = agent(0, 1000, chat(0, 100), tool(100, 900, wait(200, 800)), chat(900, 1000), id="a")
    assert judged("end_to_end", 400, request) == (ns(400), "within", "a")


def test_the_longest_turn_counts() -> None:
    """
    agent  |-chat-|---tool---|-chat-|-tool-|-chat-|
              turn 0: 300      turn 1: 150   turn 2: 50
    """
    request = agent(
        0, 500, chat(0, 100), tool(100, 300), chat(300, 350), tool(350, 450), chat(450, 500), id="a"
    )
    assert judged("turn", 300, request) == (ns(300), "within", "a")
    assert judged("turn", 299, request) == (ns(300), "over", "a")


def test_a_turn_leaves_out_what_a_person_took() -> None:
    request = agent(0, 1000, chat(0, 100), tool(100, 900, wait(200, 800)), chat(900, 1000))
    assert judged("turn", 300, request)[:2] == (ns(300), "within")


def test_a_nested_turn_may_be_the_longest() -> None:
    """The caller's turn contains it: it is at least as long."""
    inner = agent(10, 90, chat(10, 90), id="b")
    assert judged("turn", 50, agent(0, 100, chat(0, 5), tool(5, 95, inner), id="a"))[2] == "a"


def test_turns_of_the_top_run_alone() -> None:
    inner = agent(10, 90, chat(10, 20), chat(30, 40), chat(50, 60), id="b")
    request = agent(0, 100, chat(0, 5), tool(5, 92, inner), chat(95, 100), id="a")
    assert judged("turns", 2, request) == (2, "within", "a")
    assert judged("turns", 1, request) == (2, "over", "a")


# --- model calls ----------------------------------------------------------------------------------


def test_the_worst_ttft_counts() -> None:
    request = agent(0, 300, chat(0, 100, ttft=20), chat(100, 300, ttft=50, id="slow"))
    assert judged("ttft", 50, request) == (ns(50), "within", "slow")
    assert judged("ttft", 49, request) == (ns(50), "over", "slow")


def test_a_reported_ttft_counts() -> None:
    call = chat(0, 500, server(20, 490, ttft=100), input=1, output=20, id="c")
    assert judged("ttft", 100, agent(0, 500, call)) == (ns(120), "over", "c")


@pytest.mark.parametrize("known", [{}, {"profile": FIT}], ids=["unknown", "inferred"])
def test_a_ttft_that_is_not_known_leaves_the_budget_unknown(known: dict[str, Any]) -> None:
    """One call within, and one of which nobody knows; an estimate breaches nothing."""
    request = agent(0, 300, chat(0, 100, ttft=20, id="c"), chat(100, 300, output=50))
    assert judged("ttft", 50, request, **known) == (ns(20), "unknown", "c")


def test_a_ttft_over_its_limit_is_over_whatever_is_unknown() -> None:
    request = agent(0, 300, chat(0, 100, ttft=60, id="c"), chat(100, 300))
    assert judged("ttft", 50, request) == (ns(60), "over", "c")


def test_without_any_figure_the_budget_is_unknown() -> None:
    assert judged("ttft", 50, agent(0, 300, chat(0, 100))) == (None, "unknown", None)


def test_failed_attempts_are_nobodys_promise() -> None:
    """A 429 has no first token, and misses none."""
    request = agent(0, 300, chat(0, 10, error="429"), chat(100, 300, ttft=40, id="c"))
    assert judged("ttft", 50, request) == (ns(40), "within", "c")


def test_what_runs_in_the_background_is_nobodys_promise() -> None:
    request = agent(0, 300, chat(0, 300, ttft=40, id="c"), chat(310, 900, ttft=500))
    assert judged("ttft", 50, request) == (ns(40), "within", "c")


def test_first_visible_is_what_the_user_felt() -> None:
    """A provider that thinks: 11,157 ms until anything was seen, no TTFT."""
    request = agent(0, 11_300, chat(0, 11_236, ttft=11_157, output=856, id="c"))
    assert judged("first_visible", 5000, request) == (ns(11_157), "over", "c")
    assert judged("ttft", 5000, request) == (None, "unknown", None)


def test_first_visible_is_else_the_first_token() -> None:
    assert judged("first_visible", 50, agent(0, 100, chat(0, 100, ttft=40, id="c"))) == (
        ns(40),
        "within",
        "c",
    )


def test_the_worst_tpot_counts() -> None:
    request = agent(
        0,
        400,
        chat(0, 100, ttft=50, output=51),
        chat(100, 400, ttft=100, output=101, id="slow"),
    )
    assert judged("tpot", 2, request) == (ns(2), "within", "slow")
    assert judged("tpot", 1, request) == (ns(2), "over", "slow")


def test_a_call_of_one_token_has_no_tpot_and_misses_none() -> None:
    request = agent(0, 200, chat(0, 100, ttft=50, output=51, id="c"), chat(100, 200, output=1))
    assert judged("tpot", 2, request) == (ns(1), "within", "c")


def test_a_call_without_a_first_token_leaves_tpot_unknown() -> None:
    request = agent(0, 200, chat(0, 100, ttft=50, output=51, id="c"), chat(100, 200, output=50))
    assert judged("tpot", 2, request) == (ns(1), "unknown", "c")


def test_the_largest_prompt_counts() -> None:
    request = agent(0, 200, chat(0, 100, input=500), chat(100, 200, input=900, id="big"))
    assert judged("input_tokens", 900, request) == (900, "within", "big")
    assert judged("input_tokens", 899, request) == (900, "over", "big")


def test_a_prompt_that_is_not_counted_leaves_the_budget_unknown() -> None:
    request = agent(0, 200, chat(0, 100, input=500, id="c"), chat(100, 200))
    assert judged("input_tokens", 900, request) == (500, "unknown", "c")


# --- tools and framework --------------------------------------------------------------------------


def test_tool_time_is_critical_time() -> None:
    request = agent(0, 400, chat(0, 100), tool(100, 400), tool(100, 300, name="fetch"))
    assert judged("tool", 300, request) == (ns(300), "within", None)


def test_the_slowest_call_of_a_tool() -> None:
    request = agent(0, 400, tool(0, 100), tool(100, 250, id="slow"), tool(250, 400, name="fetch"))
    assert judged("tool_call:search", 100, request) == (ns(150), "over", "slow")
    assert judged("tool_call:fetch", 150, request)[1] == "within"


def test_a_tool_that_was_not_called_kept_its_budget() -> None:
    assert judged("tool_call:search", 100, agent(0, 100))[1] == "within"


def test_a_tool_call_leaves_out_what_a_person_took() -> None:
    """
    tool   |--------------------|  800 ms
      wait    |-------------|      600 ms: outside every budget
    """
    request = agent(0, 1000, chat(0, 100), tool(100, 900, wait(200, 800), id="t"))
    assert judged("tool_call:search", 200, request) == (ns(200), "within", "t")


def test_framework_leaves_out_ignorance_and_waits_between_attempts() -> None:
    """
    agent |....|-429-|..retry..|-asks-|..tools that no span shows..|-chat-|....|
            50          100                     300                          40
    """
    request = agent(
        0,
        740,
        chat(50, 100, error="429"),
        chat(200, 300, asks={"c1": "search"}),
        chat(600, 700),
    )
    assert judged("framework", 90, request) == (ns(90), "within", None)


def test_io_is_framework() -> None:
    request = agent(0, 200, http(0, 100), chat(100, 200))
    assert judged("framework", 99, request) == (ns(100), "over", None)


# --- the ledger -----------------------------------------------------------------------------------


def test_budgets_are_judged_in_the_order_of_their_metrics() -> None:
    limits = dict.fromkeys(reversed([*METRICS, "tool_call:search"]), 1)
    rows = analyzed(agent(0, 100, chat(0, 50)), budgets=limits)["budgets"]
    assert [row["metric"] for row in rows] == sorted(limits)


def test_a_metric_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(ValueError, match=r"no such budget metric: 'speed'; there are end_to_end,"):
        measure(report_of(agent(0, 100)), "speed")


def test_no_budgets_no_ledger() -> None:
    assert check_request(report_of(plain(0, 100)), ()) == []


def test_an_objective_is_judged_over_a_window_not_here() -> None:
    """95 % of requests may still mean that this one is over."""
    report = report_of(agent(0, 100, id="a"))
    (judgement,) = check_request(report, [Budget("end_to_end", ns(50), objective=50.0)])
    assert judgement.state == "over"
