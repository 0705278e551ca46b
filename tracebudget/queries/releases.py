"""Releases of an app: which there are, what the latest requests of one were like, and the baselines
that were frozen.

A release is known by `service.version`. Figures rest on its whole requests: one that still runs, or
whose spans got lost, has no end-to-end to compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from django.db.models import Count, F, Max, Min, Q, QuerySet, Sum
from django.db.models.expressions import RawSQL

from tracebudget import answers, models
from tracebudget.core.baseline import Figures, Found, spread
from tracebudget.core.gate import Kept
from tracebudget.document import loads
from tracebudget.packing import decompress
from tracebudget.queries import samples
from tracebudget.queries.apps import OF_THEIR_DAY
from tracebudget.queries.traces import Document
from tracebudget.series import METRIC_COLUMNS

SAMPLE = 10_000  # requests of a release: as many tell its p95 to half a percent of their ranks
LATEST = 20_000  # requests of an app, in which its releases are looked for
LISTED = 100  # releases, and baselines; where each build has one, older ones are asked for by name
COMPLETE = "complete"
COLUMNS = (
    *("pk", "day", "state", "started_at", "analyzed_at", "has_error", "span_count"),
    *("breached", "unjudged"),
    *METRIC_COLUMNS.values(),
)


@dataclass(frozen=True, slots=True)
class Release:
    """A version of an app, in an environment or ("") in all of them."""

    app: models.App
    version: str
    environment: str = ""

    def traces(self) -> QuerySet[models.Trace]:
        """The latest first."""
        return _analyzed(self.app, self.environment).filter(version=self.version)


def _analyzed(app: models.App, environment: str) -> QuerySet[models.Trace]:
    """An app's requests, without those that retention kept for their faults."""
    mine = Q(app=app, started_at__isnull=False, analyzed_at__isnull=False) & OF_THEIR_DAY
    if environment:
        mine &= Q(environment=environment)
    return models.Trace.objects.filter(mine).order_by("-started_at")


@dataclass(frozen=True, slots=True)
class SeenRelease:
    """A release among the latest requests."""

    version: str
    requests: int
    since: datetime
    until: datetime


def releases(app: models.App, environment: str = "") -> list[SeenRelease]:
    """The newest releases of an app, the one first that was first seen last. One query."""
    latest = _analyzed(app, environment)[:LATEST]
    rows = models.Trace.objects.filter(pk__in=latest.values("pk"), version__gt="")
    grouped = (
        rows.order_by()
        .values("version")
        .annotate(requests=Count("pk"), since=Min("started_at"), until=Max("started_at"))
    )
    return [
        SeenRelease(row["version"] or "", row["requests"], row["since"], row["until"])
        for row in grouped.order_by("-since", "-until")[:LISTED]
    ]


def named(app: models.App, version: str | None, environment: str) -> Release | None:
    """A release that was seen, or the newest; None where there is none. One query."""
    if version is None:
        seen = releases(app, environment)
        return Release(app, seen[0].version, environment) if seen else None
    release = Release(app, version, environment)
    return release if release.traces().exists() else None


@dataclass(frozen=True, slots=True)
class Sample:
    """The latest whole requests of a release. `left_out`: as late, and not whole."""

    rows: Sequence[dict[str, Any]]
    left_out: int

    @property
    def ids(self) -> RawSQL:
        """For an `IN`: one array. As ten thousand parameters it takes four times as long."""
        return RawSQL("SELECT unnest(%s::bigint[])", ([row["pk"] for row in self.rows],))

    @property
    def days(self) -> set[date]:
        return {row["day"] for row in self.rows}

    @property
    def since(self) -> datetime:
        """When the first of them started. Of none: ValueError."""
        first: datetime = min(row["started_at"] for row in self.rows)
        return first

    @property
    def until(self) -> datetime:
        last: datetime = max(row["started_at"] for row in self.rows)
        return last

    def of(self, model: type[models.DayPartitioned]) -> QuerySet[Any]:
        """The narrow rows of these requests."""
        return model._default_manager.filter(day__in=self.days, trace__in=self.ids)


def sample(release: Release, *, requests: int = SAMPLE) -> Sample:
    """One query."""
    active = release.traces().annotate(active_ns=F("end_to_end_ns") - F("wait_ns"))
    latest = list(active.values(*COLUMNS)[:requests])
    whole = [row for row in latest if row["state"] == COMPLETE]
    return Sample(whole, len(latest) - len(whole))


def figures(app: models.App, taken: Sample) -> Figures:
    """What a release is like, without findings that were answered. Two queries."""
    spreads = {
        name: spread(row[column] for row in taken.rows) for name, column in METRIC_COLUMNS.items()
    }
    return Figures(
        requests=len(taken.rows),
        errors=sum(bool(row["has_error"]) for row in taken.rows),
        metrics={name: found for name, found in spreads.items() if found is not None},
        findings=_findings(app, taken),
    )


def _findings(app: models.App, taken: Sample) -> list[Found]:
    rows = open_findings(app, taken).filter(kind="performance").order_by()
    grouped = rows.values("code", "subject").annotate(
        requests=Count("trace", distinct=True), saving_ns=Sum("saving_ns")
    )
    return [Found(**row) for row in grouped.order_by("code", "subject")]


def open_findings(app: models.App, taken: Sample) -> QuerySet[Any]:
    """Those that nobody has answered. One query for the answers."""
    return taken.of(models.Finding).exclude(answers.answered(answers.standing([app])))


def documents(taken: Sample) -> list[Document]:
    """Analysis objects of the latest requests, as many as are read whole. One query."""
    rows = samples.bounded(taken.rows[: samples.REQUESTS], spans_of=lambda row: row["span_count"])
    packed = Sample(rows, 0).of(models.Analysis).values_list("document", flat=True)
    return [loads(decompress(bytes(document))) for document in packed]


def kept(app: models.App, taken: Sample) -> list[Kept]:
    """How the budgets stand over a sample. One query."""
    budgets = models.Budget.objects.filter(app=app).order_by("metric")
    return [_kept(budget, taken) for budget in budgets]


def _kept(budget: models.Budget, taken: Sample) -> Kept:
    """Requests that were judged by the budget as it is now: a change of budgets judges again only
    the latest, and the others know nothing of it.
    """
    judged = [row for row in taken.rows if row["analyzed_at"] >= budget.updated_at]
    return Kept(
        metric=budget.metric,
        limit=budget.limit,
        objective=float(budget.objective),
        requests=len(judged),
        over=sum(budget.metric in row["breached"] for row in judged),
        unjudged=sum(budget.metric in row["unjudged"] for row in judged),
    )


def baselines(app: models.App) -> list[models.Baseline]:
    """What was frozen, the latest first: those that a list can show. One query."""
    return list(_frozen(app)[:LISTED])


def usual_baseline(release: Release) -> models.Baseline | None:
    """The one to compare a release with: the latest of another in its environment. One query."""
    others = _frozen(release.app).exclude(release=release.version)
    return others.filter(environment=release.environment).first()


def baseline_of(release: Release) -> models.Baseline | None:
    """The one that stands for a release, if it was frozen. One query."""
    own = _frozen(release.app).filter(release=release.version)
    return own.filter(environment=release.environment).first()


def _frozen(app: models.App) -> QuerySet[models.Baseline]:
    rows = models.Baseline.objects.filter(app=app).select_related("frozen_by")
    return rows.order_by("-id")


def waiting(project: models.Project) -> int:
    """Requests of a project whose analysis is still to come. One query."""
    return models.Due.objects.filter(trace__project=project).count()
