"""Figures over many requests: an app's, or those of every app of a project, read from rollups.

A figure comes with what it rests on: `Percentiles.count` values of the `total` that should have
one. Neither the number of queries nor what they read grows with the requests.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, Max, Min, OuterRef, Q, QuerySet, Subquery

from tracebudget import answers, models, partition
from tracebudget.core.diagnosis import Diagnosis
from tracebudget.models import Level
from tracebudget.queries.found import (
    NONE_ANSWERED,
    Answered,
    FindingRow,
    Found,
    TriageRow,
    found_in,
    triage,
)
from tracebudget.queries.rollups import (
    NOTHING,
    Figures,
    Percentiles,
    level_for,
    percentiles,
    read,
)
from tracebudget.queries.traces import WINDOWS, Window
from tracebudget.series import (
    CODE,
    FINDING,
    METRIC_COLUMNS,
    MODEL_CALL,
    MODEL_TPOT,
    MODEL_TTFT,
    REQUEST,
    SUMS,
    TOOL_CALL,
    TURN,
    TURN_CALL,
    TURN_INPUT,
    TURN_TTFT,
    Series,
    start_of,
)

MAX_TABLE = 50  # tools or models of an app, those that took the most time

# A request's own time: waiting for a person is outside every budget.
ACTIVE = F("end_to_end_ns") - F("wait_ns")

Sums = dict[str, int]


@dataclass(frozen=True, slots=True)
class Standing:
    """How a budget stands over a window: requests judged, requests over, and the figure itself."""

    budget: models.Budget
    judged: int
    over: int
    values: Percentiles | None

    @property
    def share_within(self) -> float | None:
        return None if not self.judged else 1 - self.over / self.judged

    @property
    def state(self) -> str:
        """`within` or `over` the objective; `unknown` where nothing was judged."""
        if self.share_within is None:
            return "unknown"
        return "within" if self.share_within * 100 >= float(self.budget.objective) else "over"


@dataclass(frozen=True, slots=True)
class AppRow:
    """An app in a window: one row of the first page."""

    app: models.App
    requests: int
    errors: int
    active: Percentiles
    sums: Sums
    ttft: Percentiles
    standings: list[Standing]
    worst: FindingRow | None
    last_started_at: datetime | None

    @property
    def state(self) -> str:
        """`over` if any objective is missed, `none` without budgets, `idle` without requests."""
        if not self.requests:
            return "idle"
        states = {standing.state for standing in self.standings}
        for state in ("over", "unknown", "within"):
            if state in states:
                return state
        return "none"


# Retention keeps evidence and pins beyond their day: figures of those alone would be nothing but
# breaches.
OF_THEIR_DAY = Q(day__gt=partition.KEPT)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which requests figures rest on: a project's or one app's, in a window, in an environment."""

    project: models.Project
    window: Window
    environment: str = ""
    app: models.App | None = None

    def traces(self) -> QuerySet[models.Trace]:
        mine = Q(project=self.project, analyzed_at__isnull=False) & OF_THEIR_DAY
        mine &= self.window.where()
        if self.app is not None:
            mine &= Q(app=self.app)
        if self.environment:
            mine &= Q(environment=self.environment)
        return models.Trace.objects.filter(mine)

    def rows(self, model: type[models.DayPartitioned]) -> QuerySet[Any]:
        """Narrow rows of model calls, tool calls or findings."""
        mine = Q(trace__project=self.project) & OF_THEIR_DAY & self.window.rows()
        if self.app is not None:
            mine &= Q(app=self.app)
        if self.environment:
            mine &= Q(trace__environment=self.environment)
        return model._default_manager.filter(mine)

    def rollups(self, level: Level) -> QuerySet[models.Rollup]:
        """Stretches from that in which the window begins."""
        rows = models.Rollup.objects.filter(app__project=self.project, level=level)
        if self.window.since is not None:
            rows = rows.filter(start__gte=start_of(self.window.since, level))
        if self.app is not None:
            rows = rows.filter(app=self.app)
        return rows.filter(environment=self.environment) if self.environment else rows


