"""Sketches: percentiles within their error, and the same sum whatever the order."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tracebudget.sketch import ACCURACY, Sketch

SHARES = (0.0, 0.5, 0.95, 0.99, 1.0)
VALUES = st.lists(st.integers(0, 2**62) | st.integers(0, 3), min_size=1, max_size=60)


def value_at(values: Sequence[int], share: float) -> int:
    """What SQL's percentile_disc says."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


@given(VALUES)
def test_percentiles_are_within_the_error_of_a_value_that_occurred(values: list[int]) -> None:
    found = Sketch.of(values).quantiles(SHARES)
    assert found is not None
    for share, value in zip(SHARES, found, strict=True):
        exact = value_at(values, share)
        assert abs(value - exact) <= ACCURACY * exact * (1 + 1e-9) + 0.5  # it is a whole number


@given(VALUES)
def test_the_ends_are_exact(values: list[int]) -> None:
    assert Sketch.of(values[:1]).quantiles([0.5]) == values[:1]
    found = Sketch.of(values).quantiles([0.0, 1.0])
    assert found == [min(values), max(values)]


@given(st.lists(VALUES, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_parts_add_up_to_the_whole_in_any_order(
    parts: list[list[int]], chance: random.Random
) -> None:
    whole = Sketch.of(value for part in parts for value in part)
    chance.shuffle(parts)
    summed = Sketch()
    for part in parts:
        summed.merge(Sketch.of(part).columns())
    assert summed.columns() == whole.columns()


def test_nothing_has_no_percentile() -> None:
    assert Sketch().quantiles(SHARES) is None
    assert Sketch().columns() == ([], [], None, None)


def test_bins_fit_their_column() -> None:
    """smallint: the largest duration that Postgres can hold is in bin 2,184."""
    assert max(Sketch.of([2**63 - 1]).counts) < 2**15
