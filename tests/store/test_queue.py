"""The rows are the queue: claims, leases, suspects."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from pytest_django import Settings

from tests.store.spans import NOW, span
from tracebudget import models, store
from tracebudget.core.app import App
from tracebudget.core.budget import Budget
from tracebudget.store import Claim, Failed, queue

SECOND = timedelta(seconds=1)
LATER = NOW + 60 * SECOND


@pytest.fixture(autouse=True)
def _pauses(settings: Settings) -> None:
    settings.QUIET_SECONDS, settings.LEASE_SECONDS, settings.MAX_ATTEMPTS = 2, 20, 3
    settings.ANALYZE_BATCH = 10


def arrive(project: models.Project, *traces: int, at: int = 0, app: str = "shop") -> None:
    """One root span for each trace, `at` seconds after NOW."""
    for trace in traces:
        root = span(trace=trace, resource={"service.name": app})
        store.store_spans(project, [root], now=NOW + at * SECOND)


def claim(seconds: int) -> list[int]:
    """The numbers of the traces that are claimed `seconds` after NOW."""
    claims = store.claim_due(now=NOW + seconds * SECOND)
    return [one.trace_id.int for one in claims]


def test_a_trace_is_due_after_its_quiet_period_and_claimed_once(project: models.Project) -> None:
    arrive(project, 1)
    assert claim(1) == []
    assert claim(2) == [1]
    assert claim(2) == []


def test_a_claim_tells_what_to_read(project: models.Project) -> None:
    arrive(project, 1)
    (one,) = store.claim_due(now=LATER)
    trace = models.Trace.objects.get()
    assert one == Claim(trace.pk, project.pk, "shop", UUID(int=1), NOW.date(), 1, 0)


def test_the_longest_due_come_first_and_no_more_than_allowed(
    project: models.Project, settings: Settings
) -> None:
    settings.ANALYZE_BATCH = 2
    for trace, at in ((1, 3), (2, 1), (3, 2)):
        arrive(project, trace, at=at)
    assert sorted(claim(60)) == [2, 3]
    assert claim(60) == [1]


def test_a_flood_from_one_app_does_not_delay_another(project: models.Project) -> None:
    """100 due traces of one app, and later 3 of each of two others, one of another project."""
    other = models.Project.objects.create(slug="other", name="Other")
    arrive(project, *range(1, 101), app="flood")
    arrive(project, 201, 202, 203, at=1, app="quiet")
    arrive(other, 301, 302, 303, at=1, app="flood")
    taken = claim(60)
    assert {201, 202, 203, 301, 302, 303} <= set(taken)
    assert sorted(set(taken) - {201, 202, 203, 301, 302, 303}) == [1, 2, 3]
    assert len(claim(60)) == 10  # the flood has the worker to itself again


def test_more_apps_than_places_take_turns_by_age(
    project: models.Project, settings: Settings
) -> None:
    settings.ANALYZE_BATCH = 3
    for number in range(1, 6):
        arrive(project, number, at=6 - number, app=f"app-{number}")
        arrive(project, 10 + number, at=16 - number, app=f"app-{number}")
    assert sorted(claim(60)) == [3, 4, 5]
    assert sorted(claim(60)) == [1, 2, 15]


def test_a_batch_is_bounded_in_spans_too(project: models.Project, settings: Settings) -> None:
    """Monsters come one at a time; small traces of another app beside them as usual."""
    settings.ANALYZE_BATCH_SPANS = 20
    for trace in (1, 2):
        spans = [span(n, trace=trace, parent=n - 1 or None) for n in range(1, 31)]
        store.store_spans(project, spans, now=NOW)
    arrive(project, 11, 12, 13, app="small")
    assert sorted(claim(60)) == [1, 11, 12, 13]
    assert sorted(claim(60)) == [2]


def test_what_waits_for_its_time_holds_up_no_lane(project: models.Project) -> None:
    arrive(project, 1, app="now")
    arrive(project, 2, at=50, app="later")
    assert claim(10) == [1]


def test_a_claim_that_nobody_answers_is_due_again_after_its_lease(project: models.Project) -> None:
    arrive(project, 1)
    assert claim(10) == [1]
    assert claim(29) == []
    assert claim(30) == [1]


def test_attempts_count_what_was_begun_before(project: models.Project) -> None:
    arrive(project, 1)
    (first,) = store.claim_due(now=LATER)
    (second,) = store.claim_due(now=LATER + 20 * SECOND)
    store.note_attempt(second)
    (third,) = store.claim_due(now=LATER + 40 * SECOND)
    assert [one.attempts for one in (first, second, third)] == [0, 1, 2]


def test_a_claim_does_not_read_the_table_of_traces(project: models.Project) -> None:
    """Postgres cannot know that a batch is small: it must not have to guess."""
    with connection.cursor() as cursor:
        cursor.execute(MANY_TRACES, [project.pk])
        cursor.execute("ANALYZE tracebudget_trace, tracebudget_due")
        parameters: dict[str, Any] = {"now": NOW, "lease": NOW, "traces": 50, "spans": 10_000}
        cursor.execute(f"EXPLAIN {queue.CLAIM}", parameters)
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "Scan using tracebudget_trace_pkey" in plan
    assert "Seq Scan on tracebudget_trace" not in plan


MANY_TRACES = """
    INSERT INTO tracebudget_trace (
        project_id, trace_id, day, first_seen_at, last_seen_at, revision, failure, batch_count,
        span_count, refused_span_count
    )
    SELECT %s, gen_random_uuid(), '2025-01-01', '2025-01-01', '2025-01-01', 1, '', 1, 1, 0
    FROM generate_series(1, 5000);
    INSERT INTO tracebudget_due SELECT id, id %% 5, '2025-01-01', 0 FROM tracebudget_trace;
