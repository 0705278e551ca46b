"""The rows are the queue: claims, leases, suspects."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connection
from pytest_django import Settings

from tests.store.spans import NOW, span
from tracebudget import models, store
from tracebudget.core.app import App
from tracebudget.core.budget import Budget
from tracebudget.store import Claim, Failed

SECOND = timedelta(seconds=1)
LATER = NOW + 60 * SECOND


@pytest.fixture(autouse=True)
def _pauses(settings: Settings) -> None:
    settings.QUIET_SECONDS, settings.LEASE_SECONDS, settings.MAX_ATTEMPTS = 2, 20, 3


def arrive(project: models.Project, *traces: int, at: int = 0) -> None:
    """One root span for each trace, `at` seconds after NOW."""
    for trace in traces:
        store.store_spans(project, [span(trace=trace)], now=NOW + at * SECOND)


def claim(seconds: int, limit: int = 10) -> list[int]:
    """The numbers of the traces that are claimed `seconds` after NOW."""
    claims = store.claim_due(now=NOW + seconds * SECOND, limit=limit)
    return [one.trace_id.int for one in claims]


def test_a_trace_is_due_after_its_quiet_period_and_claimed_once(project: models.Project) -> None:
    arrive(project, 1)
    assert claim(1) == []
    assert claim(2) == [1]
    assert claim(2) == []


def test_a_claim_tells_what_to_read(project: models.Project) -> None:
    arrive(project, 1)
    (one,) = store.claim_due(now=LATER, limit=10)
    trace = models.Trace.objects.get()
    assert one == Claim(trace.pk, project.pk, "shop", UUID(int=1), NOW.date(), 1, 0)


def test_the_longest_due_come_first_and_no_more_than_asked(project: models.Project) -> None:
    for trace, at in ((1, 3), (2, 1), (3, 2)):
        arrive(project, trace, at=at)
    assert sorted(claim(60, limit=2)) == [2, 3]
    assert claim(60, limit=2) == [1]


def test_a_claim_that_nobody_answers_is_due_again_after_its_lease(project: models.Project) -> None:
    arrive(project, 1)
    assert claim(10) == [1]
    assert claim(29) == []
    assert claim(30) == [1]


def test_attempts_count_what_was_begun_before(project: models.Project) -> None:
    arrive(project, 1)
    (first,) = store.claim_due(now=LATER, limit=1)
    (second,) = store.claim_due(now=LATER + 20 * SECOND, limit=1)
    store.note_attempt(second)
    (third,) = store.claim_due(now=LATER + 40 * SECOND, limit=1)
    assert [one.attempts for one in (first, second, third)] == [0, 1, 2]


@pytest.mark.django_db(transaction=True)
def test_many_workers_share_the_work_and_take_nothing_twice(project: models.Project) -> None:
    arrive(project, *range(1, 101))
    start = threading.Barrier(4)

    def work(_: int) -> list[int]:
        start.wait()
        try:
            return [trace for _ in range(10) for trace in claim(60, limit=5)]
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        taken = [trace for mine in pool.map(work, range(4)) for trace in mine]
    assert sorted(taken) == list(range(1, 101))


def test_batches_are_loaded_by_claim(project: models.Project) -> None:
    first, late, other = span(1, trace=1), span(2, trace=1, parent=1), span(1, trace=2)
    store.store_spans(project, [first, other], now=NOW)
    store.store_spans(project, [late], now=NOW + 86_400 * SECOND)
    claims = store.claim_due(now=NOW + 2 * 86_400 * SECOND, limit=10)
    loaded = store.load_batches(claims)
    spans = {one.trace_id.int: store.unpack_batches(loaded[one.id]) for one in claims}
    assert sorted(one.span_id for one in spans[1]) == [first.span_id, late.span_id]
    assert spans[2] == [other]


def test_apps_with_budgets_are_found_by_project_and_name(project: models.Project) -> None:
    app = models.App.objects.create(project=project, name="Shop Agent", slug="shop-agent")
    models.Budget.objects.create(app=app, metric="ttft", limit=300_000_000, objective="99.5")
    assert store.load_apps([project.pk]) == {
        project.pk: {"Shop Agent": App(budgets=(Budget("ttft", 300_000_000, 99.5),))}
    }
    assert store.load_apps([project.pk + 1]) == {}


# --- failures ---


def fail(project: models.Project, attempts: int) -> models.Trace:
    arrive(project, 1)
    (one,) = store.claim_due(now=LATER, limit=1)
    failure = Failed(one._replace(attempts=attempts), "ValueError: broken")
    store.save_failures([failure], now=LATER)
    return models.Trace.objects.get()


@pytest.mark.parametrize(("attempts", "pause"), [(0, 2), (1, 4), (2, None)])
def test_a_failure_is_told_and_tried_again_after_growing_pauses(
    project: models.Project, attempts: int, pause: int | None
) -> None:
    trace = fail(project, attempts)
    assert trace.failure == "ValueError: broken"
    assert trace.analyze_after == (None if pause is None else LATER + pause * SECOND)


def test_a_failure_of_an_old_revision_changes_nothing(project: models.Project) -> None:
    arrive(project, 1)
    (one,) = store.claim_due(now=LATER, limit=1)
    store.store_spans(project, [span(2, parent=1)], now=LATER)
    due = models.Trace.objects.get().analyze_after
    store.save_failures([Failed(one, "broken")], now=LATER)
    trace = models.Trace.objects.get()
    assert (trace.failure, trace.analyze_after) == ("", due)
