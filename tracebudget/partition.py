"""Day partitions: one set of tables per UTC day, made ahead of need and dropped whole.

A partition is built as a table of its own and then attached: readers and writers of the parent go
on, where `CREATE TABLE ... PARTITION OF` would wait for every one of them, a backup included, and
make ingest queue behind itself. There is no DEFAULT partition: rows in it would block the day that
they belong to.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from tracebudget import models

PARTITIONED: tuple[type[models.DayPartitioned], ...] = (
    models.SpanBatch,
    models.Analysis,
    models.ModelCall,
    models.ToolCall,
    models.Breach,
    models.Finding,
)
TABLES = tuple(model._meta.db_table for model in PARTITIONED)

# The day of traces that outlive their own: retention moves them there. No clock will reach it.
KEPT = date(1970, 1, 1)

DAYS_AHEAD = 7  # a week in which nobody looks at the worker, and ingest still finds its tables

# Only one process at a time makes or drops partitions. Any number will do that nobody else takes.
ADVISORY_LOCK = 7_403_105


def create_ahead(now: datetime) -> None:
    """Make the partitions of today and of the next `DAYS_AHEAD` days."""
    for ahead in range(DAYS_AHEAD + 1):
        create(now.date() + timedelta(days=ahead))


def create(day: date) -> None:
    """Make the partitions of one day. Those that are there already stay as they are."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [ADVISORY_LOCK])
        for table in TABLES:
            if not _exists(cursor, partition_name(table, day)):
                _create_one(cursor, table, day)


def exists(day: date) -> bool:
    """Whether rows of that day can be written."""
    with connection.cursor() as cursor:
        return _exists(cursor, partition_name(TABLES[-1], day))


def sizes() -> dict[date, int]:
    """The days that have partitions, oldest first, with their bytes on disk. Without KEPT."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT to_date(right(inhrelid::regclass::text, 8), 'YYYYMMDD') AS day,
                sum(pg_total_relation_size(inhrelid))
            FROM pg_inherits WHERE inhparent = ANY(%s::regclass[]) GROUP BY day ORDER BY day
            """,
            [list(TABLES)],
        )
        return {day: int(size) for day, size in cursor.fetchall() if day != KEPT}


def drop(day: date, *, lock_timeout_ms: int = 500) -> None:
    """Drop the tables of one day. The traces that they belong to must be gone or moved.

    Needs the parents for a moment. Gives up (OperationalError) rather than make ingest queue behind
    a long reader; the caller tries again later.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [str(lock_timeout_ms)])
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [ADVISORY_LOCK])
        for table in TABLES:
            cursor.execute(f"DROP TABLE IF EXISTS {partition_name(table, day)}")


def partition_name(table: str, day: date) -> str:
    return f"{table}_{day:%Y%m%d}"


def _exists(cursor: CursorWrapper, name: str) -> bool:
    cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [name])
    (found,) = cursor.fetchone()
    return bool(found)


def _create_one(cursor: CursorWrapper, table: str, day: date) -> None:
    name = partition_name(table, day)
    cursor.execute(f"CREATE TABLE {name} (LIKE {table} INCLUDING ALL)")
    cursor.execute(
        f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM (%s) TO (%s)",
        [day, day + timedelta(days=1)],
    )
