"""What fires, what fired, who was told: reads for the pages of alerts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import OuterRef, Prefetch, QuerySet, Subquery

from tracebudget import models
from tracebudget.core.alerting import JudgedRequest, Rule, Watch, replay

PAGE_SIZE = 50
DELIVERIES_SHOWN = 30

TRIES = Prefetch("log", models.DeliveryTry.objects.order_by("pk"))

REPLAYED = timedelta(days=7)
# The latest of them: more would take longer to replay than somebody waits for a page.
REPLAYED_REQUESTS = 10_000


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


def silences(project: models.Project, *, now: datetime) -> list[models.Silence]:
    """Those that last, the first to end first. One query."""
    lasting = models.Silence.objects.filter(project=project, until__gt=now)
    return list(lasting.select_related("app", "created_by").order_by("until"))


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


class _Analyzed(NamedTuple):
    """A request, as far as windows go."""

    ended_ns: int
    analyzed_at: datetime
    breached: Sequence[str]
    unjudged: Sequence[str]


def last_week(app: models.App, rule: Rule, *, now: datetime) -> list[WouldHave]:
    """Each budget's last week under a rule. Two queries."""
    budgets = models.Budget.objects.filter(app=app).order_by("metric")
    requests = sorted(_analyzed_requests(app, now=now), key=lambda request: request.ended_ns)
    return [_would_have(budget, requests, rule, now) for budget in budgets]


def _analyzed_requests(app: models.App, *, now: datetime) -> Iterator[_Analyzed]:
    traces = models.Trace.objects.filter(
        app=app, started_at__gt=now - REPLAYED, started_at__lte=now, analyzed_at__isnull=False
    ).order_by("-started_at")
    columns = ("started_at", "end_to_end_ns", "analyzed_at", "breached", "unjudged")
    for started_at, ns, analyzed_at, breached, unjudged in traces.values_list(*columns)[
        :REPLAYED_REQUESTS
    ]:
        yield _Analyzed(_unix_ns(started_at) + ns, analyzed_at, breached, unjudged or ())


def _would_have(
    budget: models.Budget, requests: Sequence[_Analyzed], rule: Rule, now: datetime
) -> WouldHave:
    metric = budget.metric
    judged = [
        JudgedRequest(request.ended_ns, metric in request.breached)
        for request in requests
        if request.analyzed_at >= budget.updated_at and metric not in request.unjudged
    ]
    alerts = replay(judged, objective=float(budget.objective), rule=rule, until_ns=_unix_ns(now))
    return WouldHave(budget, len(judged), sum(request.is_over for request in judged), alerts)


def _unix_ns(moment: datetime) -> int:
    """To the millisecond: a replay counts minutes."""
    return round(moment.timestamp() * 1_000) * 1_000_000
