"""Whatever is stored and pinned: a dry run tells the numbers of the run, and traces go whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django import Settings

from tests.store.spans import NOW
from tracebudget import models, partition, store
from tracebudget.store import Pruned

DAY = timedelta(days=1)
RETENTION_DAYS, ALERT_RETENTION_DAYS = 7, 10

pytestmark = pytest.mark.django_db


@dataclass(frozen=True)
class Stored:
    """A trace, as old as its day; an alert that it is the evidence of closed so many days ago."""

    age: int
    app: int
    is_pinned: bool
    closed: int | None
    spans: int

    def stays(self) -> bool:
        is_evidence = self.closed is not None and self.closed <= ALERT_RETENTION_DAYS
        return self.age <= RETENTION_DAYS or self.is_pinned or is_evidence


stored = st.builds(
    Stored,
    age=st.integers(0, 12),
    app=st.integers(0, 2),
    is_pinned=st.booleans(),
    closed=st.none() | st.integers(5, 15),
    spans=st.integers(1, 3),
)


@given(
    traces=st.lists(stored, max_size=12),
    old_apps=st.sets(st.integers(0, 2)),
    promised=st.sets(st.integers(0, 2)),
    later=st.integers(0, 12),
)
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_dry_run_tells_what_goes_and_only_whole_traces_do(
    project: models.Project,
    traces: list[Stored],
    old_apps: set[int],
    promised: set[int],
    later: int,
) -> None:
    """Twice, for what was kept at first may go at the second time."""
    with transaction.atomic():
        make_apps(project, old_apps, promised)
        for number, one in enumerate(traces, start=1):
            make_trace(project, number, one)
        check(NOW, traces)
        check(NOW + later * DAY, [grown(one, later) for one in traces if one.stays()])
        transaction.set_rollback(True)


@pytest.fixture(autouse=True)
def _days(settings: Settings) -> None:
    settings.RETENTION_DAYS = RETENTION_DAYS
    settings.ALERT_RETENTION_DAYS = ALERT_RETENTION_DAYS


def check(now: datetime, traces: Sequence[Stored]) -> None:
    before = counts()
    told = store.prune(now=now, dry_run=True)
    assert counts() == before
    assert store.prune(now=now) == told
    gone = {name: before[name] - count for name, count in counts().items()}
    assert gone == {
        "traces": told.traces + told.expired,
        "spans": told.spans,
        "days": told.days,
        "apps": told.apps,
        "alerts": told.alerts,
    }
    left = {trace.pk: trace for trace in models.Trace.objects.all()}
    assert sum(one.stays() for one in traces) == len(left)
    for model in (models.SpanBatch, models.Analysis):
        assert {row.trace_id: row.day for row in model.objects.all()} == {
            pk: trace.day for pk, trace in left.items()
        }
    assert store.prune(now=now) == NOTHING


NOTHING = Pruned(days=0, bytes=0, traces=0, spans=0, kept=0, expired=0, apps=0, alerts=0)


def counts() -> dict[str, int]:
    return {
        "traces": models.Trace.objects.count(),
        "spans": sum(models.SpanBatch.objects.values_list("span_count", flat=True)),
        "days": len(partition.sizes()),
        "apps": models.App.objects.count(),
        "alerts": models.Alert.objects.count(),
    }


def grown(one: Stored, days: int) -> Stored:
    closed = None if one.closed is None else one.closed + days
    return replace(one, age=one.age + days, closed=closed)


def make_apps(project: models.Project, old: set[int], promised: set[int]) -> None:
    for number in range(3):
        app = models.App.objects.create(project=project, name=f"app {number}", slug=f"a{number}")
        if number in old:
            models.App.objects.filter(pk=app.pk).update(created_at=NOW - 100 * DAY)
        if number in promised:
            models.Budget.objects.create(app=app, metric="ttft", limit=1)


def make_trace(project: models.Project, number: int, one: Stored) -> None:
    at, app = NOW - one.age * DAY, models.App.objects.get(name=f"app {one.app}")
    partition.create(at.date())
    trace = models.Trace.objects.create(
        project=project, trace_id=UUID(int=number), day=at.date(), span_count=one.spans, app=app,
        first_seen_at=at, last_seen_at=at, pinned_at=at if one.is_pinned else None,
    )  # fmt: skip
    models.SpanBatch.objects.create(
        day=at.date(), trace=trace, digest=b"", span_count=one.spans, head=b"", tail=b""
    )
    models.Analysis.objects.create(day=at.date(), trace=trace, revision=1, document=b"")
    if one.closed is not None:
        models.Alert.objects.create(
            project=project, app=app, app_name=app.name, metric="ttft", limit=1, objective=95,
            opened_at=NOW - 20 * DAY, closed_at=NOW - one.closed * DAY, judged_at=NOW, judged=1,
            over=1, worst=2, evidence=[trace.trace_id],
        )  # fmt: skip
