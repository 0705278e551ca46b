"""Figures over many requests: an app's, or those of every app of a project.

A figure comes with what it rests on: `Percentiles.count` values of the `total` that should have
one. The number of queries is fixed, whatever the number of apps and requests.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.contrib.postgres.fields import ArrayField
from django.db.models import (
    Aggregate,
    BigIntegerField,
    Count,
    DateTimeField,
    F,
    Func,
    Max,
    Min,
    Q,
    QuerySet,
    Sum,
    TextField,
    Value,
)
from django.db.models.expressions import Combinable

from tracebudget import answers, models, partition
from tracebudget.core.ttft import TtftSource
from tracebudget.queries.traces import Window

MAX_TABLE = 50  # tools or models of an app, those that took the most time
MAX_TURNS = 12  # rows of the table by turn index
BUCKETS = 24  # bars of a trend: an hour each in a day, and wide enough to point at
OBSERVED = (TtftSource.MEASURED.value, TtftSource.REPORTED.value)


class PercentileArray(Aggregate):
    """p50, p95 and p99 by one sort; each a value that occurred. None where there is none."""

    function = "percentile_disc"
    template = "%(function)s(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = ArrayField(BigIntegerField())

    def __init__(self, expression: str | Combinable, **extra: Any) -> None:
        super().__init__(expression, **extra)


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of `count` values, out of `total` that should have one."""

    p50: int | None
    p95: int | None
    p99: int | None
    count: int
    total: int


def _percentiles(values: Sequence[int | None] | None, known: int, total: int) -> Percentiles:
    p50, p95, p99 = values or (None, None, None)
    return Percentiles(p50, p95, p99, known, total)


# A request's own time: waiting for a person is outside every budget.
ACTIVE = F("end_to_end_ns") - F("wait_ns")

SUMS = (
    "prefill_ns",
    "decode_ns",
    "tool_ns",
    "framework_ns",
    "wait_ns",
    "unsplit_ns",
    "unattributed_ns",
)
Sums = dict[str, int]

# Calls that promises are about: foreground, and answered.
JUDGED = Q(is_error=False, turn__isnull=False)
TTFT_KNOWN = Q(ttft_source__in=OBSERVED, ttft_ns__isnull=False)


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
class WorstFinding:
    """The finding that cost an app the most time in a window."""

    code: str
    requests: int
    saving_ns: int


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
    worst: WorstFinding | None
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


# Requests that outlived their retention were kept for what was wrong with them: no sample at all.
SAMPLE = Q(day__gt=partition.KEPT)


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


class _Figures(NamedTuple):
    """What is known of the apps, each by its id."""

    totals: Mapping[int, Mapping[str, Any]]
    ttfts: Mapping[int, Percentiles]
    standings: Mapping[int, list[Standing]]
    worst: Mapping[int, WorstFinding]
    lasts: Mapping[int, datetime]


def app_rows(scope: Scope) -> list[AppRow]:
    """Every app of the project, those that miss an objective first. Ten queries."""
    totals = _by_app(scope.traces(), _totals())
    figures = _Figures(
        totals=totals,
        ttfts=_ttft_by_app(scope),
        standings=_standings_by_app(scope, totals),
        worst=_worst_by_app(scope),
        lasts=_last_by_app(scope.project),
    )
    apps = models.App.objects.filter(project=scope.project)
    rows = [_app_row(app, figures) for app in apps]
    return sorted(rows, key=lambda row: (_STATE_ORDER[row.state], row.app.name))


_STATE_ORDER = {"over": 0, "unknown": 1, "within": 2, "none": 3, "idle": 4}


def _app_row(app: models.App, figures: _Figures) -> AppRow:
    total = figures.totals.get(app.pk)
    requests = total["requests"] if total else 0
    return AppRow(
        app=app,
        requests=requests,
        errors=total["errors"] if total else 0,
        active=_percentiles(total["active"] if total else None, requests, requests),
        sums=_sums(total),
        ttft=figures.ttfts.get(app.pk, _percentiles(None, 0, 0)),
        standings=figures.standings.get(app.pk, []),
        worst=figures.worst.get(app.pk),
        last_started_at=figures.lasts.get(app.pk),
    )


