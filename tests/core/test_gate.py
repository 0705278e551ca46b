"""Is a release worse? Two samples, and what may be said of them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from tracebudget.core.baseline import Figures, Found, figures_in, spread
from tracebudget.core.gate import Check, Kept, Outcome, compare, judge, more_often, passes

MS = 1_000_000


def figures(
    values: Sequence[int | None], *, metric: str = "end_to_end", errors: int = 0
) -> Figures:
    found = spread(values)
    return Figures(len(values), errors, {} if found is None else {metric: found})


def values(middle_ms: float, *, count: int = 400, seed: int = 1) -> list[int | None]:
    random = Random(seed)
    return [round(middle_ms * MS * random.lognormvariate(0, 0.3)) for _ in range(count)]


def outcomes(before: Figures, now: Figures, name: str = "end_to_end") -> list[str]:
    """Of p50 and p95."""
    return [check.outcome.value for check in compare(before, now) if check.name == name]


@pytest.mark.parametrize(
    ("middle_ms", "expected"), [(1000, "same"), (1030, "same"), (1300, "worse"), (700, "better")]
)
def test_a_metric(middle_ms: float, expected: str) -> None:
    before, now = figures(values(1000)), figures(values(middle_ms, seed=2))
    assert outcomes(before, now) == [expected, expected]


def test_what_everybody_tolerates_is_the_same_though_it_is_sure() -> None:
    before, now = figures([100 * MS] * 500), figures([104 * MS] * 500)
    assert outcomes(before, now) == ["same", "same"]
    assert compare(before, now, tolerance=0.03)[0].outcome == "same"  # below 5 ms
    assert outcomes(before, figures([106 * MS] * 500)) == ["worse", "worse"]


@pytest.mark.parametrize(("metric", "before", "now"), [("tpot", 20 * MS, 22 * MS), ("turns", 3, 4)])
def test_small_values_have_no_floor(metric: str, before: int, now: int) -> None:
    old, new = figures([before] * 100, metric=metric), figures([now] * 100, metric=metric)
    assert outcomes(old, new, metric) == ["worse", "worse"]


def test_too_few_requests_cannot_tell_a_p95() -> None:
    before, now = figures(values(1000)), figures(values(1000, count=71))
    assert outcomes(before, now) == ["same", "unknown"]
    assert not passes(compare(before, now))
    assert passes(compare(before, now), unknown_passes=True)


def test_what_the_baseline_does_not_tell_is_new_and_stops_nothing() -> None:
    before, now = figures(values(1000, count=20)), figures(values(1000))
    assert outcomes(before, now) == ["same", "new"]
    assert passes(compare(before, now))


def test_a_metric_that_got_lost_cannot_be_compared() -> None:
    known, half = values(1000), values(1000)
    half[::2] = [None] * 200
    assert outcomes(figures(known), figures(half)) == ["unknown", "unknown"]
    assert outcomes(figures(known), figures([None] * 400)) == ["unknown", "unknown"]
    assert outcomes(figures(half), figures(known)) == ["same", "same"]


def errors(before: tuple[int, int], now: tuple[int, int]) -> Check:
    (check,) = compare(Figures(before[1], before[0]), Figures(now[1], now[0]))
    return check


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ((4, 400), (40, 400), "worse"),
        ((40, 400), (4, 400), "better"),
        ((4, 400), (6, 400), "same"),
        ((0, 400), (1, 100), "same"),
        ((0, 400), (0, 0), "unknown"),
    ],
)
def test_errors(before: tuple[int, int], now: tuple[int, int], expected: str) -> None:
    assert errors(before, now).outcome == expected


@pytest.mark.parametrize(
    ("requests", "over", "unjudged", "objective", "expected"),
    [
        (100, 5, 0, 95, "kept"),
        (100, 6, 0, 95, "missed"),
        (100, 4, 2, 95, "unjudged_decide"),
        (100, 0, 5, 95, "kept"),
        (72, 0, 0, 95, "too_few_kept"),
        (73, 0, 0, 95, "kept"),
        (10, 9, 0, 95, "missed"),
        (0, 0, 0, 95, "too_few_kept"),
        (380, 0, 0, 99, "too_few_kept"),
        (400, 0, 0, 100, "kept"),
        (400, 1, 0, 100, "missed"),
    ],
)
def test_budgets(requests: int, over: int, unjudged: int, objective: float, expected: str) -> None:
    assert judge(Kept("ttft", 300 * MS, objective, requests, over, unjudged)).why == expected


def test_unchanged_releases_hardly_ever_fail() -> None:
    """Two samples of one distribution, 18 comparisons each as the gate makes them."""
    failed = 0
    for seed in range(60):
        before, now = figures(values(1000, seed=2 * seed)), figures(values(1000, seed=2 * seed + 1))
        failed += not passes(compare(before, now))
    assert failed <= 1


def test_findings_that_grew_are_told_the_costliest_first() -> None:
    before = Figures(
        400, 0, findings=[Found("queueing", "m", 40, 0), Found("many_turns", "", 9, 0)]
    )
    now = Figures(
        400,
        0,
        findings=[
            Found("queueing", "m", 120, 5 * MS),
            Found("many_turns", "", 10, 0),
            Found("serial_tools", "a, b", 100, 900 * MS),
        ],
    )
    grown = more_often(before, now)
    assert [item.found.code for item in grown] == ["serial_tools", "queueing"]
    assert (grown[1].share_before, grown[1].share) == (0.1, 0.3)


def test_a_document_is_read_back() -> None:
    metrics = {"turns": spread([1] * 100), "ttft": spread([5]), "tpot": spread([None])}
    found = (Found("serial_tools", "a, b", 3, None),)
    made = Figures(100, 3, {name: s for name, s in metrics.items() if s is not None}, found)
    assert figures_in(made.document()) == made
    assert made.tells is False
    assert Outcome.NEW in {check.outcome for check in compare(figures_in(made.document()), made)}
