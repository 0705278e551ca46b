"""The robust estimate behind `inferred`, and what is known of an app."""

from __future__ import annotations

import pytest

from tracebudget.core.fit import CallFit, Profile, slope
from tracebudget.core.tokens import Tokens

POINTS = [(1000, 60), (2000, 102), (3000, 144), (4000, 186)]  # 42 each 1,000


# --- slope ----------------------------------------------------------------------------------------


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


# --- what an app's profile estimates --------------------------------------------------------------

MS = 1_000_000
PROFILE = Profile(
    fits={"m": CallFit(a_ns=50 * MS, b_ns=0.04 * MS, c_ns=2 * MS, count=40)},
    median_input_tokens=1200,
    simple_ns={"large": 900, "small": 300, "other": 400},
)


@pytest.mark.parametrize(
    ("output", "estimate"),
    [
        (51, 100),  # 200 less 50 tokens of 2 ms
        (1, 200),  # nothing was decoded after the first
        (900, 1e-6),  # more than the call: prefill is at least something
    ],
)
def test_prefill_is_what_is_left_of_the_call(output: int, estimate: float) -> None:
    tokens = Tokens(input=1000, output=output)
    assert PROFILE.estimate("m", tokens, 200 * MS) == round(estimate * MS)


@pytest.mark.parametrize(
    ("model", "tokens", "duration"),
    [
        ("unknown", Tokens(1000, None, 51), 200),
        (None, Tokens(1000, None, 51), 200),
        ("m", Tokens(1000), 200),
        ("m", Tokens(1000, None, 0), 200),
        ("m", Tokens(1000, None, 51), 0),
    ],
    ids=["another model", "no model", "no count", "no token", "no time"],
)
def test_nothing_is_estimated(model: str | None, tokens: Tokens, duration: int) -> None:
    assert PROFILE.estimate(model, tokens, duration * MS) is None


def test_the_fastest_other_model() -> None:
    assert PROFILE.faster_model("large") == ("small", 900, 300)


@pytest.mark.parametrize("model", ["small", "unknown", None])
def test_no_model_is_faster(model: str | None) -> None:
    assert PROFILE.faster_model(model) is None


def test_a_profile_shows_itself() -> None:
    document = PROFILE.document()
    assert list(document) == ["fits", "median_input_tokens", "simple_ns"]
    assert document["simple_ns"] == {"large": 900, "other": 400, "small": 300}
