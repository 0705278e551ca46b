"""Percentiles of values that nobody kept: counts in bins, each 2 % wide.

DDSketch (Masson, Rim, Lee 2019), by its makers' library: a percentile is within ACCURACY of the
value that stood at its rank. Bins are the same everywhere, so the sketches of any stretches of time
add up, in any order, to the sketch of them all; and they are plain numbers, which SQL can add too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ddsketch import LogarithmicMapping
from ddsketch.ddsketch import BaseDDSketch
from ddsketch.store import DenseStore

ACCURACY = 0.01  # of a percentile: far less than it varies from day to day
MAPPING = LogarithmicMapping(ACCURACY)
ZERO = -1  # the bin of 0, which has no logarithm; that of 1 is 0


class Columns(NamedTuple):
    """A sketch as it is stored: its bins in order, how many values each holds, and its ends."""

    bins: list[int]
    counts: list[int]
    least: int | None
    most: int | None


class Sketch:
    """How many values are in each bin. Values are whole numbers from 0."""

    __slots__ = ("counts", "least", "most")

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.least: int | None = None
        self.most: int | None = None

    @classmethod
    def of(cls, values: Iterable[int]) -> Sketch:
        sketch = cls()
        for value in values:
            sketch.add(value)
        return sketch

    def add(self, value: int) -> None:
        self.counts[MAPPING.key(value) if value > 0 else ZERO] += 1
        self._reach(value, value)

    def merge(self, other: Columns) -> None:
        mine = self.counts
        for bin_, count in zip(other.bins, other.counts, strict=True):
            mine[bin_] += count
        if other.least is not None and other.most is not None:
            self._reach(other.least, other.most)

    def _reach(self, least: int, most: int) -> None:
        self.least = least if self.least is None else min(self.least, least)
        self.most = most if self.most is None else max(self.most, most)

    def columns(self) -> Columns:
        bins = sorted(self.counts)
        return Columns(bins, [self.counts[bin_] for bin_ in bins], self.least, self.most)

    def quantiles(self, shares: Sequence[float]) -> list[int] | None:
        """The least values that are not below those `shares` of all; None without values."""
        if self.least is None or self.most is None:
            return None
        library = self._library()
        count = round(library.count)
        ranks = [max(0, math.ceil(share * count) - 1) for share in shares]
        known = {0: self.least, count - 1: self.most}
        return [known[rank] if rank in known else _value_at(library, rank) for rank in ranks]

    def _library(self) -> BaseDDSketch:
        store = DenseStore()
        for bin_, count in self.counts.items():
            if bin_ != ZERO:
                store.add(bin_, count)
        return BaseDDSketch(MAPPING, store, DenseStore(), self.counts.get(ZERO, 0))


def _value_at(library: BaseDDSketch, rank: int) -> int:
    """The library takes shares of the last rank; half a rank more keeps rounding out of it."""
    return round(library.get_quantile_value((rank + 0.5) / (library.count - 1)) or 0)
