"""What an app's latest requests took, for somebody who is about to promise something."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import connection
from django.db.models import Aggregate, BigIntegerField, Count, F, Q, QuerySet, Value
from django.db.models.expressions import Combinable
from django.db.models.lookups import GreaterThan

from tracebudget import models
from tracebudget.core.budget import TOOL_CALL
from tracebudget.queries.apps import ACTIVE, OF_THEIR_DAY
from tracebudget.queries.rollups import Percentiles

OBSERVED_FOR = timedelta(days=7)  # a whole week: weekends are different
OBSERVED_REQUESTS = 10_000  # the latest of them: enough for a p99, and read in a tenth of a second

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

OF_TOOLS = """
    SELECT name, count(*), percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY slowest),
        count(*) FILTER (WHERE slowest > (%(limits)s::jsonb ->> name)::bigint)
    FROM (
        SELECT name, max(duration_ns) AS slowest FROM tracebudget_toolcall
        WHERE day = ANY(%(days)s) AND trace_id = ANY(%(traces)s) AND turn IS NOT NULL
        GROUP BY trace_id, name
    ) AS slowest_calls
    GROUP BY name
"""


class PercentileArray(Aggregate):
    """p50, p95 and p99 by one sort; each a value that occurred. None where there is none."""

    function = "percentile_disc"
    template = "%(function)s(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = ArrayField(BigIntegerField())


@dataclass(frozen=True, slots=True)
class Observed:
    """One metric: its percentiles over the requests that tell it, and how many were over a limit;
    `over` is None where no limit was asked about.
    """

    values: Percentiles
    over: int | None


@dataclass(frozen=True, slots=True)
class Observations:
    """Of the latest `requests` of an app. Metrics that none of them tells are absent."""

    requests: int
    metrics: Mapping[str, Observed]

    def of(self, metric: str) -> Observed:
        """A metric that nothing tells has percentiles of nothing."""
        nothing = Percentiles(None, None, None, 0, self.requests)
        return self.metrics.get(metric, Observed(nothing, None))

    def would_miss(self, metric: str, objective: float) -> bool:
        """Whether a promise with the limit that was asked about would have been broken."""
        seen = self.of(metric)
        if seen.over is None or not seen.values.total:
            return False
        return 100 * (1 - seen.over / seen.values.total) < objective


def observe(app: models.App, limits: Mapping[str, int], *, now: datetime) -> Observations:
    """What was observed, and what `limits` would have said to it. Three queries."""
    latest = _latest(app, now)
    traces = list(latest.values_list("pk", "day")[:OBSERVED_REQUESTS])
    total = latest[:OBSERVED_REQUESTS].aggregate(**_aggregates(limits))
    metrics = {
        metric: _observed(metric, total, len(traces))
        for metric in METRIC_VALUES
        if total[f"count_{metric}"]
    }
    return Observations(len(traces), metrics | _of_tools(traces, limits))


def _latest(app: models.App, now: datetime) -> QuerySet[models.Trace]:
    recent = Q(app=app, started_at__gte=now - OBSERVED_FOR)
    return models.Trace.objects.filter(recent & OF_THEIR_DAY).order_by("-started_at")


def _aggregates(limits: Mapping[str, int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for metric, value in METRIC_VALUES.items():
        found[f"values_{metric}"] = PercentileArray(value)
        found[f"count_{metric}"] = Count(value)
        if metric in limits:
            over = GreaterThan(value, Value(limits[metric]))
            found[f"over_{metric}"] = Count("pk", filter=over)
    return found


def _observed(metric: str, total: Mapping[str, Any], requests: int) -> Observed:
    p50, p95, p99 = total[f"values_{metric}"]
    values = Percentiles(p50, p95, p99, total[f"count_{metric}"], requests)
    return Observed(values, total.get(f"over_{metric}"))


def _of_tools(traces: Sequence[tuple[int, date]], limits: Mapping[str, int]) -> dict[str, Observed]:
    """Of each tool the slowest call of each request, as budgets judge it."""
    asked = {
        metric.removeprefix(TOOL_CALL): limit
        for metric, limit in limits.items()
        if metric.startswith(TOOL_CALL)
    }
    with connection.cursor() as cursor:
        cursor.execute(
            OF_TOOLS,
            {
                "limits": json.dumps(asked),
                "traces": [pk for pk, _day in traces],
                "days": list({day for _pk, day in traces}),
            },
        )
        return {
            f"{TOOL_CALL}{name}": Observed(
                Percentiles(p50, p95, p99, known, len(traces)), over if name in asked else None
            )
            for name, known, (p50, p95, p99), over in cursor.fetchall()
        }
