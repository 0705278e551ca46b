"""What only many requests tell: found where it is, silent in the twin, else unknown."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tests.builders import MS
from tracebudget.core.diagnosis import (
    HOUR_S,
    MIN_CALLS,
    AppCall,
    Diagnosis,
    Spread,
    diagnose,
)
from tracebudget.core.finding import State
from tracebudget.core.tokens import Tokens

NOON_S = 1_767_268_800


def session(request: int, prompts: list[int], **said: Any) -> list[AppCall]:
    """A run of one call a turn. By default a first token takes 20 ms and 42 ms for 1,000 tokens."""
    told = {"base_ms": 20, "per_token_ms": 0.042, "cached": None, "result": None, **said}
    return [
        AppCall(
            request=request,
            run=0,
            turn=turn,
            started_s=NOON_S + request,
            model="m",
            tokens=Tokens(prompt, None if told["cached"] is None else turn and told["cached"], 50),
            ttft_ns=round((told["base_ms"] + told["per_token_ms"] * prompt) * MS),
            tool_result_tokens=told["result"] if turn else None,
        )
        for turn, prompt in enumerate(prompts)
    ]


def sessions(count: int, prompts: list[int], **said: Any) -> list[AppCall]:
    return [call for request in range(count) for call in session(request, prompts, **said)]


GROWING = [1000, 2250, 3500, 4750, 6000]  # the source's own: TTFT from 62 ms to 272 ms
EVEN = [3000] * 5


# --- growth ---------------------------------------------------------------------------------------


def test_context_that_grows_is_found_with_its_slope() -> None:
    growth = diagnose(sessions(20, GROWING)).growth
    assert (growth.state, growth.runs) == (State.FOUND, 20)
    assert growth.ns_per_token == pytest.approx(0.042 * MS)
    assert (growth.rise_ns, growth.growth) == (210 * MS, 6)
    assert growth.lost is not None
    assert growth.lost == (20, 20 * 210 * MS, 210 * MS)


@pytest.mark.parametrize(
    "calls",
    [
        sessions(20, EVEN),
        sessions(20, GROWING, per_token_ms=0.001),
        sessions(20, [1000, 1000, 1000, 1000, 1400]),
    ],
    ids=["even prompts", "prompts that cost nothing", "hardly longer"],
)
def test_context_that_costs_nothing_is_clear(calls: list[AppCall]) -> None:
    growth = diagnose(calls).growth
    assert (growth.state, growth.why, growth.lost) == (State.CLEAR, None, None)


def test_growth_that_the_cache_takes_is_clear() -> None:
    """Most of each later prompt is cached, and still the first token comes later."""
    calls = sessions(20, GROWING, cached=900)
    late = [replace_tokens(call, cached=5000) if call.turn == 4 else call for call in calls]
    assert diagnose(late).growth.state == State.CLEAR
    assert diagnose(late).growth.cached_share == pytest.approx(5 / 6)


def replace_tokens(call: AppCall, *, cached: int) -> AppCall:
    return call._replace(tokens=replace(call.tokens, cached_input=cached))


def test_requests_of_few_turns_cannot_tell() -> None:
    calls = [*sessions(30, [1000, 2000]), *session(99, GROWING)]
    growth = diagnose(calls).growth
    assert (growth.state, growth.why) == (State.UNKNOWN, "few_turns")


def test_where_no_run_has_three_turns_nothing_can_grow() -> None:
    assert diagnose(sessions(30, [1000, 2000])).growth.state == State.CLEAR


def test_a_run_is_compared_with_itself_alone() -> None:
    """A sub-agent with long prompts after an agent with short ones: neither grows."""
    own = sessions(20, [1000, 1000, 1000])
    inner = [call._replace(run=1, ttft_ns=500 * MS) for call in sessions(20, [9000, 9000, 9000])]
    assert diagnose(own + inner).growth.state == State.CLEAR


def test_late_turns_with_long_results_stand_beside_the_first_turns() -> None:
    growth = diagnose(sessions(20, GROWING, result=3_000)).growth
    assert growth.cohort == Spread(40, 219_500_000, 272 * MS, 5375)
    assert dict(growth.turns)[0] == Spread(20, 62 * MS, 62 * MS, 1000)


def test_of_several_models_the_usual_one_is_judged() -> None:
    other = [call._replace(model="large", ttft_ns=9_000 * MS) for call in sessions(12, EVEN)]
    growth = diagnose([*sessions(20, GROWING), *other]).growth
    assert growth.model == "m"
    assert growth.ns_per_token == pytest.approx(0.042 * MS)


# --- busy and quiet hours -------------------------------------------------------------------------


def day(*, queue_ms: float, busy: int = 60, quiet: int = 15) -> list[AppCall]:
    """Four quiet hours and four busy ones, in which one call in two waits."""
    rng = Random(5)
    calls: list[AppCall] = []
    for hour in range(8):
        for number in range(busy if hour % 2 else quiet):
            waits = hour % 2 and number % 2
            prefill = 100 * rng.uniform(0.9, 1.1) + (queue_ms if waits else 0)
            calls.append(
                AppCall(
                    request=len(calls),
                    run=0,
                    turn=0,
                    started_s=NOON_S + hour * HOUR_S + number,
                    model="m",
                    tokens=Tokens(rng.randint(2_000, 2_200), None, 50),
                    ttft_ns=round(prefill * MS),
                )
            )
    return calls


def test_busy_hours_that_wait_are_found_with_what_they_lose() -> None:
    queueing = diagnose(day(queue_ms=400)).queueing
    assert queueing.state == State.FOUND
    assert queueing.busy is not None
    assert queueing.quiet is not None
    assert queueing.busy.p95_ns > 480 * MS > 120 * MS > queueing.quiet.p95_ns
    assert queueing.slow_share == pytest.approx(0.5, abs=0.1)
    assert queueing.lost is not None
    assert queueing.lost.total_ns == pytest.approx(120 * 400 * MS, rel=0.05)


@pytest.mark.parametrize("queue_ms", [0, 30], ids=["no queue", "scheduling"])
def test_busy_hours_like_quiet_ones_are_clear(queue_ms: float) -> None:
    queueing = diagnose(day(queue_ms=queue_ms)).queueing
    assert (queueing.state, queueing.why, queueing.lost) == (State.CLEAR, None, None)


def test_longer_prompts_in_busy_hours_are_no_queue() -> None:
    """They are compared with none, since quiet hours have none so long."""
    calls = [
        call._replace(tokens=Tokens(9000, None, 50), ttft_ns=(call.ttft_ns or 0) * 3)
        if (call.started_s - NOON_S) // HOUR_S % 2
        else call
        for call in day(queue_ms=0)
    ]
    queueing = diagnose(calls).queueing
    assert (queueing.state, queueing.why) == (State.UNKNOWN, "nothing_alike")


def test_hours_alike_cannot_tell() -> None:
    queueing = diagnose(day(queue_ms=400, quiet=55)).queueing
    assert (queueing.state, queueing.why) == (State.UNKNOWN, "even_load")


def test_one_hour_cannot_tell() -> None:
    queueing = diagnose(sessions(40, EVEN)).queueing
    assert (queueing.state, queueing.why) == (State.UNKNOWN, "few_hours")


# --- what both rest on ----------------------------------------------------------------------------


def hidden(calls: list[AppCall], every: int) -> list[AppCall]:
    return [c._replace(ttft_ns=None) if n % every else c for n, c in enumerate(calls)]


@pytest.mark.parametrize(
    ("calls", "why"),
    [
        (hidden(sessions(100, GROWING), 8), "ttft_unknown"),
        (sessions(MIN_CALLS // 5 - 1, GROWING), "few_calls"),
        ([], "few_calls"),
    ],
    ids=["first tokens hidden", "few calls", "none"],
)
def test_with_few_first_tokens_nothing_is_said(calls: list[AppCall], why: str) -> None:
    made = diagnose(calls)
    assert (made.growth.state, made.growth.why) == (State.UNKNOWN, why)
    assert (made.queueing.state, made.queueing.why) == (State.UNKNOWN, why)


def test_the_order_of_arrival_changes_nothing() -> None:
    calls = [*sessions(20, GROWING, result=3_000), *day(queue_ms=400)]
    mixed = calls[:]
    Random(3).shuffle(mixed)
    assert diagnose(mixed) == diagnose(calls)


@pytest.mark.parametrize("queue_ms", [0, 400])
def test_a_diagnosis_is_kept_whole(queue_ms: int) -> None:
    made = diagnose([*sessions(20, GROWING, result=3_000), *day(queue_ms=queue_ms)])
    assert Diagnosis.of(json.loads(json.dumps(made.document()))) == made


def test_a_diagnosis_of_another_version_is_none() -> None:
    assert Diagnosis.of(diagnose([]).document() | {"dropped": 1}) is None
