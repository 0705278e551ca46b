"""What is usual in an app, learnt from its requests."""

from __future__ import annotations

import json

import pytest

from tests.builders import MS, agent, chat, tool
from tests.core import services
from tests.core.reading import analyzed
from tests.core.services import Service
from tracebudget.core.fit import MIN_CALLS, CallFit
from tracebudget.core.profile import (
    MIN_SIMPLE,
    Profile,
    SeenCall,
    build_profile,
    model_key,
    seen_calls,
)
from tracebudget.core.tokens import Tokens

PROFILE = Profile(
    fits={"m": CallFit(a_ns=50 * MS, b_ns=0.04 * MS, c_ns=2 * MS, count=40)},
    median_input_tokens=1200,
    simple_ns={"large": 900, "small": 300, "other": 400},
)


def seen(
    model: str | None = "m", *, input: int = 1000, output: int = 50, request: int | None = None
) -> SeenCall:
    return SeenCall(model, Tokens(input, None, output), 300 * MS, None, request)


# --- what it says ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "key"),
    [
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("gpt-4o-mini", "gpt-4o-mini"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("qwen3-32b", "qwen3-32b"),
        (None, ""),
    ],
)
def test_a_snapshot_is_its_model(model: str | None, key: str) -> None:
    assert model_key(model) == key


def test_a_fit_is_that_of_the_model() -> None:
    tokens = Tokens(1000, None, 51)
    assert PROFILE.estimate("m-2026-01-31", tokens, 190 * MS) == PROFILE.estimate(
        "m", tokens, 190 * MS
    )
    assert PROFILE.estimate("m", tokens, 190 * MS) is not None
    assert PROFILE.estimate("unknown", tokens, 190 * MS) is None


def test_the_fastest_other_model() -> None:
    assert PROFILE.faster_model("large") == ("small", 900, 300)


@pytest.mark.parametrize("model", ["small", "unknown", None])
def test_no_model_is_faster(model: str | None) -> None:
    assert PROFILE.faster_model(model) is None


def test_a_profile_shows_itself() -> None:
    document = PROFILE.document()
    assert list(document) == [
        "made_at", "calls", "interval_share", "fits", "median_input_tokens", "simple_ns",
    ]  # fmt: skip
    assert document["simple_ns"] == {"large": 900, "other": 400, "small": 300}


# --- what it is made of ---------------------------------------------------------------------------


def test_few_calls_make_no_profile() -> None:
    assert build_profile([seen()] * (MIN_CALLS - 1)) is None


def test_the_median_prompt_is_that_of_what_had_to_be_computed() -> None:
    cached = SeenCall("m", Tokens(5000, 4900, 50), 300 * MS, None, None)
    profile = build_profile([cached] * 15 + [seen(input=3000)] * 10)
    assert profile is not None
    assert (profile.median_input_tokens, profile.calls) == (100, 25)


def test_simple_requests_are_compared_by_model() -> None:
    """Few requests make no median, and long prompts are not simple."""
    calls = [
        *[seen("large", input=200, request=900)] * MIN_SIMPLE,
        *[seen("small", input=200, request=300)] * MIN_SIMPLE,
        *[seen("rare", input=200, request=100)] * (MIN_SIMPLE - 1),
        *[seen("long", input=2000, request=100)] * MIN_SIMPLE,
    ]
    profile = build_profile(calls)
    assert profile is not None
    assert profile.simple_ns == {"large": 900, "small": 300}


def test_each_model_has_its_own_fit() -> None:
    calls = [
        SeenCall(name, Tokens(s.uncached_tokens, None, s.output_tokens), s.duration_ns, None, None)
        for name, service in (("fast", Service(c_ms=4)), ("slow-2026-01-01", Service(c_ms=16)))
        for s in (c.sample for c in service.calls(200, seed=1, tokens=services.free))
    ]
    profile = build_profile(calls, made_at="2026-01-01T00:00:00Z")
    assert profile is not None
    assert {m: round(fit.c_ns / MS) for m, fit in profile.fits.items()} == {"fast": 4, "slow": 16}
    assert profile.document()["made_at"] == "2026-01-01T00:00:00Z"


def test_calls_of_a_request_as_they_were_seen() -> None:
    document = analyzed(
        agent(
            0, 400,
            chat(0, 100, ttft=40, input=200, output=20),
            tool(100, 200),
            chat(200, 300, error="Boom"),
            chat(300, 400, input=300, output=30),
        )
    )  # fmt: skip
    assert [(c.tokens.input, c.ttft_ns, c.request_ns) for c in seen_calls(document)] == [
        (200, 40 * MS, None),
        (300, None, None),
    ]


def test_a_request_of_one_call_is_compared_whole() -> None:
    (call,) = seen_calls(analyzed(agent(0, 400, chat(0, 100, input=200, output=20))))
    assert call.request_ns == 400 * MS


def test_an_estimate_is_no_evidence() -> None:
    profile = Profile(fits={"m": CallFit(60 * MS, 0, 2 * MS, 40)})
    document = analyzed(agent(0, 100, chat(0, 100, input=200, output=21)), profile=profile)
    (call,) = seen_calls(document)
    assert document["steps"][1]["ttft_source"] == "inferred"
    assert call.ttft_ns is None


# --- as it is kept --------------------------------------------------------------------------------


def test_what_was_kept_is_what_was_made() -> None:
    calls = [seen(input=n * 100, output=n, request=n) for n in range(1, 40)]
    made = build_profile(calls, made_at="2026-01-01T00:00:00+00:00")
    assert made is not None
    assert Profile.of(json.loads(json.dumps(made.document()))) == made
