"""Retention: old traces go, whole, and what somebody still needs stays.

A trace is as old as its day, on which its first span arrived. Past RETENTION_DAYS it goes with all
that hangs from it, unless it is pinned or the evidence of an alert: then it moves to the partitions
of `partition.KEPT`, for as long as that is so. First the rows of traces go, a few at a time, so
that nothing waits for them; then the tables of their day are dropped in a moment. A run that was
cut off is completed by the next one.

Alerts live longer than traces, and go with all that was told of them ALERT_RETENTION_DAYS after
they closed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta

from django.conf import settings
from django.db import OperationalError, connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models import QuerySet

from tracebudget import models, partition
from tracebudget.store.rollups import touch

ROWS_AT_ONCE = 5_000  # deleted or moved: a fraction of a second
LOCK_TIMEOUT_MS = 5_000
# One run at a time. Any number will do that nobody else takes.
ADVISORY_LOCK = 7_403_106

IS_KEPT = """
    (trace.pinned_at IS NOT NULL OR (trace.project_id, trace.trace_id) IN (
        SELECT project_id, unnest(evidence) FROM tracebudget_alert
    ))
"""
# The same once old alerts are gone.
WILL_BE_KEPT = """
    (trace.pinned_at IS NOT NULL OR (trace.project_id, trace.trace_id) IN (
        SELECT project_id, unnest(evidence) FROM tracebudget_alert
        WHERE closed_at IS NULL OR closed_at >= %(alerts_since)s
    ))
"""
# What people made of an app keeps it, whether it still runs or not.
MADE_BY_PEOPLE = (
    "budget",
    "alertrule",
    "channel",
    "gatewaysettings",
    "toolmark",
    "findinganswer",
    "baseline",
    "checklisttick",
)
IS_UNTOUCHED = " AND ".join(
    f"NOT EXISTS (SELECT FROM tracebudget_{table} WHERE app_id = app.id)"
    for table in MADE_BY_PEOPLE
)
# Nothing is sent under its name any more, and nobody has made anything of it.
IS_ABANDONED = f"""
    app.created_at < %(cutoff)s AND {IS_UNTOUCHED}
    AND NOT EXISTS (
        SELECT FROM tracebudget_trace AS trace
        WHERE trace.app_id = app.id AND (trace.day >= %(cutoff)s OR {WILL_BE_KEPT})
    )
"""


class PruneError(Exception):
    """Not now. The text says why."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a run deletes: whole days with their traces, and `bytes` of their tables on disk.

    `kept` traces move from those days to where they outlive them; `expired` ones, kept until now,
    go from there. `apps` are those that nothing is left of. `alerts` closed long ago.
    """

    days: int
    bytes: int
    traces: int
    spans: int
    kept: int
    expired: int
    apps: int
    alerts: int


@dataclass(frozen=True, slots=True)
class _Limits:
    """What is from before them is old: requests by the day of their first span, alerts by the time
    when they closed.
    """

    cutoff: date
    alerts_since: datetime


def prune(*, now: datetime, dry_run: bool = False) -> Pruned:
    """Delete what is older than the settings of retention say; or only tell, with the same numbers.

    Raises PruneError when another run, or a long reader, is in the way: what was done stays done,
    and a later run does the rest.
    """
    limits = _limits(now)
    with _alone():
        pruned = _count(limits)
        if not dry_run:
            _delete(limits)
    return pruned


def _limits(now: datetime) -> _Limits:
    """0 days mean: for ever."""
    days, alert_days = settings.RETENTION_DAYS, settings.ALERT_RETENTION_DAYS
    return _Limits(
        now.date() - timedelta(days=days) if days else date.min,
        now - timedelta(days=alert_days) if alert_days else datetime.min.replace(tzinfo=UTC),
    )


@contextmanager
def _alone() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [ADVISORY_LOCK])
        if cursor.fetchone() != (True,):
            raise PruneError("Another process is deleting old traces.")
        try:
            yield
        except OperationalError as error:
            raise PruneError(f"Somebody reads or writes old traces for long: {error}") from error
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [ADVISORY_LOCK])


def _count(limits: _Limits) -> Pruned:
    days = _old_days(limits.cutoff)
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT count(*) FILTER (WHERE day > %(kept)s AND NOT {WILL_BE_KEPT}),
                coalesce(sum(span_count) FILTER (WHERE NOT {WILL_BE_KEPT}), 0),
                count(*) FILTER (WHERE day > %(kept)s AND {WILL_BE_KEPT}),
                count(*) FILTER (WHERE day = %(kept)s AND NOT {WILL_BE_KEPT})
            FROM tracebudget_trace AS trace WHERE day < %(cutoff)s
            """,
            {"kept": partition.KEPT, **asdict(limits)},
        )
        traces, spans, kept, expired = cursor.fetchone()
    return Pruned(
        days=len(days),
        bytes=sum(days.values()),
        traces=traces,
        spans=spans,
        kept=kept,
        expired=expired,
        apps=len(_abandoned_apps(limits)),
        alerts=_old_alerts(limits).count(),
    )


