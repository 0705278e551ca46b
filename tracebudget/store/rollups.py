"""Figures over many requests, made once: rows of conclusions in, rows of rollups out.

Writers of conclusions say which stretches of time they touched. A touched stretch is added up from
its rows anew, whole, and the longer stretches around it from their parts. So a request that is
analysed twice, or goes, counts as often as it is there (docs/rollups.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import islice, pairwise
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models import F, QuerySet
from psycopg.types.json import Jsonb

from tracebudget import models, partition
from tracebudget.models import Level
from tracebudget.series import (
    EPOCH,
    LISTS,
    METRIC_COLUMNS,
    STORED,
    SUMS,
    Key,
    Release,
    Series,
    Stored,
    Tally,
    start_of,
)

# One process at a time adds up. Any number will do that nobody else takes.
ADVISORY_LOCK = 7_403_107
# To add up a request costs a tenth of that: a tenth of the time goes into a busy stretch at most.
WAIT_SECONDS_A_REQUEST = 0.001
ROWS_AT_ONCE = 2_000  # read
# In one transaction: a second's work. A stretch that has more is added up alone.
STRETCHES_AT_ONCE, REQUESTS_AT_ONCE = 20, 10_000

Clock = Callable[[], datetime]


class Stretch(NamedTuple):
    """Of an app's time, from a whole number of its level's widths."""

    app_id: int
    start: datetime


def touch(cursor: CursorWrapper, traces: Sequence[int]) -> None:
    """The figures of the stretches in which these traces lie, as they are now, have changed."""
    if not traces:
        return
    cursor.execute(
        """
        INSERT INTO tracebudget_touched (app_id, start)
        SELECT DISTINCT app_id, date_bin(make_interval(mins => %s), started_at, %s)
        FROM tracebudget_trace
        WHERE id = ANY(%s) AND app_id IS NOT NULL AND started_at IS NOT NULL
        """,
        [Level.TEN_MINUTES, EPOCH, list(traces)],
    )


def refresh_rollups(clock: Clock) -> int:
    """Add touched stretches up, those first that wait longest, until none is due or the time slice
    is used up; how many.
    """
    done, until = 0, clock() + timedelta(seconds=settings.ROLLUP_SLICE_SECONDS)
    while clock() < until and (refreshed := _refresh_some(clock)):
        done += refreshed
    return done


@contextmanager
def rollups_paused() -> Iterator[None]:
    """In one transaction: nobody adds up, so that apps can be deleted with their figures."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [ADVISORY_LOCK])
        yield


@transaction.atomic
def _refresh_some(clock: Clock) -> int:
    """What is committed while this runs touches its stretch again."""
    now = clock()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [ADVISORY_LOCK])
        stretches = _take_due(cursor, now) if cursor.fetchone()[0] else []
        _replace(cursor, Level.TEN_MINUTES, {one: _added_up(one) for one in stretches}, now)
        for part, level in pairwise(Level):
            wholes = {Stretch(app, start_of(start, level)) for app, start in stretches}
            made = {whole: _put_together(whole, level, part) for whole in sorted(wholes)}
            _replace(cursor, level, made, now)
    # The time by now: all that was added up had been committed by then.
    changed = {"changed_at": clock()}
    for app_id in {stretch.app_id for stretch in stretches}:
        models.Learned.objects.update_or_create(app_id=app_id, defaults=changed)
    return len(stretches)


def _take_due(cursor: CursorWrapper, now: datetime) -> list[Stretch]:
    """Some stretches off the queue, always one. The more requests one had when it was added up
    last, the longer it waits.
    """
    cursor.execute(
        TAKE_DUE,
        {
            "level": Level.TEN_MINUTES,
            "wait": WAIT_SECONDS_A_REQUEST,
            "now": now,
            "stretches": STRETCHES_AT_ONCE,
            "requests": REQUESTS_AT_ONCE,
        },
    )
    return [Stretch(*row) for row in cursor.fetchall()]


TAKE_DUE = """
    WITH touched AS (
        SELECT app_id, start, min(id) AS first FROM tracebudget_touched GROUP BY app_id, start
    ), due AS (
        SELECT touched.* FROM touched LEFT JOIN LATERAL (
            SELECT max(made_at) AS made_at, sum(total) AS requests FROM tracebudget_rollup
            WHERE app_id = touched.app_id AND level = %(level)s AND start = touched.start
                AND metric = 'end_to_end'
        ) AS rollup ON true
        WHERE made_at IS NULL OR made_at + requests * make_interval(secs => %(wait)s) <= %(now)s
        ORDER BY first, start LIMIT %(stretches)s
    ), sized AS (
        SELECT due.*, sum(requests) OVER (ORDER BY first, start, app_id) - requests AS before
        FROM due, LATERAL (
            SELECT count(*) AS requests FROM tracebudget_trace
            WHERE app_id = due.app_id AND started_at >= due.start
                AND started_at < due.start + make_interval(mins => %(level)s)
        ) AS trace
    ), taken AS (
        SELECT app_id, start FROM sized WHERE before < %(requests)s
    ), gone AS (
        DELETE FROM tracebudget_touched AS touched USING taken
        WHERE touched.app_id = taken.app_id AND touched.start = taken.start
    )
    SELECT app_id, start FROM taken
"""


