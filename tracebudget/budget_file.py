"""Budgets as a file: what `analyze --budgets` reads, and pages read and write.

YAML, of which JSON is a part. Either a list of budgets, which then holds for every app, or a list
an app:

    support-agent:
      - {metric: end_to_end, limit: 3 s, objective: 95}
      - {metric: ttft, limit: 300 ms}
      - {metric: turns, limit: 5}

A limit is a number in the metric's own unit (ns, or a count), or a time with its unit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import yaml

from tracebudget.core.budget import COUNTS, METRICS, TOOL_CALL, Budget

UNITS_NS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
}
TIME = re.compile(rf"\s*(\d+(?:\.\d+)?)\s*({'|'.join(UNITS_NS)})\s*")
WRITTEN_UNITS = ("s", "ms", "us", "ns")
ALL_APPS = "*"
WHOLE = 100  # percent


class BudgetFileError(ValueError):
    """The file is no list of budgets; the message says where and what to write instead."""


def read_budgets(text: str) -> dict[str, tuple[Budget, ...]]:
    """The budgets of each app, those for all apps under `ALL_APPS`. Raises BudgetFileError."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BudgetFileError(f"This is neither YAML nor JSON: {error}") from error
    if isinstance(data, list):
        return {ALL_APPS: _budgets(data, "the list")}
    if not isinstance(data, Mapping):
        raise BudgetFileError("Write a list of budgets, or a list under the name of each app.")
    return {str(app): _budgets(rows, f"app {app!r}") for app, rows in data.items()}


def _budgets(rows: Any, where: str) -> tuple[Budget, ...]:
    if not isinstance(rows, list):
        raise BudgetFileError(f"Under {where} there must be a list of budgets.")
    return tuple(_budget(row, f"budget {index} of {where}") for index, row in enumerate(rows, 1))


def _budget(row: Any, where: str) -> Budget:
    if not isinstance(row, Mapping) or "metric" not in row or "limit" not in row:
        raise BudgetFileError(f"{where} needs a `metric` and a `limit`.")
    metric = str(row["metric"])
    if metric not in METRICS and not metric.startswith(TOOL_CALL):
        known = ", ".join(METRICS)
        raise BudgetFileError(
            f"{where}: no metric {metric!r}; there are {known}, {TOOL_CALL}<name>."
        )
    objective = row.get("objective", 95)
    if not isinstance(objective, int | float) or not 0 < objective <= WHOLE:
        raise BudgetFileError(f"{where}: `objective` must be a percentage, not {objective!r}.")
    return Budget(metric, _limit(row["limit"], metric, where), float(objective))


def _limit(value: Any, metric: str, where: str) -> int:
    time = TIME.fullmatch(value) if isinstance(value, str) and metric not in COUNTS else None
    if time is not None:
        return round(Decimal(time[1]) * UNITS_NS[time[2]])
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    unit = "a whole number" if metric in COUNTS else "a time such as `300 ms`, or nanoseconds"
    raise BudgetFileError(f"{where}: `limit` must be {unit}, not {value!r}.")


def write_budgets(budgets: Mapping[str, Iterable[Budget]]) -> str:
    """The file that `read_budgets` reads as the same budgets again, those of each app."""
    data = {app: [_row(budget) for budget in its] for app, its in budgets.items()}
    return yaml.safe_dump(data, allow_unicode=True, sort_keys=False, default_flow_style=None)


def _row(budget: Budget) -> dict[str, Any]:
    limit = budget.limit if budget.metric in COUNTS else _time(budget.limit)
    whole = budget.objective == int(budget.objective)
    objective = int(budget.objective) if whole else budget.objective
    return {"metric": budget.metric, "limit": limit, "objective": objective}


def _time(ns: int) -> str:
    """In the largest unit that leaves something before the point: "4.3 s"."""
    unit = next((unit for unit in WRITTEN_UNITS if ns >= UNITS_NS[unit]), "ns")
    return f"{(Decimal(ns) / UNITS_NS[unit]).normalize():f} {unit}"
