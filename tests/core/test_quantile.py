"""Quantiles with their intervals, against tables of the binomial distribution."""

from __future__ import annotations

import math
from random import Random

import pytest

from tracebudget.core.quantile import Quantile, quantile, share


@pytest.mark.parametrize(
    ("count", "at", "expected"),
    [
        (10, 0.5, Quantile(5, 2, 9)),
        (100, 0.5, Quantile(50, 40, 61)),
        (100, 0.95, Quantile(95, 90, 100)),
        (1_000, 0.95, Quantile(950, 936, 964)),
        (10_000, 0.95, Quantile(9500, 9457, 9543)),
    ],
)
def test_ranks_are_those_of_the_tables(count: int, at: float, expected: Quantile) -> None:
    assert quantile(range(1, count + 1), at) == expected


@pytest.mark.parametrize(("at", "least"), [(0.5, 6), (0.95, 72)])
def test_so_few_values_tell_nothing(at: float, least: int) -> None:
    assert quantile([], at) is None
    assert quantile(range(least - 1), at) is None
    assert quantile(range(least), at) is not None


def test_the_true_value_lies_in_nineteen_of_twenty_intervals() -> None:
    random, true = Random(7), math.exp(0.5 * 1.6448536)  # a log-normal distribution's p95
    samples = 600
    hits = 0
    for _ in range(samples):
        values = sorted(round(1e9 * random.lognormvariate(0, 0.5)) for _ in range(150))
        found = quantile(values, 0.95)
        assert found is not None
        hits += found.low <= true * 1e9 <= found.high
    assert 0.95 <= hits / samples < 1


def test_equal_values_enclose_themselves() -> None:
    assert quantile([3] * 100, 0.95) == Quantile(3, 3, 3)


@pytest.mark.parametrize(
    ("part", "whole", "low", "high"),
    [(0, 10, 0, 0.278), (5, 10, 0.237, 0.763), (1, 1_000, 0.0002, 0.0056), (10, 10, 0.722, 1)],
)
def test_shares(part: int, whole: int, low: float, high: float) -> None:
    found = share(part, whole)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.0005)


def test_a_share_of_nothing_is_none() -> None:
    assert share(0, 0) is None