def app_rows(scope: Scope) -> list[AppRow]:
    """Every app of the project, those that miss an objective first. Four queries."""
    length, _words = WINDOWS[scope.window.name]
    level = Level.DAY if length is None else level_for(length)
    metrics = (REQUEST, MODEL_TTFT, CODE, FINDING)
    figures = read(scope.rollups(level).filter(metric__in=metrics))
    latest = models.Trace.objects.filter(app=OuterRef("pk"), started_at__isnull=False)
    last = Subquery(latest.order_by("-started_at").values("started_at")[:1])
    apps = models.App.objects.filter(project=scope.project).annotate(last_started_at=last)
    answered = answered_by_app(apps)
    rows = [
        _app_row(app, figures.get(app.pk, NO_FIGURES), answered.get(app.pk, NONE_ANSWERED))
        for app in apps.prefetch_related("budgets")
    ]
    return sorted(rows, key=lambda row: (_STATE_ORDER[row.state], row.app.name))


_STATE_ORDER = {"over": 0, "unknown": 1, "within": 2, "none": 3, "idle": 4}
NO_FIGURES = Figures()


def answered_by_app(apps: Iterable[models.App]) -> dict[int, Answered]:
    """The code and subject of findings that a team has answered, by app. One query."""
    found: defaultdict[int, set[tuple[str, str]]] = defaultdict(set)
    for app, code, subject in answers.standing(apps):
        found[app].add((code, subject))
    return {app: frozenset(keys) for app, keys in found.items()}


def _app_row(app: Any, figures: Figures, answered: Answered) -> AppRow:
    costly = [row for row in found_in(figures, answered).open if row.lost_ns]
    return AppRow(
        app=app,
        requests=figures.requests.total,
        errors=figures.requests.also["errors"],
        active=percentiles(figures.requests),
        sums=_sums(figures.requests),
        ttft=percentiles(figures.all_of(MODEL_TTFT)),
        standings=_standings(app, figures),
        worst=costly[0] if costly else None,
        last_started_at=app.last_started_at,
    )


def _sums(requests: Series) -> Sums:
    return {name: requests.also[name] for name in SUMS}


# --- budgets over a window -----------------------------------------------------------------------


def _standings(app: models.App, figures: Figures) -> list[Standing]:
    """How each budget stands. One query where the app came without its budgets."""
    return [
        Standing(
            budget,
            figures.requests.total - figures.requests.also[f"unjudged {budget.metric}"],
            figures.requests.also[f"over {budget.metric}"],
            percentiles(figures.one(budget.metric)) if budget.metric in METRIC_COLUMNS else None,
        )
        for budget in sorted(app.budgets.all(), key=metric_order)
    ]


def metric_order(budget: models.Budget) -> tuple[int, str]:
    """The order of the contract's table, single tools last."""
    metrics = list(METRIC_COLUMNS)
    known = budget.metric in METRIC_COLUMNS
    return (metrics.index(budget.metric) if known else len(metrics), budget.metric)


# --- one app -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bucket:
    """One stretch of a trend."""

    start: datetime
    requests: int
    active: Percentiles
    sums: Sums


@dataclass(frozen=True, slots=True)
class TurnRow:
    """One turn index over all requests: the top run's turn, and the model calls of any run."""

    turn: int
    time: Percentiles
    ttft: Percentiles
    call: Percentiles
    input_tokens: Percentiles


@dataclass(frozen=True, slots=True)
class ToolRow:
    name: str
    calls: int
    duration: Percentiles
    errors: int
    timeouts: int
    retries: int
    critical_ns: int


@dataclass(frozen=True, slots=True)
class ModelRow:
    name: str
    calls: int
    duration: Percentiles
    ttft: Percentiles
    tpot: Percentiles
    errors: int
    output_tokens: int | None
    critical_ns: int