"""


@pytest.mark.django_db(transaction=True)
def test_many_workers_share_the_work_and_take_nothing_twice(
    project: models.Project, settings: Settings
) -> None:
    settings.ANALYZE_BATCH = 5
    arrive(project, *range(1, 51), app="a")
    arrive(project, *range(51, 101), app="b")
    start = threading.Barrier(4)

    def work(_: int) -> list[int]:
        start.wait()
        try:
            return [trace for _ in range(20) for trace in claim(60)]
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        taken = [trace for mine in pool.map(work, range(4)) for trace in mine]
    assert sorted(taken) == list(range(1, 101))


def test_batches_are_loaded_by_claim(project: models.Project) -> None:
    first, late, other = span(1, trace=1), span(2, trace=1, parent=1), span(1, trace=2)
    store.store_spans(project, [first, other], now=NOW)
    store.store_spans(project, [late], now=NOW + 86_400 * SECOND)
    claims = store.claim_due(now=NOW + 2 * 86_400 * SECOND)
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
    (one,) = store.claim_due(now=LATER)
    failure = Failed(one._replace(attempts=attempts), "ValueError: broken")
    store.save_failures([failure], now=LATER)
    return models.Trace.objects.get()


@pytest.mark.parametrize(("attempts", "pause"), [(0, 2), (1, 4), (2, None)])
def test_a_failure_is_told_and_tried_again_after_growing_pauses(
    project: models.Project, attempts: int, pause: int | None
) -> None:
    trace = fail(project, attempts)
    assert trace.failure == "ValueError: broken"
    times = models.Due.objects.values_list("due_at", flat=True)
    assert list(times) == ([] if pause is None else [LATER + pause * SECOND])


def test_a_failure_of_an_old_revision_changes_nothing(project: models.Project) -> None:
    arrive(project, 1)
    (one,) = store.claim_due(now=LATER)
    store.store_spans(project, [span(2, parent=1)], now=LATER)
    due = models.Due.objects.get().due_at
    store.save_failures([Failed(one, "broken")], now=LATER)
    trace = models.Trace.objects.get()
    assert (trace.failure, trace.due.due_at) == ("", due)
