"""What fires, what fired, who was told: reads for the pages of alerts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import OuterRef, Prefetch, QuerySet, Subquery

from tracebudget import models
from tracebudget.core.alerting import JudgedRequest, Rule, Watch, replay

PAGE_SIZE = 50
DELIVERIES_SHOWN = 30

TRIES = Prefetch("log", models.DeliveryTry.objects.order_by("pk"))

REPLAYED = timedelta(days=7)
# The latest of them: more would take longer to replay than somebody waits for a page.
REPLAYED_REQUESTS = 20_000


def firing(project: models.Project) -> list[models.Alert]:
    """Open alerts, the newest first. One query."""
    return list(_alerts(project=project, closed_at=None))


def closed(project: models.Project, *, before: int | None = None) -> list[models.Alert]:
    """A page of closed alerts, the newest first, those older than alert `before`. One query; one
    alert more than a page where there is another page.
    """
    alerts = _alerts(project=project, closed_at__isnull=False)
    if before is not None:
        alerts = alerts.filter(pk__lt=before)
    return list(alerts.order_by("-pk")[: PAGE_SIZE + 1])


def of_app(app: models.App) -> list[models.Alert]:
    """The latest alerts of an app, open ones first. One query."""
    return list(_alerts(app=app)[:PAGE_SIZE])


def _alerts(**where: Any) -> QuerySet[models.Alert]:
    mine = models.Alert.objects.filter(**where)
    return mine.select_related("app", "project").order_by("-opened_at", "-pk")


def find(project: models.Project, pk: int) -> models.Alert | None:
    """An alert with its history, deliveries and tries. Four queries."""
    told = models.Delivery.objects.select_related("channel").order_by("created_at", "channel")
    events = models.AlertEvent.objects.order_by("pk")
    events = events.prefetch_related(Prefetch("deliveries", told.prefetch_related(TRIES)))
    return _alerts(project=project, pk=pk).prefetch_related(Prefetch("events", events)).first()


def channels(project: models.Project) -> list[models.Channel]:
    """Channels by name, each with its last delivery's state and answer. One query."""
    last = models.Delivery.objects.filter(channel=OuterRef("pk")).order_by("-created_at", "-pk")
    answer = models.DeliveryTry.objects.filter(delivery__channel=OuterRef("pk")).order_by("-pk")
    mine = models.Channel.objects.filter(project=project, removed_at=None).select_related("app")
    return list(
        mine.annotate(
            last_state=Subquery(last.values("state")[:1]),
            last_at=Subquery(last.values("created_at")[:1]),
            last_answer=Subquery(answer.values("answer")[:1]),
        ).order_by("name", "pk")
    )


def deliveries(
    project: models.Project, channel: models.Channel | None = None
) -> list[models.Delivery]:
    """The latest deliveries with their tries, of one channel or all. Two queries."""
    rows = models.Delivery.objects.filter(channel__project=project)
    if channel is not None:
        rows = rows.filter(channel=channel)
    known = rows.select_related("channel", "event__alert").prefetch_related(TRIES)
    return list(known.order_by("-created_at", "-pk")[:DELIVERIES_SHOWN])


# --- what a rule would have done ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WouldHave:
    """A budget's alerts of last week, had its rule and limit been what they are now."""

    budget: models.Budget
    judged: int
    over: int
    alerts: Sequence[Watch]


def last_week(app: models.App, rule: Rule, *, now: datetime) -> list[WouldHave]:
    """Each budget's last week under a rule. Two queries."""
    budgets = models.Budget.objects.filter(app=app).order_by("metric")
    rows = list(_judged_requests(app, now=now))
    return [_would_have(budget, rows, rule, now) for budget in budgets]


def _judged_requests(app: models.App, *, now: datetime) -> QuerySet[models.Trace]:
    traces = models.Trace.objects.filter(
        app=app, started_at__gt=now - REPLAYED, started_at__lte=now, analyzed_at__isnull=False
    )
    columns = ("started_at", "end_to_end_ns", "analyzed_at", "breached", "unjudged")
    return traces.order_by("-started_at").only(*columns)[:REPLAYED_REQUESTS]


def _would_have(
    budget: models.Budget, rows: Sequence[models.Trace], rule: Rule, now: datetime
) -> WouldHave:
    judged = sorted(
        JudgedRequest(_ended_ns(row), budget.metric in (row.breached or ()))
        for row in rows
        if budget.metric not in (row.unjudged or ())
        and row.analyzed_at is not None
        and row.analyzed_at >= budget.updated_at
    )
    alerts = replay(judged, objective=float(budget.objective), rule=rule, until_ns=_unix_ns(now))
    return WouldHave(budget, len(judged), sum(r.is_over for r in judged), alerts)


def _ended_ns(trace: models.Trace) -> int:
    assert trace.started_at is not None
    return _unix_ns(trace.started_at) + (trace.end_to_end_ns or 0)


def _unix_ns(moment: datetime) -> int:
    """To the millisecond: a replay counts minutes."""
    return round(moment.timestamp() * 1_000) * 1_000_000