@dataclass(frozen=True, slots=True)
class AppReport:
    """Where an app's time goes, and what was found. `diagnosis`: None before the worker's
    first look, and before its next one where another version kept it.
    """

    requests: int
    errors: int
    sums: Sums
    standings: list[Standing]
    trend: list[Bucket]
    turns: list[TurnRow]
    tools: list[ToolRow]
    models: list[ModelRow]
    found: Found
    triage: list[TriageRow]
    diagnosis: Diagnosis | None

    @property
    def mean_sums(self) -> Sums:
        """Of one request."""
        return {name: ns // max(1, self.requests) for name, ns in self.sums.items()}


def app_report(scope: Scope, *, now: datetime) -> AppReport:
    """One app over a window. Five queries, six over all time."""
    assert scope.app is not None
    since, until = _bounds(scope, now)
    level = level_for(until - since)
    figures = read(scope.rollups(level)).get(scope.app.pk, NO_FIGURES)
    answered = answered_by_app([scope.app]).get(scope.app.pk, NONE_ANSWERED)
    diagnosis = _diagnosis_of(scope.app)
    found = found_in(figures, answered, diagnosis)
    return AppReport(
        requests=figures.requests.total,
        errors=figures.requests.also["errors"],
        sums=_sums(figures.requests),
        standings=_standings(scope.app, figures),
        trend=list(_trend(figures, level, since, until)),
        turns=list(_turn_rows(figures)),
        tools=list(_tool_rows(figures)),
        models=list(_model_rows(figures)),
        found=found,
        triage=triage(figures, found),
        diagnosis=diagnosis,
    )


def _diagnosis_of(app: models.App) -> Diagnosis | None:
    learned = models.Learned.objects.filter(app=app).only("diagnosis").first()
    kept = None if learned is None else learned.diagnosis
    return None if kept is None else Diagnosis.of(kept)


def _bounds(scope: Scope, now: datetime) -> tuple[datetime, datetime]:
    """All time begins with the stretch of the first request, and ends with that of the last."""
    if scope.window.since is not None:
        return scope.window.since, now
    starts = scope.rollups(Level.TEN_MINUTES).aggregate(first=Min("start"), last=Max("start"))
    first, last = starts["first"] or now, starts["last"] or now
    return first, last + timedelta(minutes=Level.TEN_MINUTES)


def _trend(figures: Figures, level: Level, since: datetime, until: datetime) -> Iterator[Bucket]:
    """The window's stretches, those without requests too."""
    start = start_of(since, level)
    while start < until:
        requests = figures.trend.get(start, NOTHING)
        yield Bucket(start, requests.total, percentiles(requests), _sums(requests))
        start += timedelta(minutes=level)


def _turn_rows(figures: Figures) -> Iterator[TurnRow]:
    for turn in sorted(map(int, figures.named(TURN_CALL))):
        yield TurnRow(
            turn=turn,
            time=percentiles(figures.one(TURN, str(turn))),
            ttft=percentiles(figures.one(TURN_TTFT, str(turn))),
            call=percentiles(figures.one(TURN_CALL, str(turn))),
            input_tokens=percentiles(figures.one(TURN_INPUT, str(turn))),
        )


def _tool_rows(figures: Figures) -> Iterator[ToolRow]:
    for name, calls in _costliest(figures.named(TOOL_CALL)):
        yield ToolRow(
            name=name,
            calls=calls.total,
            duration=percentiles(calls),
            errors=calls.also["errors"],
            timeouts=calls.also["timeouts"],
            retries=calls.also["retries"],
            critical_ns=calls.also["critical_ns"],
        )


def _model_rows(figures: Figures) -> Iterator[ModelRow]:
    for name, calls in _costliest(figures.named(MODEL_CALL)):
        yield ModelRow(
            name=name,
            calls=calls.total,
            duration=percentiles(calls),
            ttft=percentiles(figures.one(MODEL_TTFT, name)),
            tpot=percentiles(figures.one(MODEL_TPOT, name)),
            errors=calls.also["errors"],
            output_tokens=calls.also["output_tokens"] if calls.also["output_known"] else None,
            critical_ns=calls.also["critical_ns"],
        )


def _costliest(named: Mapping[str, Series]) -> list[tuple[str, Series]]:
    """By time on the critical path."""
    calls = sorted(named.items(), key=lambda item: (-item[1].also["critical_ns"], item[0]))
    return calls[:MAX_TABLE]
