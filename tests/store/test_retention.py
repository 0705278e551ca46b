"""Old traces go, whole; what is pinned or evidence stays; a dry run tells the same numbers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection
from pytest_django import Settings

from tests.store.spans import NOW, span, two_turns
from tracebudget import models, partition, pipeline, store
from tracebudget.queries.apps import Scope, app_rows
from tracebudget.queries.traces import window
from tracebudget.store import Pruned, retention

DAY = timedelta(days=1)
OLD = NOW - 10 * DAY
NOTHING = Pruned(days=0, bytes=0, traces=0, spans=0, kept=0, expired=0, apps=0, alerts=0)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _a_week(settings: Settings) -> None:
    settings.RETENTION_DAYS = 7


def arrive(
    project: models.Project, number: int, *, at: datetime, app: str = "shop"
) -> models.Trace:
    """A whole request, analysed, with rows in every table but that of breaches."""
    resource = {"service.name": app}
    spans = [replace(s, trace_id=f"{number:032x}", resource=resource) for s in two_turns()]
    store.store_spans(project, spans, now=at)
    pipeline.analyze_due(lambda: at + timedelta(minutes=1))
    return models.Trace.objects.get(project=project, trace_id=f"{number:032x}")


def alert(trace: models.Trace) -> models.Alert:
    """One whose evidence the trace is."""
    app = trace.app
    assert app is not None
    return models.Alert.objects.create(
        project=trace.project, app=app, app_name=app.name, metric="ttft", limit=1, objective=95,
        opened_at=OLD, judged_at=NOW, judged=1, over=1, worst=2, evidence=[trace.trace_id],
    )  # fmt: skip


def numbers() -> list[int]:
    traces = models.Trace.objects.order_by("trace_id")
    return [trace.trace_id.int for trace in traces]


def row_counts() -> dict[str, int]:
    tables: list[type[Any]] = [models.Trace, models.Due, models.App, *partition.PARTITIONED]
    return {model.__name__: model.objects.count() for model in tables}


def pruned() -> Pruned:
    """What a run says that it deleted; a dry run just before it said the same, and did nothing."""
    before = row_counts()
    told = store.prune(now=NOW, dry_run=True)
    assert row_counts() == before
    assert store.prune(now=NOW) == told
    return told


def test_old_traces_go_with_all_that_hangs_from_them(project: models.Project) -> None:
    arrive(project, 1, at=NOW - 7 * DAY)
    left = row_counts()
    for number in (2, 3):
        arrive(project, number, at=OLD)
    store.store_spans(project, [span(trace=4)], now=OLD)  # never analysed
    told = pruned()
    assert (told.traces, told.spans, told.days, told.apps) == (3, 2 * 5 + 1, 1, 0)
    assert told.bytes > 0
    assert numbers() == [1]
    assert row_counts() == left
    assert not partition.exists(OLD.date())
    assert pruned() == NOTHING


def test_retention_counts_from_the_first_span(project: models.Project) -> None:
    """Whole traces only: late spans hang from an old trace, and go with it."""
    store.store_spans(project, [span(1)], now=OLD)
    store.store_spans(project, [span(2, parent=1)], now=NOW)
    assert pruned().spans == 2
    assert numbers() == []


@pytest.mark.parametrize("days", [0, 30])
def test_nothing_goes_before_its_time(
    project: models.Project, settings: Settings, days: int
) -> None:
    settings.RETENTION_DAYS = days
    arrive(project, 1, at=OLD)
    assert pruned().traces == 0
    assert numbers() == [1]


def pin(trace: models.Trace) -> None:
    models.Trace.objects.filter(pk=trace.pk).update(pinned_at=NOW)


@pytest.mark.parametrize("keep", [pin, alert], ids=["pinned", "evidence"])
def test_what_somebody_needs_stays_whole(
    project: models.Project, keep: Callable[[models.Trace], object]
) -> None:
    kept, _ = arrive(project, 1, at=OLD), arrive(project, 2, at=OLD)
    keep(kept)
    told = pruned()
    assert (told.traces, told.kept) == (1, 1)
    assert numbers() == [1]
    rows = row_counts()
    assert (rows["SpanBatch"], rows["Analysis"], rows["ModelCall"], rows["ToolCall"]) == (
        1,
        1,
        2,
        2,
    )
    assert {batch.day for batch in models.SpanBatch.objects.all()} == {partition.KEPT}
    assert pruned() == NOTHING


def test_figures_over_many_requests_leave_out_what_outlived_its_day(
    project: models.Project,
) -> None:
    """Of the old ones only breaches are left: their average would be no average."""
    pin(arrive(project, 1, at=OLD))
    arrive(project, 2, at=NOW)
    scope = Scope(project, window("all", now=NOW))
    store.refresh_rollups(lambda: NOW)
    assert app_rows(scope)[0].requests == 2
    store.prune(now=NOW)
    store.refresh_rollups(lambda: NOW + timedelta(minutes=1))
    (row,) = app_rows(scope)
    assert (row.requests, row.ttft.total) == (1, 2)


def test_evidence_of_another_project_keeps_nothing(project: models.Project) -> None:
    other = models.Project.objects.create(slug="other", name="Other")
    alert(arrive(other, 1, at=NOW))
    arrive(project, 1, at=OLD)
    assert pruned().traces == 1
    assert [trace.project for trace in models.Trace.objects.all()] == [other]


def test_what_is_kept_no_longer_goes(project: models.Project) -> None:
    kept = arrive(project, 1, at=OLD)
    opened = alert(kept)
    store.prune(now=NOW)
    opened.delete()
    models.App.objects.update(created_at=OLD)
    told = pruned()
    assert (told.expired, told.spans, told.apps) == (1, 5, 1)
    assert set(row_counts().values()) == {0}


def test_a_kept_trace_takes_late_spans_and_is_analysed_with_them(project: models.Project) -> None:
    kept = arrive(project, 1, at=OLD)
    pin(kept)
    store.prune(now=NOW)
    late = span(99, parent=1, trace=1, resource={"service.name": "shop"})
    store.store_spans(project, [late], now=NOW)
    assert pipeline.analyze_due(lambda: NOW + timedelta(minutes=1)) == 1
    trace = models.Trace.objects.get()
    assert (trace.span_count, trace.revision, trace.failure) == (6, 2, "")
    assert {analysis.day for analysis in models.Analysis.objects.all()} == {partition.KEPT}


def test_a_result_for_a_trace_that_was_moved_meanwhile_is_dropped(project: models.Project) -> None:
    """Its claim names a day whose tables are gone."""
    kept = arrive(project, 1, at=OLD)
    pin(kept)
    store.store_spans(project, [span(99, parent=1, trace=1)], now=OLD)
    (claim,) = store.claim_due(now=NOW)
    store.prune(now=NOW)
    store.save_failures([store.Failed(claim, "too late")], now=NOW)
    assert models.Trace.objects.get().failure == ""


# --- alerts ---


def test_alerts_go_long_after_they_closed_with_what_was_told(
    project: models.Project, settings: Settings
) -> None:
    """And so does the evidence that only they kept; what is open stays, however old."""
    settings.ALERT_RETENTION_DAYS = 9
    old, young, opened = (
        alert(arrive(project, number, at=OLD, app=f"app {number}")) for number in (1, 2, 3)
    )
    close(old, at=NOW - 9 * DAY - timedelta(seconds=1))
    close(young, at=NOW - 9 * DAY)
    tell(old)
    told = pruned()
    assert (told.alerts, told.traces, told.kept) == (1, 1, 2)
    assert list(models.Alert.objects.order_by("id")) == [young, opened]
    assert not models.Delivery.objects.exists()  # the test message is as old
    assert not models.DeliveryTry.objects.exists()
    assert numbers() == [2, 3]


def test_alerts_stay_for_ever_where_the_setting_says_so(
    project: models.Project, settings: Settings
) -> None:
    settings.ALERT_RETENTION_DAYS = 0
    close(alert(arrive(project, 1, at=OLD)), at=NOW - 1000 * DAY)
    assert (pruned().alerts, numbers()) == (0, [1])


def close(closed: models.Alert, *, at: datetime) -> None:
    models.Alert.objects.filter(pk=closed.pk).update(closed_at=at)


def tell(told: models.Alert) -> None:
    """Somebody was told of it, at the second try; and a test message went the same way."""
    channel = models.Channel.objects.create(
        project=told.project, kind="email", name="Team", destination="team@", config=b""
    )
    event = models.AlertEvent.objects.create(alert=told, change="opened", at=OLD, facts={})
    for of in (event, None):
        delivery = models.Delivery.objects.create(channel=channel, event=of, created_at=OLD)
        models.DeliveryTry.objects.create(
            delivery=delivery, at=OLD, took_ms=1, is_success=True, answer=""
        )


# --- apps ---


def test_apps_without_anything_left_go(project: models.Project) -> None:
    for number, app in enumerate(("gone", "kept", "promised", "new"), start=1):
        arrive(project, number, at=OLD, app=app)
    models.App.objects.exclude(name="new").update(created_at=OLD)
    pin(models.Trace.objects.get(app__name="kept"))
    promised = models.App.objects.get(name="promised")
    models.Budget.objects.create(app=promised, metric="ttft", limit=1)
    assert pruned().apps == 1
    left = models.App.objects.order_by("name").values_list("name", flat=True)
    assert list(left) == ["kept", "new", "promised"]


# --- beside others ---


def test_many_traces_go_a_few_at_a_time(
    project: models.Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "ROWS_AT_ONCE", 3)
    for number in range(1, 21):
        store.store_spans(project, [span(trace=number)], now=OLD)
    models.Trace.objects.filter(trace_id__lt=f"{5:032x}").update(pinned_at=NOW)
    told = pruned()
    assert (told.traces, told.kept) == (16, 4)
    assert numbers() == [1, 2, 3, 4]


@pytest.mark.django_db(transaction=True)
def test_a_long_reader_puts_it_off_and_the_next_run_does_the_rest(project: models.Project) -> None:
    store.store_spans(project, [span()], now=OLD)
    with psycopg.connect(**connection.get_connection_params()) as backup:
        backup.execute("LOCK TABLE tracebudget_spanbatch IN ACCESS SHARE MODE")
        with pytest.raises(store.PruneError, match="lock timeout"):
            store.prune(now=NOW)
    assert partition.exists(OLD.date())
    assert store.prune(now=NOW).days == 1
    assert not partition.exists(OLD.date())


@pytest.mark.django_db(transaction=True)
def test_one_run_at_a_time(project: models.Project) -> None:
    with psycopg.connect(**connection.get_connection_params()) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [retention.ADVISORY_LOCK])
        with pytest.raises(store.PruneError, match="Another process"):
            store.prune(now=NOW)
        other.execute("SELECT pg_advisory_unlock(%s)", [retention.ADVISORY_LOCK])
        store.prune(now=NOW)


@pytest.mark.django_db(transaction=True)
def test_spans_that_arrive_for_a_trace_while_it_goes_begin_it_anew(
    project: models.Project,
) -> None:
    """Eight senders add to old traces all the while; each span is stored, in old rows or new."""
    for number in range(1, 201):
        store.store_spans(project, [span(trace=number)], now=OLD)
    partition.create(NOW.date())
    stop, failures = threading.Event(), []

    def send(sender: int) -> None:
        try:
            for number in range(1, 201):
                late = [span(sender, parent=1, trace=one) for one in (number, 201 - number)]
                store.store_spans(project, late, now=NOW)
        except Exception as error:
            failures.append(error)
        finally:
            connection.close()
            stop.set()

    senders = [threading.Thread(target=send, args=(number,)) for number in range(2, 6)]
    for sender in senders:
        sender.start()
    while not stop.is_set():
        store.prune(now=NOW)
    for sender in senders:
        sender.join()
    assert failures == []
    assert {trace.day for trace in models.Trace.objects.all()} == {NOW.date()}
    assert not partition.exists(OLD.date())
