"""The time axis of the waterfall: where a moment stands, what is folded, and the budget's ruler.

0        1 s        2 s  //  1 min 32 s     1 min 33 s
|---------|----------|---//------|------------:-|
                   nobody worked              budget
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracebudget.core.segment import IDLE_NS, SegmentKind

Document = Mapping[str, Any]

# Share of the axis for a folded gap, wide enough to see and to point at; and for all of them.
FOLD_SHARE, FOLDS_SHARE = 0.02, 0.2
# Of the request: what background work, or a budget not used up, may add to the axis.
BEYOND_SHARE = 0.25
# Of the axis: room behind a budget's line.
LINE_SHARE = 0.02
# Labels that fit side by side on the lane of a desktop.
MAX_TICKS = 8
# Of the axis, between two labels: beside a fold they would run into each other.
TICK_SHARE = 0.06


@dataclass(frozen=True, slots=True)
class Fold:
    """Idle time that the axis leaves out."""

    start_ns: int
    end_ns: int


class Axis:
    """Maps ns from the request's start to a share of the axis, straight between folds."""

    def __init__(self, end_ns: int, folds: Sequence[Fold] = ()) -> None:
        self.end_ns = max(1, end_ns)
        self.folds = tuple(folds)
        self.moments, self.shares = _breaks(self.end_ns, self.folds)

    def at(self, ns: int) -> float:
        """The share at a moment; what lies outside the axis sits at its edge."""
        if ns <= 0:
            return 0.0
        if ns >= self.end_ns:
            return 1.0
        index = bisect_right(self.moments, ns) - 1
        before, after = self.moments[index], self.moments[index + 1]
        low, high = self.shares[index], self.shares[index + 1]
        return low + (high - low) * (ns - before) / (after - before)

    def ticks(self) -> list[int]:
        """Round moments for labels, none inside a fold."""
        folded = sum(fold.end_ns - fold.start_ns for fold in self.folds)
        step = round_step((self.end_ns - folded) / MAX_TICKS)
        ticks: list[int] = []
        for moment in self._open_moments(step):
            if not ticks or self.at(moment) - self.at(ticks[-1]) >= TICK_SHARE:
                ticks.append(moment)
        return ticks

    def _open_moments(self, step: int) -> Iterator[int]:
        at = 0
        for fold in (*self.folds, Fold(self.end_ns, self.end_ns)):
            yield from range(-(-at // step) * step, fold.start_ns, step)
            at = fold.end_ns


def _breaks(end_ns: int, folds: Sequence[Fold]) -> tuple[list[int], list[float]]:
    """Where the axis bends: at both sides of each fold."""
    folded = sum(fold.end_ns - fold.start_ns for fold in folds)
    share = min(FOLD_SHARE, FOLDS_SHARE / len(folds)) if folds else 0.0
    open_share = (1 - share * len(folds)) / max(1, end_ns - folded)
    moments, shares = [0], [0.0]
    for fold in folds:
        shares.append(shares[-1] + (fold.start_ns - moments[-1]) * open_share)
        shares.append(shares[-1] + share)
        moments += [fold.start_ns, fold.end_ns]
    return [*moments, end_ns], [*shares, 1.0]


ROUND = (1, 2, 5)
ROUND_MINUTES = (60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
SECOND_NS = 1_000_000_000


def round_step(least_ns: float) -> int:
    """The smallest round interval of at least that many ns: 1, 2, 5 by tens, then minutes."""
    power = 1
    while power <= 10 * SECOND_NS:
        for digit in ROUND:
            if least_ns <= digit * power and digit * power <= 30 * SECOND_NS:
                return digit * power
        power *= 10
    for seconds in ROUND_MINUTES:
        if least_ns <= seconds * SECOND_NS:
            return seconds * SECOND_NS
    return int(-(-least_ns // (86400 * SECOND_NS))) * 86400 * SECOND_NS


@dataclass(frozen=True, slots=True)
class Ruler:
    """The end-to-end budget on the axis. `at` is None where it lies beyond the picture."""

    limit_ns: int
    at: float | None
    over_ns: int  # negative: so much is left


def axis_and_ruler(document: Document) -> tuple[Axis, Ruler | None]:
    """The axis holds the request, a little background, and a budget that is nearly used up."""
    end: int = document["end_to_end_ns"]
    most = round(end * (1 + BEYOND_SHARE))
    last = max((step["start_ns"] + step["duration_ns"] for step in document["steps"]), default=0)
    folds = _folds(document["path"])
    budget = next((b for b in document["budgets"] if b["metric"] == "end_to_end"), None)
    if budget is None or budget["value"] is None:
        return Axis(max(end, min(most, last)), folds), None
    limit, over = budget["limit"], budget["value"] - budget["limit"]
    limit_at = _moment(document["path"], limit)
    if limit_at > most:
        return Axis(max(end, min(most, last)), folds), Ruler(limit, None, over)
    room = round(limit_at * (1 + LINE_SHARE))
    axis = Axis(max(end, min(most, last), room), folds)
    return axis, Ruler(limit, axis.at(limit_at), over)


def _folds(path: Iterable[Document]) -> list[Fold]:
    """Waits longer than half a minute, neighbours joined."""
    folds: list[Fold] = []
    for piece in path:
        start, end = piece["start_ns"], piece["start_ns"] + piece["duration_ns"]
        if piece["segment"] != SegmentKind.WAIT:
            continue
        if folds and folds[-1].end_ns == start:
            start = folds.pop().start_ns
        folds.append(Fold(start, end))
    return [fold for fold in folds if fold.end_ns - fold.start_ns > IDLE_NS]


def _moment(path: Iterable[Document], limit_ns: int) -> int:
    """When so much time was used up: waiting for a person uses none."""
    waited = 0
    for piece in path:
        if piece["start_ns"] - waited >= limit_ns:
            break
        if piece["segment"] == SegmentKind.WAIT:
            waited += piece["duration_ns"]
    return limit_ns + waited