def _last_by_app(project: models.Project) -> dict[int, datetime]:
    traces = models.Trace.objects.filter(project=project, app__isnull=False).order_by()
    return dict(traces.values_list("app").annotate(Max("started_at")))


def _totals() -> dict[str, Aggregate]:
    return {
        "requests": Count("pk"),
        "errors": Count("pk", filter=Q(has_error=True)),
        "active": PercentileArray(ACTIVE),
        **{f"sum_{name}": Sum(name) for name in SUMS},
    }


def _sums(row: Mapping[str, Any] | None) -> Sums:
    return {name: (row[f"sum_{name}"] or 0) if row else 0 for name in SUMS}


def _by_app(rows: QuerySet[Any], aggregates: Mapping[str, Aggregate]) -> dict[int, dict[str, Any]]:
    return {row["app"]: row for row in rows.order_by().values("app").annotate(**aggregates)}


def _ttft_aggregates() -> dict[str, Aggregate]:
    return {
        "calls": Count("position", filter=JUDGED),
        "known": Count("position", filter=JUDGED & TTFT_KNOWN),
        "ttft": PercentileArray("ttft_ns", filter=JUDGED & TTFT_KNOWN),
    }


def _ttft_by_app(scope: Scope) -> dict[int, Percentiles]:
    rows = _by_app(scope.rows(models.ModelCall), _ttft_aggregates())
    return {app: _percentiles(row["ttft"], row["known"], row["calls"]) for app, row in rows.items()}


def open_findings(scope: Scope) -> QuerySet[Any]:
    """Rows of findings that nobody has answered. One query for the answers."""
    mine = models.App.objects.filter(project=scope.project)
    apps = mine if scope.app is None else [scope.app]
    return scope.rows(models.Finding).exclude(answers.answered(answers.standing(apps)))


def _worst_by_app(scope: Scope) -> dict[int, WorstFinding]:
    costly = open_findings(scope).filter(kind="performance", saving_ns__gt=0).order_by()
    rows = costly.values("app", "code").annotate(
        requests=Count("trace", distinct=True), saving=Sum("saving_ns")
    )
    return {
        row["app"]: WorstFinding(row["code"], row["requests"], row["saving"])
        for row in sorted(rows, key=lambda row: row["saving"])
    }


# --- budgets over a window -----------------------------------------------------------------------

# What a request's value of each metric is kept as. Tools have a table of their own.
METRIC_VALUES: dict[str, Combinable] = {
    "end_to_end": ACTIVE,
    "turn": F("longest_turn_ns"),
    "ttft": F("worst_ttft_ns"),
    "first_visible": F("worst_first_visible_ns"),
    "tpot": F("worst_tpot_ns"),
    "tool": F("tool_ns"),
    "framework": F("overhead_ns"),
    "turns": F("run_turn_count"),
    "input_tokens": F("largest_input_tokens"),
}

Counts = dict[tuple[int, str], int]  # by app and metric


def _standings_by_app(
    scope: Scope, totals: Mapping[int, Mapping[str, Any]]
) -> dict[int, list[Standing]]:
    """Three queries: the budgets, how often each was broken, and how often it could not be told."""
    over, unjudged = _metric_counts(scope, "breached"), _metric_counts(scope, "unjudged")
    budgets = models.Budget.objects.filter(app__project=scope.project)
    standings: defaultdict[int, list[Standing]] = defaultdict(list)
    for budget in sorted(budgets, key=metric_order):
        key = (budget.app_id, budget.metric)
        requests = totals[budget.app_id]["requests"] if budget.app_id in totals else 0
        standing = Standing(budget, requests - unjudged.get(key, 0), over.get(key, 0), None)
        standings[budget.app_id].append(standing)
    return standings


