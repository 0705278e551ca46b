"""The estimate behind `inferred`: the fit, its error, its interval, and when there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from statistics import median

import pytest

from tests.builders import MS
from tests.core import services
from tests.core.services import Call, Service
from tracebudget.core.fit import MAX_ERROR, MIN_CALLS, SHARE, CallFit, Sample, fit_calls, slope
from tracebudget.core.tokens import Tokens

# --- one call -------------------------------------------------------------------------------------

FIT = CallFit(a_ns=50 * MS, b_ns=0.05 * MS, c_ns=2 * MS, count=40, margin=0.2, max_tokens=4000)


def estimate(
    duration: float, *, input: int | None = 1000, output: int | None = 51
) -> tuple[int, int, int] | None:
    """Of a call of which 100 ms of prefill and 100 of decode are expected: (prefill, low, high)."""
    found = FIT.estimate(Tokens(input, None, output), round(duration * MS))
    return None if found is None else tuple(round(ns / MS) for ns in found)  # type: ignore[return-value]


def test_a_call_as_expected() -> None:
    """|---- prefill 100 ----|---- decode 100 ----|"""
    assert estimate(200) == (100, 80, 120)


def test_a_surplus_is_shared_and_may_be_all_of_the_ones_or_the_others() -> None:
    """40 ms too long: halves of equal size are each 20 ms late, but either may be 40."""
    assert estimate(240) == (120, 80, 160)
    assert estimate(170) == (85, 50, 120)


def test_the_larger_half_has_the_more_to_lose() -> None:
    """300 ms of decode: nine tenths of the surplus are its."""
    assert estimate(450, output=151) == (105, 80, 170)


def test_without_decode_all_is_prefill() -> None:
    assert estimate(110, output=1) == (110, 80, 110)


@pytest.mark.parametrize(
    ("duration", "input", "output"),
    [(200, None, 51), (200, 1000, None), (200, 1000, 0), (0, 1000, 51), (900, 8001, 51)],
    ids=["no input count", "no output count", "no token", "no time", "a prompt twice as long"],
)
def test_nothing_is_estimated(duration: int, input: int | None, output: int | None) -> None:
    assert estimate(duration, input=input, output=output) is None


@pytest.mark.parametrize("duration", [30, 600], ids=["far too short", "far too long"])
def test_a_call_that_does_not_follow_the_law_gets_no_estimate(duration: int) -> None:
    assert estimate(duration) is None


def test_the_prompt_is_no_matter_where_its_length_is_none() -> None:
    fit = CallFit(a_ns=100 * MS, b_ns=0, c_ns=2 * MS, count=40)
    found = fit.estimate(Tokens(None, None, 51), 200 * MS)
    assert found is not None
    assert found.prefill_ns == 100 * MS


# --- many calls -----------------------------------------------------------------------------------


def samples_of(calls: Sequence[Call]) -> list[Sample]:
    return [call.sample for call in calls]


class Tried:
    """A fit, held against what its calls did not tell."""

    def __init__(self, calls: Sequence[Call]) -> None:
        found = fit_calls(samples_of(calls))
        assert found is not None
        self.fit, self.errors, self.inside = found, [], 0
        for call in calls:
            sample, truth = call.sample, call.prefill_ns
            tokens = Tokens(sample.uncached_tokens, None, sample.output_tokens)
            made = found.estimate(tokens, sample.duration_ns)
            if sample.ttft_ns is None and made is not None:
                self.errors.append(abs(made.prefill_ns - truth) / truth)
                self.inside += made.low_ns <= truth <= made.high_ns

    @property
    def error(self) -> float:
        return median(self.errors)

    @property
    def share_inside(self) -> float:
        return self.inside / len(self.errors)


@pytest.mark.parametrize(
    "service",
    [Service(), Service(queued=0.2), Service(known=0.3), Service(a_ms=350, b_ms=0.02, c_ms=14)],
    ids=["no first token known", "a fifth queued", "a third known", "another law"],
)
@pytest.mark.parametrize("count", [100, 400])
def test_prefill_is_inferred_within_an_eighth_and_the_interval_holds(
    service: Service, count: int
) -> None:
    tried = [Tried(service.calls(count, seed=seed, tokens=services.free)) for seed in range(4)]
    assert median(one.error for one in tried) <= MAX_ERROR
    assert median(one.share_inside for one in tried) >= SHARE


def test_the_law_comes_out() -> None:
    fit = Tried(Service(jitter=0.03).calls(400, seed=1, tokens=services.free)).fit
    assert fit.a_ns == pytest.approx(80 * MS, rel=0.15)
    assert fit.b_ns == pytest.approx(0.05 * MS, rel=0.1)
    assert fit.c_ns == pytest.approx(8 * MS, rel=0.03)


def test_first_tokens_that_are_known_make_it_surer() -> None:
    blind, seeing = (
        Tried(Service(known=known).calls(200, seed=2, tokens=services.free)) for known in (0.0, 0.5)
    )
    assert (blind.fit.known, seeing.fit.known > 50) == (0, True)
    assert seeing.fit.c_ns == pytest.approx(8 * MS, rel=0.03)


@pytest.mark.parametrize("known", [0.0, 0.5], ids=["derived", "measured"])
def test_the_stated_error_is_about_the_true_one(known: float) -> None:
    for seed in range(3):
        tried = Tried(Service(known=known).calls(400, seed=seed, tokens=services.free))
        assert tried.fit.error is not None
        assert 0.5 < tried.fit.error / tried.error < 2


def test_one_prompt_length_is_enough_where_answers_vary() -> None:
    fit = Tried(Service().calls(200, seed=3, tokens=services.one_prompt)).fit
    assert fit.b_ns == 0
    assert fit.a_ns == pytest.approx(130 * MS, rel=0.1)


@pytest.mark.parametrize(
    "tokens", [services.tied, services.one_answer], ids=["vary together", "do not vary"]
)
@pytest.mark.parametrize("jitter", [0.0, 0.05, 0.2])
def test_no_fit_where_decode_cannot_be_told_from_prefill(
    tokens: Callable[[Random], services.Tokens], jitter: float
) -> None:
    for seed in range(5):
        calls = Service(jitter=jitter).calls(200, seed=seed, tokens=tokens)
        assert fit_calls(samples_of(calls)) is None


def test_first_tokens_tell_them_apart_all_the_same() -> None:
    calls = Service(known=0.5, jitter=0.05).calls(200, seed=4, tokens=services.one_answer)
    assert Tried(calls).error < 0.05


def test_no_fit_of_few_calls_or_of_noise() -> None:
    calls = Service().calls(MIN_CALLS - 1, seed=5, tokens=services.free)
    assert fit_calls(samples_of(calls)) is None
    assert (
        fit_calls(samples_of(Service(jitter=0.6).calls(200, seed=5, tokens=services.free))) is None
    )


def test_the_order_of_calls_does_not_matter() -> None:
    samples = samples_of(Service(known=0.2).calls(700, seed=6, tokens=services.free))
    assert fit_calls(samples) == fit_calls(samples[::-1])


# --- one slope ------------------------------------------------------------------------------------

POINTS = [(1000, 60), (2000, 102), (3000, 144), (4000, 186)]  # 42 each 1,000


def test_the_slope_of_points_on_a_line() -> None:
    assert slope(POINTS) == pytest.approx(0.042)


def test_one_wild_point_moves_it_little() -> None:
    """Theil-Sen: the median of the slopes between all pairs."""
    assert slope([*POINTS, (5000, 9000)]) == pytest.approx(0.042)


def test_the_order_of_points_does_not_matter() -> None:
    assert slope(POINTS[::-1]) == slope(POINTS)


@pytest.mark.parametrize(
    "points",
    [[], POINTS[:1], POINTS[:2], [(1000, 60)] * 5],
    ids=["none", "one", "two", "one prompt length"],
)
def test_too_few_points_make_no_slope(points: list[tuple[int, int]]) -> None:
    assert slope(points) is None
