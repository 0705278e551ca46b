"""The gate: is a release worse than its baseline, and does it keep the budgets?

A metric is worse when it is surely slower and by more than anybody tolerates: the intervals of its
quantiles lie apart, and the values differ by more than `tolerance`. What the samples cannot tell is
unknown, never the same.

    baseline       |--x--|                 |--x--|              |--x--|
    release                 |--x--|           |-----x-----|        |--x--|
                   worse                   same                 same
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from tracebudget.core.baseline import QUANTILES, Figures, Found
from tracebudget.core.budget import COUNTS
from tracebudget.core.quantile import Quantile, share

TOLERANCE = 0.05  # a service varies by so much between two days on which nothing was changed
# Less than that nobody feels, whatever the share: framework time is often but a few milliseconds.
FLOOR_NS = 5_000_000
# Values of other calls than before: where a tenth of them is missing, a p95 may be about others.
COVERAGE_LOST = 0.1
MOST_PROVED = 0.99  # of requests: that all of them keep a limit, no number of requests proves


class Outcome(StrEnum):
    """What a check says. `NEW` is what the baseline cannot tell: nothing to compare with."""

    BETTER = "better"
    SAME = "same"
    WORSE = "worse"
    UNKNOWN = "unknown"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing the gate looked at. `why` has a sentence in `release.words`."""

    kind: str  # metric, errors, budget, baseline
    name: str  # the metric, or ""
    quantile: str  # p50, p95, or ""
    outcome: Outcome
    why: str
    evidence: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Kept:
    """A budget over the requests of a release: `over` it, and `unjudged` since figures lack."""

    metric: str
    limit: int
    objective: float  # percent
    requests: int
    over: int
    unjudged: int


def compare(before: Figures, now: Figures, *, tolerance: float = TOLERANCE) -> list[Check]:
    """Every metric that either side knows, by p50 and p95, and the share of failed requests."""
    names = dict.fromkeys([*before.metrics, *now.metrics])
    checks = [
        _compare_metric(name, quantile, before, now, tolerance)
        for name in names
        for quantile in QUANTILES
    ]
    return [*checks, _compare_errors(before, now)]


def _compare_metric(
    name: str, quantile: str, before: Figures, now: Figures, tolerance: float
) -> Check:
    old, new = (
        figures.metrics[name].at(quantile) if name in figures.metrics else None
        for figures in (before, now)
    )
    if old is None:
        return Check("metric", name, quantile, Outcome.NEW, "not_in_baseline")
    if new is None:
        few = {"known": now.known(name), "requests": now.requests}
        return Check("metric", name, quantile, Outcome.UNKNOWN, "too_few", few)
    known, known_before = now.coverage(name), before.coverage(name)
    if known_before - known > COVERAGE_LOST:
        shares = {"known": known, "known_before": known_before}
        return Check("metric", name, quantile, Outcome.UNKNOWN, "less_known", shares)
    outcome = _outcome(old, new, tolerance, floor=0 if name in {*COUNTS, "tpot"} else FLOOR_NS)
    evidence = {"before": old.value, "now": new.value, "low": new.low, "high": new.high}
    return Check("metric", name, quantile, outcome, str(outcome), evidence)


def _outcome(old: Quantile, new: Quantile, tolerance: float, *, floor: int) -> Outcome:
    tolerated = max(old.value * tolerance, floor)
    if new.low > old.high and new.value - old.value > tolerated:
        return Outcome.WORSE
    if new.high < old.low and old.value - new.value > tolerated:
        return Outcome.BETTER
    return Outcome.SAME


def _compare_errors(before: Figures, now: Figures) -> Check:
    """Failed requests are fast: more of them would make every other figure better."""
    old, new = share(before.errors, before.requests), share(now.errors, now.requests)
    if old is None or new is None:
        return Check("errors", "", "", Outcome.UNKNOWN, "no_requests")
    outcome = Outcome.SAME
    if new.low > old.high:
        outcome = Outcome.WORSE
    elif new.high < old.low:
        outcome = Outcome.BETTER
    evidence = {"before": old.value, "now": new.value, "low": new.low, "high": new.high}
    return Check("errors", "", "", outcome, f"errors_{outcome}", evidence)


def judge(kept: Kept) -> Check:
    """A budget's objective. Requests without a figure count for it and against it: where they
    decide, it is unknown. So it is where so few requests would prove nothing if all kept it.
    """
    most = kept.requests - kept.over
    within, needed = most - kept.unjudged, kept.objective / 100
    best, all_kept = share(most, kept.requests), share(kept.requests, kept.requests)
    if best is not None and best.high < needed:
        outcome, why = Outcome.WORSE, "missed"
    elif all_kept is None or all_kept.low < min(needed, MOST_PROVED):
        outcome, why = Outcome.UNKNOWN, "too_few_kept"
    elif within >= needed * kept.requests:
        outcome, why = Outcome.SAME, "kept"
    elif most < needed * kept.requests:
        outcome, why = Outcome.WORSE, "missed"
    else:
        outcome, why = Outcome.UNKNOWN, "unjudged_decide"
    evidence = {key: value for key, value in asdict(kept).items() if key != "metric"}
    return Check("budget", kept.metric, "", outcome, why, evidence | {"within": within})


def passes(checks: Iterable[Check], *, unknown_passes: bool = False) -> bool:
    """Whether the release may go: nothing worse, and nothing unknown unless that is allowed."""
    stops = {Outcome.WORSE} if unknown_passes else {Outcome.WORSE, Outcome.UNKNOWN}
    return not any(check.outcome in stops for check in checks)


@dataclass(frozen=True, slots=True)
class MoreOften:
    """A finding that is surely in a larger share of requests than before: where to look first."""

    found: Found
    share: float
    share_before: float


def more_often(before: Figures, now: Figures) -> list[MoreOften]:
    """Findings that came or grew, those first that cost the most."""
    return sorted(_grown(before, now), key=lambda item: -(item.found.saving_ns or 0))


def _grown(before: Figures, now: Figures) -> Iterator[MoreOften]:
    known = {(found.code, found.subject): found.requests for found in before.findings}
    for found in now.findings:
        old = share(known.get((found.code, found.subject), 0), before.requests)
        new = share(found.requests, now.requests)
        if old is not None and new is not None and new.low > old.high:
            yield MoreOften(found, new.value, old.value)


def worst_first(checks: Sequence[Check]) -> list[Check]:
    """What stops a release before what does not; in their order otherwise."""
    order = [Outcome.WORSE, Outcome.UNKNOWN, Outcome.BETTER, Outcome.SAME, Outcome.NEW]
    return sorted(checks, key=lambda check: order.index(check.outcome))
