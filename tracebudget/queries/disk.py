"""How much of the disk is used, how fast it fills, and when it is full."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from django.conf import settings
from django.db import connection

from tracebudget import partition

DAYS_AVERAGED = 7  # a whole week: weekends are quiet
HORIZON_DAYS = 365  # a forecast beyond that says nothing


@dataclass(frozen=True, slots=True)
class Forecast:
    """Bytes, and days until the disk is full.

    `bytes_a_day` is None before the first whole day. `free_bytes` is None for a database elsewhere,
    whose disk we cannot see. `days_until_full` is None where either is unknown, and where retention
    frees as much as arrives.
    """

    database_bytes: int
    bytes_a_day: int | None
    free_bytes: int | None
    days_until_full: int | None


def disk_forecast(*, now: datetime) -> Forecast:
    """From the sizes of the days' tables. Two queries."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        (database_bytes,) = cursor.fetchone()
    sizes = _whole_sizes(database_bytes)
    free_bytes = shutil.disk_usage(settings.DATA_DIR).free if settings.EMBEDDED_DATABASE else None
    bytes_a_day = _bytes_a_day(sizes, now.date())
    days = None
    if free_bytes is not None and bytes_a_day is not None:
        days = days_until_full(sizes, bytes_a_day, free_bytes, today=now.date())
    return Forecast(database_bytes, bytes_a_day, free_bytes, days)


def _whole_sizes(database_bytes: int) -> dict[date, int]:
    """Of each day its tables and its share of those that no day has to itself."""
    sizes = partition.sizes()
    in_days = sum(sizes.values())
    return {day: size * database_bytes // in_days for day, size in sizes.items()}


def _bytes_a_day(sizes: Mapping[date, int], today: date) -> int | None:
    """Today is not over yet, and counts for nothing."""
    whole = [size for day, size in sizes.items() if day < today][-DAYS_AVERAGED:]
    return sum(whole) // len(whole) if whole else None


def days_until_full(
    sizes: Mapping[date, int], bytes_a_day: int, free_bytes: int, *, today: date
) -> int | None:
    """Each day adds `bytes_a_day` and frees what retention drops that day."""
    for days in range(1, HORIZON_DAYS + 1):
        freed = 0
        if settings.RETENTION_DAYS:
            expired = today + timedelta(days=days - settings.RETENTION_DAYS - 1)
            freed = sizes.get(expired, 0) if expired < today else bytes_a_day
        free_bytes += freed - bytes_a_day
        if free_bytes < 0:
            return days
    return None
