"""Figures over a window, put together from rollups: about thirty stretches, whatever its length."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import QuerySet

from tracebudget import models
from tracebudget.models import Level
from tracebudget.series import REQUEST, STORED, Series, Stored

MAX_STRETCHES = 40  # of a window: bars wide enough to point at, and few rows to read
SHARES = (0.5, 0.95, 0.99)
NOTHING = Series()


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of `count` values, out of `total` that should have one."""

    p50: int | None
    p95: int | None
    p99: int | None
    count: int
    total: int


def percentiles(series: Series) -> Percentiles:
    p50, p95, p99 = series.sketch.quantiles(SHARES) or (None, None, None)
    return Percentiles(p50, p95, p99, series.count, series.total)


@dataclass(slots=True)
class Figures:
    """An app's series over a window, by metric and name; and its requests by stretch."""

    series: dict[str, dict[str, Series]] = field(default_factory=lambda: defaultdict(dict))
    trend: dict[datetime, Series] = field(default_factory=dict)

    def named(self, metric: str) -> Mapping[str, Series]:
        """All series of a metric, by name."""
        return self.series.get(metric, {})

    def one(self, metric: str, name: str = "") -> Series:
        return self.named(metric).get(name, NOTHING)

    def all_of(self, metric: str) -> Series:
        """The sum over all names."""
        total = Series()
        for series in self.named(metric).values():
            total.merge(series.stored())
        return total

    @property
    def requests(self) -> Series:
        return self.one(REQUEST)


def level_for(length: timedelta) -> Level:
    """The finest level that has few stretches in a window so long."""
    fits = (level for level in Level if length / timedelta(minutes=level) <= MAX_STRETCHES)
    return next(fits, Level.DAY)


def read(rows: QuerySet[models.Rollup]) -> dict[int, Figures]:
    """Figures by the ids of their apps; releases are added up. One query."""
    apps: defaultdict[int, Figures] = defaultdict(Figures)
    columns = rows.order_by().values_list("app_id", "start", "metric", "name", *STORED)
    for app, start, metric, name, *series in columns.iterator():
        figures, stored = apps[app], Stored(*series)
        figures.series[metric].setdefault(name, Series()).merge(stored)
        if metric == REQUEST:
            figures.trend.setdefault(start, Series()).merge(stored)
    return apps
