"""What a sample tells of the quantile of all: a value, and the interval in which the true one lies.

Nothing is assumed of the shape of the values. How many of n lie below a quantile is binomial, so
two values of the sample enclose it with known confidence:

    value   x1 .... x_low ... x_p95 ... x_high .. xn      P(true p95 in between) >= 95 %

Where the sample is too small to have a value on both sides, there is no quantile to tell: a p95
takes 72 values, a median 6.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

CONFIDENCE = 0.95  # that the true value lies in its interval
Z = 1.959964  # the normal distribution's quantile for it
TAIL_SIGMAS = 9  # beyond lies less than a float can tell from nothing


@dataclass(frozen=True, slots=True)
class Quantile:
    """A value that occurred, and the two that enclose the true one."""

    value: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Share:
    """A share of all, and the interval in which the true one lies."""

    value: float
    low: float
    high: float


def quantile(ordered: Sequence[int], at: float) -> Quantile | None:
    """The quantile at a share of the values, which are in order. None: too few values."""
    ranks = _ranks(len(ordered), at)
    if ranks is None:
        return None
    low, high = ranks
    middle = math.ceil(at * len(ordered))
    return Quantile(ordered[middle - 1], ordered[low - 1], ordered[high - 1])


@lru_cache(maxsize=256)
def _ranks(count: int, at: float) -> tuple[int, int] | None:
    """The ranks, from 1, of the values that enclose a quantile."""
    tail = (1 - CONFIDENCE) / 2
    low = high = 0
    for below, chance in _chances_of_at_most(count, at):
        if chance <= tail:
            low = below + 1  # fewer values below than that are as unlikely
        if chance >= 1 - tail:
            high = below + 1
            break
    return (low, high) if low and 0 < high <= count else None


def _chances_of_at_most(count: int, at: float) -> Iterator[tuple[int, float]]:
    """P(at most k of the values lie below the quantile), for each k that is not hopeless."""
    middle, sigma = count * at, math.sqrt(count * at * (1 - at))
    first = max(0, math.floor(middle - TAIL_SIGMAS * sigma))
    last = min(count, math.ceil(middle + TAIL_SIGMAS * sigma))
    chances = (_chance(count, at, below) for below in range(first, last + 1))
    return zip(range(first, last + 1), accumulate(chances), strict=True)


def _chance(count: int, at: float, below: int) -> float:
    """P(exactly so many lie below), by logarithms: the factors are too large and too small."""
    ways = math.lgamma(count + 1) - math.lgamma(below + 1) - math.lgamma(count - below + 1)
    return math.exp(ways + below * math.log(at) + (count - below) * math.log1p(-at))


def share(part: int, whole: int) -> Share | None:
    """A share with Wilson's interval, which holds for few and for none. None of nothing."""
    if not whole:
        return None
    value, spread = part / whole, Z * Z / whole
    middle = (value + spread / 2) / (1 + spread)
    reach = math.sqrt(value * (1 - value) * spread + spread * spread / 4) / (1 + spread)
    return Share(value, max(0.0, middle - reach), min(1.0, middle + reach))
