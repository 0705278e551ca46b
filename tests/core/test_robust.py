"""Regression that most points decide."""

from __future__ import annotations

from random import Random

import pytest

from tracebudget.core.robust import Point, regress


def line(*xs: float, a: float = 100.0, b: float = 2.0) -> list[Point]:
    return [((1.0, x), a + b * x) for x in xs]


def test_points_on_a_line_give_the_line() -> None:
    found = regress(line(1, 2, 5, 9))
    assert found is not None
    assert found.coefficients == pytest.approx((100, 2))
    assert found.value((1.0, 50.0)) == pytest.approx(200)


def test_a_third_of_wild_points_moves_it_not() -> None:
    """:   .  .  .    and half of the others far above them:  '  '  '"""
    good, wild = line(*range(20)), line(*range(10), a=900)
    found = regress([*good, *wild])
    assert found is not None
    assert found.coefficients == pytest.approx((100, 2), rel=0.01)


def test_noise_counts_by_its_share_of_the_figure() -> None:
    """A figure ten times as large may be off ten times as far."""
    rng = Random(1)
    noisy = [(x, y * (1 + rng.gauss(0, 0.1))) for x, y in line(*range(0, 2000, 10))]
    found = regress(noisy)
    assert found is not None
    assert found.scale == pytest.approx(0.1, rel=0.2)
    assert found.coefficients == pytest.approx((100, 2), rel=0.1)


def test_the_doubt_is_what_the_coefficients_scatter_by() -> None:
    """Fitted again and again on new noise, the value at a point scatters as was said of one."""
    values, doubts = [], []
    for seed in range(60):
        rng = Random(seed)
        found = regress([(x, y * (1 + rng.gauss(0, 0.1))) for x, y in line(*range(0, 400, 10))])
        assert found is not None
        values.append(found.value((1.0, 0.0)))
        doubts.append(found.doubt((1.0, 0.0)))
    mean = sum(values) / len(values)
    scatter = (sum((v - mean) ** 2 for v in values) / len(values)) ** 0.5
    assert sum(doubts) / len(doubts) == pytest.approx(scatter, rel=0.3)


@pytest.mark.parametrize(
    "points",
    [
        [],
        line(3, 3, 3),
        [((1.0, 0.0), 5.0), ((1.0, 0.0), 6.0)],
        [((1.0, 2.0), 0.0), ((1.0, 3.0), 0.0)],
    ],
    ids=["none", "one place", "a column of nothing", "no figure"],
)
def test_points_that_determine_nothing(points: list[Point]) -> None:
    assert regress(points) is None