def _old_days(cutoff: date) -> dict[date, int]:
    return {day: size for day, size in partition.sizes().items() if day < cutoff}


def _old_alerts(limits: _Limits) -> QuerySet[models.Alert]:
    return models.Alert.objects.filter(closed_at__lt=limits.alerts_since)


def _delete(limits: _Limits) -> None:
    _delete_alerts(limits)
    partition.create(partition.KEPT)
    for day in _old_days(limits.cutoff):
        _empty(day)
        partition.drop(day)
    _delete_expired()
    models.App.objects.filter(pk__in=_abandoned_apps(limits)).delete()


def _delete_alerts(limits: _Limits) -> None:
    """What was told of them goes with them; test messages and silences are as old by themselves."""
    _old_alerts(limits).delete()
    models.Delivery.objects.filter(event=None, created_at__lt=limits.alerts_since).delete()
    models.Silence.objects.filter(until__lt=limits.alerts_since).delete()


def _empty(day: date) -> None:
    """Move what is kept, delete the rest, until no trace of the day is left."""
    while (ends := _first_and_last(day)) is not None:
        for start in range(ends[0], ends[1] + 1, ROWS_AT_ONCE):
            _move_kept(day, start)
            _delete_traces(day, start)


def _first_and_last(day: date, where: str = "true") -> tuple[int, int] | None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT min(id), max(id) FROM tracebudget_trace AS trace WHERE day = %s AND {where}",
            [day],
        )
        first, last = cursor.fetchone()
    return None if first is None else (first, last)


@contextmanager
def _short_transaction() -> Iterator[CursorWrapper]:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [str(LOCK_TIMEOUT_MS)])
        yield cursor


def _lock(cursor: CursorWrapper, day: date, start: int, where: str) -> list[int]:
    """The ids of traces of a day in a stretch of ids, locked in the order that all writers keep."""
    cursor.execute(
        f"""
        SELECT id FROM tracebudget_trace AS trace
        WHERE day = %s AND id >= %s AND id < %s AND {where}
        ORDER BY project_id, trace_id FOR UPDATE
        """,
        [day, start, start + ROWS_AT_ONCE],
    )
    return [id_ for (id_,) in cursor.fetchall()]


def _move_kept(day: date, start: int) -> None:
    with _short_transaction() as cursor:
        kept = _lock(cursor, day, start, IS_KEPT)
        touch(cursor, kept)
        for table in partition.TABLES:
            cursor.execute(
                f"UPDATE {table} SET day = %s WHERE day = %s AND trace_id = ANY(%s)",
                [partition.KEPT, day, kept],
            )
        cursor.execute(
            "UPDATE tracebudget_trace SET day = %s WHERE id = ANY(%s)", [partition.KEPT, kept]
        )


def _delete_traces(day: date, start: int) -> None:
    """Their rows in the tables of the day go with those."""
    with _short_transaction() as cursor:
        _delete_rows(cursor, _lock(cursor, day, start, f"NOT {IS_KEPT}"))


def _delete_rows(cursor: CursorWrapper, traces: list[int]) -> None:
    touch(cursor, traces)
    cursor.execute("DELETE FROM tracebudget_due WHERE trace_id = ANY(%s)", [traces])
    cursor.execute("DELETE FROM tracebudget_trace WHERE id = ANY(%s)", [traces])


def _delete_expired() -> None:
    """What is kept no longer: few, and row by row."""
    while (ends := _first_and_last(partition.KEPT, f"NOT {IS_KEPT}")) is not None:
        with _short_transaction() as cursor:
            expired = _lock(cursor, partition.KEPT, ends[0], f"NOT {IS_KEPT}")
            for table in partition.TABLES:
                cursor.execute(
                    f"DELETE FROM {table} WHERE day = %s AND trace_id = ANY(%s)",
                    [partition.KEPT, expired],
                )
            _delete_rows(cursor, expired)


def _abandoned_apps(limits: _Limits) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT id FROM tracebudget_app AS app WHERE {IS_ABANDONED}", asdict(limits)
        )
        return [id_ for (id_,) in cursor.fetchall()]