# --- ten minutes, from rows of conclusions --------------------------------------------------------

REQUEST_COLUMNS = (
    *("id", "day", "environment", "version", "has_error", "turn_ns"),
    *dict.fromkeys((*METRIC_COLUMNS.values(), *SUMS, *LISTS)),
)
MODEL_COLUMNS = (
    "trace_id", "model", "turn", "is_error", "duration_ns", "critical_ns", "ttft_ns",
    "ttft_source", "tpot_ns", "input_tokens", "output_tokens",
)  # fmt: skip
TOOL_COLUMNS = (
    "trace_id", "name", "is_error", "is_timeout", "attempt", "duration_ns", "critical_ns",
)  # fmt: skip
FINDING_COLUMNS = ("trace_id", "code", "subject", "turn", "saving_ns")


def _added_up(stretch: Stretch) -> dict[Key, Series]:
    """Without what retention has kept beyond its day: that was kept for being slow."""
    requests = models.Trace.objects.filter(
        app=stretch.app_id,
        started_at__gte=stretch.start,
        started_at__lt=stretch.start + timedelta(minutes=Level.TEN_MINUTES),
        analyzed_at__isnull=False,
        day__gt=partition.KEPT,
    )
    active = requests.annotate(active_ns=F("end_to_end_ns") - F("wait_ns")).order_by()
    rows = active.values(*REQUEST_COLUMNS).iterator(chunk_size=ROWS_AT_ONCE)
    tally = Tally()
    while some := list(islice(rows, ROWS_AT_ONCE)):
        _add(tally, some)
    return tally.bounded()


def _add(tally: Tally, requests: Sequence[Mapping[str, Any]]) -> None:
    for request in requests:
        tally.add_request(request)
    for call in _rows_of(models.ModelCall, requests, MODEL_COLUMNS):
        tally.add_model_call(call)
    for call in _rows_of(models.ToolCall, requests, TOOL_COLUMNS):
        tally.add_tool_call(call)
    tally.add_findings(_rows_of(models.Finding, requests, FINDING_COLUMNS))


def _rows_of(
    model: type[models.DayPartitioned],
    requests: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
) -> QuerySet[Any]:
    """Their days tell Postgres which partitions to look into."""
    days = {request["day"] for request in requests}
    ids = [request["id"] for request in requests]
    rows: QuerySet[Any] = model._default_manager.filter(day__in=days, trace__in=ids)
    return rows.order_by().values(*columns)


# --- longer stretches, from their parts -----------------------------------------------------------


KEY = ("environment", "version", "metric", "name")


def _put_together(whole: Stretch, level: Level, part: Level) -> dict[Key, Series]:
    parts = models.Rollup.objects.filter(
        app=whole.app_id,
        level=part,
        start__gte=whole.start,
        start__lt=whole.start + timedelta(minutes=level),
    )
    tally = Tally()
    for environment, version, metric, name, *series in parts.values_list(*KEY, *STORED):
        key = Key(Release(environment, version), metric, name)
        tally.series[key].merge(Stored(*series))
    return tally.bounded()


# --- into rows ------------------------------------------------------------------------------------


def _replace(
    cursor: CursorWrapper,
    level: Level,
    made: Mapping[Stretch, Mapping[Key, Series]],
    now: datetime,
) -> None:
    cursor.execute(
        """
        DELETE FROM tracebudget_rollup AS rollup
        USING unnest(%s::bigint[], %s::timestamptz[]) AS stretch (app_id, start)
        WHERE rollup.app_id = stretch.app_id AND level = %s AND rollup.start = stretch.start
        """,
        [[stretch.app_id for stretch in made], [stretch.start for stretch in made], level],
    )
    columns = ", ".join(("app_id", "level", "start", "made_at", *KEY, *STORED))
    with cursor.copy(f"COPY tracebudget_rollup ({columns}) FROM STDIN") as copy:
        for (app_id, start), series in made.items():
            for (release, metric, name), one in series.items():
                key = (app_id, int(level), start, now, *release, metric, name)
                total, known, sum_, also, bins, counts, *ends = one.stored()
                copy.write_row(
                    [*key, total, known, sum_, Jsonb(also), _array(bins), _array(counts), *ends]
                )


def _array(numbers: Sequence[int]) -> str:
    """As PostgreSQL writes it. The driver looks at each number: five times the time."""
    return f"{{{','.join(map(str, numbers))}}}"