def _metric_counts(scope: Scope, column: str) -> Counts:
    """In how many requests each metric stands in a list of metrics. One query."""
    metric = Func(F(column), function="unnest", output_field=TextField())
    rows = scope.traces().order_by().annotate(metric=metric).values("app", "metric")
    return {(r["app"], r["metric"]): r["requests"] for r in rows.annotate(requests=Count("pk"))}


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
class FindingRow:
    """One code over a window: in how many requests, and what it cost together."""

    code: str
    kind: str
    requests: int
    saving_ns: int | None

    @property
    def mean_ns(self) -> int | None:
        return None if self.saving_ns is None else self.saving_ns // self.requests


@dataclass(frozen=True, slots=True)
class AppReport:
    """Where an app's time goes."""

    requests: int
    errors: int
    sums: Sums
    standings: list[Standing]
    trend: list[Bucket]
    turns: list[TurnRow]
    tools: list[ToolRow]
    models: list[ModelRow]
    findings: list[FindingRow]

    @property
    def mean_sums(self) -> Sums:
        """Of one request."""
        return {name: ns // max(1, self.requests) for name, ns in self.sums.items()}


def app_report(scope: Scope, *, now: datetime) -> AppReport:
    """One app over a window. Eleven queries."""
    total = scope.traces().order_by().aggregate(**_totals(), **_metric_percentiles())
    return AppReport(
        requests=total["requests"],
        errors=total["errors"],
        sums=_sums(total),
        standings=_standings(scope, total),
        trend=_trend(scope, now=now),
        turns=_turn_rows(scope),
        tools=_tool_rows(scope),
        models=_model_rows(scope),
        findings=_finding_rows(scope),
    )


def _metric_percentiles() -> dict[str, Aggregate]:
    return {f"values_{name}": PercentileArray(value) for name, value in METRIC_VALUES.items()} | {
        f"count_{name}": Count(value) for name, value in METRIC_VALUES.items()
    }


def _standings(scope: Scope, total: Mapping[str, Any]) -> list[Standing]:
    over, unjudged = _metric_counts(scope, "breached"), _metric_counts(scope, "unjudged")
    return [
        Standing(
            budget,
            total["requests"] - unjudged.get((budget.app_id, budget.metric), 0),
            over.get((budget.app_id, budget.metric), 0),
            _metric_values(budget.metric, total),
        )
        for budget in sorted(models.Budget.objects.filter(app=scope.app), key=metric_order)
    ]


def metric_order(budget: models.Budget) -> tuple[int, str]:
    """The order of the contract's table, single tools last."""
    metrics = list(METRIC_VALUES)
    known = budget.metric in METRIC_VALUES
    return (metrics.index(budget.metric) if known else len(metrics), budget.metric)


def _metric_values(metric: str, total: Mapping[str, Any]) -> Percentiles | None:
    if metric not in METRIC_VALUES:
        return None
    return _percentiles(total[f"values_{metric}"], total[f"count_{metric}"], total["requests"])


def _trend(scope: Scope, *, now: datetime) -> list[Bucket]:
    """The window in equal stretches, those without requests too. Two queries."""
    since, until = _bounds(scope, now)
    width = max((until - since) / BUCKETS, timedelta(seconds=1))
    bin_ = Func(
        Value(width), F("started_at"), Value(since), function="date_bin",
        output_field=DateTimeField(),
    )  # fmt: skip
    rows = scope.traces().order_by().annotate(bin=bin_).values("bin").annotate(**_totals())
    found = {row["bin"]: row for row in rows}
    starts = [since + width * index for index in range(BUCKETS)]
    return [_bucket(start, found.get(start)) for start in starts]


def _bounds(scope: Scope, now: datetime) -> tuple[datetime, datetime]:
    """All time begins with the first request, and ends with the last one."""
    ends = scope.traces().aggregate(first=Min("started_at"), last=Max("started_at"))
    if scope.window.since is not None:
        return scope.window.since, now
    first = ends["first"] or now
    return first, (ends["last"] or now) + timedelta(seconds=1)


def _bucket(start: datetime, row: Mapping[str, Any] | None) -> Bucket:
    requests = row["requests"] if row else 0
    return Bucket(
        start,
        requests,
        _percentiles(row["active"] if row else None, requests, requests),
        _sums(row),
    )


def _turn_rows(scope: Scope) -> list[TurnRow]:
    """Two queries: turns from the summaries, calls from their rows."""
    calls = scope.rows(models.ModelCall).filter(JUDGED, turn__lt=MAX_TURNS).order_by()
    rows = calls.values("turn").annotate(
        **_ttft_aggregates(),
        durations=PercentileArray("duration_ns"),
        inputs=PercentileArray("input_tokens"),
        inputs_known=Count("input_tokens"),
    )
    times = _turn_times(scope)
    return [
        TurnRow(
            turn=row["turn"],
            time=times[row["turn"]],
            ttft=_percentiles(row["ttft"], row["known"], row["calls"]),
            call=_percentiles(row["durations"], row["calls"], row["calls"]),
            input_tokens=_percentiles(row["inputs"], row["inputs_known"], row["calls"]),
        )
        for row in sorted(rows, key=lambda row: row["turn"])
    ]


def _turn_times(scope: Scope) -> list[Percentiles]:
    columns = [F(f"turn_ns__{index}") for index in range(MAX_TURNS)]
    row = scope.traces().aggregate(
        **{f"times_{index}": PercentileArray(column) for index, column in enumerate(columns)},
        **{f"count_{index}": Count(column) for index, column in enumerate(columns)},
    )
    counts = [row[f"count_{index}"] for index in range(MAX_TURNS)]
    return [_percentiles(row[f"times_{i}"], counts[i], counts[i]) for i in range(MAX_TURNS)]


def _tool_rows(scope: Scope) -> list[ToolRow]:
    rows = (
        scope.rows(models.ToolCall)
        .order_by()
        .values("name")
        .annotate(
            calls=Count("position"),
            durations=PercentileArray("duration_ns"),
            errors=Count("position", filter=Q(is_error=True)),
            timeouts=Count("position", filter=Q(is_timeout=True)),
            retries=Count("position", filter=Q(attempt__gt=0)),
            critical=Sum("critical_ns"),
        )
    )
    return [
        ToolRow(
            name=row["name"],
            calls=row["calls"],
            duration=_percentiles(row["durations"], row["calls"], row["calls"]),
            errors=row["errors"],
            timeouts=row["timeouts"],
            retries=row["retries"],
            critical_ns=row["critical"],
        )
        for row in rows.order_by("-critical", "name")[:MAX_TABLE]
    ]


def _model_rows(scope: Scope) -> list[ModelRow]:
    known_tpot = JUDGED & Q(tpot_ns__isnull=False)
    rows = (
        scope.rows(models.ModelCall)
        .order_by()
        .values("model")
        .annotate(
            **_ttft_aggregates(),
            all_calls=Count("position"),
            durations=PercentileArray("duration_ns"),
            tpots=PercentileArray("tpot_ns", filter=known_tpot),
            tpots_known=Count("position", filter=known_tpot),
            errors=Count("position", filter=Q(is_error=True)),
            output=Sum("output_tokens"),
            critical=Sum("critical_ns"),
        )
    )
    return [
        ModelRow(
            name=row["model"] or "",
            calls=row["all_calls"],
            duration=_percentiles(row["durations"], row["all_calls"], row["all_calls"]),
            ttft=_percentiles(row["ttft"], row["known"], row["calls"]),
            tpot=_percentiles(row["tpots"], row["tpots_known"], row["calls"]),
            errors=row["errors"],
            output_tokens=row["output"],
            critical_ns=row["critical"],
        )
        for row in rows.order_by("-critical", "model")[:MAX_TABLE]
    ]


def _finding_rows(scope: Scope) -> list[FindingRow]:
    """By time lost, without answered ones. Data quality comes last: it loses trust, not time."""
    rows = (
        open_findings(scope)
        .order_by()
        .values("code", "kind")
        .annotate(requests=Count("trace", distinct=True), saving=Sum("saving_ns"))
    )
    found = [FindingRow(row["code"], row["kind"], row["requests"], row["saving"]) for row in rows]
    return sorted(
        found, key=lambda row: (row.kind != "performance", -(row.saving_ns or 0), -row.requests)
    )
