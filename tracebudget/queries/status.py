"""Is Tracebudget itself well? What arrives, what waits, what failed, who could not be told."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

import django
from django.db import connection
from django.db.models import Count, Min, Q

from tracebudget import models, partition
from tracebudget.queries.disk import Forecast, disk_forecast

# Rates rest on the latest requests to arrive: a bounded look by primary key, whatever the load.
SAMPLE = 2_000
RATE_WINDOW = timedelta(minutes=5)
# From the last span to the analysis: the quiet period, a tick, and the work. Beyond it something is
# wrong, not busy.
LATE = timedelta(seconds=30)
FAILURES_SHOWN = 20
DAYS_SHOWN = 14


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What arrives a second, over the last minutes; and how long analyses took to come, in ns.

    `last_at` is when the latest span arrived, None before the first; lags are None without
    analyses.
    """

    requests: float
    spans: float
    last_at: datetime | None
    lag_p50_ns: int | None
    lag_p95_ns: int | None


@dataclass(frozen=True, slots=True)
class Queue:
    """Traces that wait for their analysis; `due` of them could be analysed now."""

    waiting: int
    due: int
    oldest_due_ns: int | None

    @property
    def is_late(self) -> bool:
        return (self.oldest_due_ns or 0) > LATE // timedelta(microseconds=1) * 1_000


@dataclass(frozen=True, slots=True)
class Telling:
    """Alerts that fire, and the outbox."""

    firing: int
    waiting: int
    failed: int  # of the last day


@dataclass(frozen=True, slots=True)
class Day:
    """A day's tables."""

    day: date
    bytes: int


@dataclass(frozen=True, slots=True)
class Status:
    """The whole instance, but for `failures`, which are one project's."""

    arrivals: Arrivals
    queue: Queue
    failed: int
    failures: Sequence[models.Trace]
    telling: Telling
    disk: Forecast
    days: Sequence[Day]
    versions: dict[str, str]


def status(project: models.Project, *, now: datetime) -> Status:
    """Nine queries."""
    failed = models.Trace.objects.exclude(failure="")
    mine = failed.filter(project=project).order_by("-pk")
    return Status(
        arrivals=arrivals(now=now),
        queue=queue(now=now),
        failed=failed_count(),
        failures=list(mine.only("trace_id", "failure", "last_seen_at")[:FAILURES_SHOWN]),
        telling=telling(now=now),
        disk=disk_forecast(now=now),
        days=_days(now.date()),
        versions=_versions(),
    )


def _days(today: date) -> list[Day]:
    """The latest days, today the last: those ahead are made, and empty."""
    days = [Day(day, size) for day, size in partition.sizes().items() if day <= today]
    return days[-DAYS_SHOWN:]


def arrivals(*, now: datetime) -> Arrivals:
    """One query."""
    columns = ("first_seen_at", "last_seen_at", "span_count", "analyzed_at")
    latest = list(models.Trace.objects.order_by("-pk").values_list(*columns)[:SAMPLE])
    since = now - RATE_WINDOW
    if len(latest) == SAMPLE:
        since = max(since, latest[-1][0])
    seconds = max((now - since).total_seconds(), 1.0)
    recent = [row for row in latest if row[0] > since]
    lags = sorted(analyzed - last for _, last, _, analyzed in recent if analyzed is not None)
    return Arrivals(
        requests=len(recent) / seconds,
        spans=sum(spans for _, _, spans, _ in recent) / seconds,
        last_at=max((last for _, last, _, _ in latest), default=None),
        lag_p50_ns=_at_rank(lags, 0.5),
        lag_p95_ns=_at_rank(lags, 0.95),
    )


def _at_rank(lags: Sequence[timedelta], share: float) -> int | None:
    if not lags:
        return None
    return _ns(lags[min(int(len(lags) * share), len(lags) - 1)])


def queue(*, now: datetime) -> Queue:
    """One query."""
    row = models.Due.objects.aggregate(
        waiting=Count("pk"), due=Count("pk", filter=Q(due_at__lte=now)), oldest=Min("due_at")
    )
    oldest = row["oldest"] if row["due"] else None
    return Queue(row["waiting"], row["due"], None if oldest is None else _ns(now - oldest))


def failed_count() -> int:
    """Traces whose last analysis failed. One query."""
    return models.Trace.objects.exclude(failure="").count()


def telling(*, now: datetime) -> Telling:
    """Two queries."""
    states = models.DeliveryState
    row = models.Delivery.objects.aggregate(
        waiting=Count("pk", filter=Q(state=states.WAITING)),
        failed=Count("pk", filter=Q(state=states.FAILED, ended_at__gt=now - timedelta(days=1))),
    )
    firing = models.Alert.objects.filter(closed_at=None).count()
    return Telling(firing, row["waiting"], row["failed"])


def _versions() -> dict[str, str]:
    return {
        "Python": platform.python_version(),
        "Django": django.get_version(),
        "PostgreSQL": ".".join(map(str, connection.get_database_version())),
    }


def _ns(length: timedelta) -> int:
    return length // timedelta(microseconds=1) * 1_000
