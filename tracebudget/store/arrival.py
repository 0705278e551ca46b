"""Storage writes: spans in, work out, conclusions in. Set-based SQL: no statement per span.

Arrival and analysis meet in the row of the trace. `store_spans` locks the traces of an export in
the order of their ids, adds what is new and makes them due; `claim_due` takes due traces by moving
`analyze_after` behind a lease; `save_analyses` writes a result only for the revision that it read.
So a lost message, a dead worker or spans that arrive in between cost time, never a result
(docs/decisions/0002).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from hashlib import blake2b
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from django.conf import settings
from django.db import IntegrityError, OperationalError, connection, transaction
from django.db.backends.utils import CursorWrapper
from django.utils.text import slugify
from psycopg.errors import DeadlockDetected, SerializationFailure

from tracebudget import models, partition
from tracebudget.conclusions import Conclusions
from tracebudget.core.app import App
from tracebudget.core.budget import Budget
from tracebudget.core.span import Span
from tracebudget.packing import compress, decompress, pack_spans, unpack_spans

DIGEST_BYTES = 16  # as safe against two contents of one digest as a UUID against its double

MAX_SLUG_CHARS = 60  # of the column's 80: room for what tells two apps apart

# Binary COPY must be told the types; Django's fields know them under other names.
POSTGRES_TYPES = {
    "BigIntegerField": "int8",
    "BinaryField": "bytea",
    "BooleanField": "bool",
    "CharField": "text",
    "DateField": "date",
    "DateTimeField": "timestamptz",
    "ForeignKey": "int8",
    "IntegerField": "int4",
    "TextField": "text",
}


# --- spans in ---------------------------------------------------------------------------------


class Batch(NamedTuple):
    """The spans of one trace in one export, packed."""

    trace_id: UUID
    digest: bytes
    span_count: int
    has_root: bool
    payload: bytes


class Arrival(NamedTuple):
    """The row of a trace that spans arrive for, as it was when we locked it."""

    id: int
    trace_id: UUID
    day: date
    batch_count: int
    first_seen_at: datetime
    analyzed_at: datetime | None
    analyze_after: datetime | None
    state: str | None


def store_spans(project: models.Project, spans: Iterable[Span], *, now: datetime) -> None:
    """Make spans durable and their traces due. An export sent again changes nothing.

    Raises OperationalError when the database is away or too slow; then nothing was stored.
    """
    batches = pack_batches(spans)
    if not batches:
        return
    if not partition.exists(now.date()):
        partition.create(now.date())
    try:
        _store(project, batches, now)
    except OperationalError as error:
        if not isinstance(error.__cause__, DeadlockDetected | SerializationFailure):
            raise
        _store(project, batches, now)


def pack_batches(spans: Iterable[Span]) -> list[Batch]:
    """One batch a trace, sorted by trace id: the order in which every writer locks."""
    by_trace: defaultdict[str, list[Span]] = defaultdict(list)
    for span in spans:
        by_trace[span.trace_id].append(span)
    return [_batch(trace_id, by_trace[trace_id]) for trace_id in sorted(by_trace)]


def _batch(trace_id: str, spans: list[Span]) -> Batch:
    packed = pack_spans(spans)
    digest = blake2b(packed, digest_size=DIGEST_BYTES).digest()
    has_root = any(not span.parent_id or span.parent_is_remote for span in spans)
    return Batch(UUID(trace_id), digest, len(spans), has_root, compress(packed))


def _store(project: models.Project, batches: Sequence[Batch], now: datetime) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        timeout = str(settings.STORE_TIMEOUT_MS)
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [timeout])
        arrivals = _lock_traces(cursor, project, [batch.trace_id for batch in batches], now)
        arriving = list(zip(arrivals, batches, strict=True))
        known = _known_digests(cursor, arriving)
        new = [pair for pair in arriving if (pair[0].id, pair[1].digest) not in known]
        _copy_batches(cursor, new)
        _make_due(cursor, new, now)


def _lock_traces(
    cursor: CursorWrapper, project: models.Project, trace_ids: list[UUID], now: datetime
) -> list[Arrival]:
    """Make missing rows and lock all in the order of their ids: writers queue, never deadlock."""
    cursor.execute(
        """
        INSERT INTO tracebudget_trace (
            project_id, trace_id, day, first_seen_at, last_seen_at,
            revision, attempts, failure, batch_count, span_count
        )
        SELECT %s, unnest(%s::uuid[]), %s, %s, %s, 0, 0, '', 0, 0
        ON CONFLICT DO NOTHING
        """,
        [project.pk, trace_ids, now.date(), now, now],
    )
    cursor.execute(
        """
        SELECT id, trace_id, day, batch_count, first_seen_at, analyzed_at, analyze_after, state
        FROM tracebudget_trace
        WHERE project_id = %s AND trace_id = ANY(%s)
        ORDER BY trace_id
        FOR NO KEY UPDATE
        """,
        [project.pk, trace_ids],
    )
    return [Arrival(*row) for row in cursor.fetchall()]


def _known_digests(
    cursor: CursorWrapper, arriving: Sequence[tuple[Arrival, Batch]]
) -> set[tuple[int, bytes]]:
    """Which of the batches are stored already. The locks keep the answer true until we commit."""
    old = [(arrival, batch) for arrival, batch in arriving if arrival.batch_count]
    if not old:
        return set()
    cursor.execute(
        """
        SELECT trace_id, digest FROM tracebudget_spanbatch
        WHERE day = ANY(%s) AND trace_id = ANY(%s) AND digest = ANY(%s)
        """,
        [
            list({arrival.day for arrival, _ in old}),
            [arrival.id for arrival, _ in old],
            [batch.digest for _, batch in old],
        ],
    )
    return {(trace, bytes(digest)) for trace, digest in cursor.fetchall()}


def _copy_batches(cursor: CursorWrapper, new: Sequence[tuple[Arrival, Batch]]) -> None:
    rows = [
        {
            "day": arrival.day,
            "trace_id": arrival.id,
            "digest": batch.digest,
            "span_count": batch.span_count,
            "payload": batch.payload,
        }
        for arrival, batch in new
    ]
    copy_rows(cursor, models.SpanBatch, rows)


def _make_due(cursor: CursorWrapper, new: Sequence[tuple[Arrival, Batch]], now: datetime) -> None:
    cursor.execute(
        """
        UPDATE tracebudget_trace AS trace
        SET revision = revision + 1, batch_count = batch_count + 1, attempts = 0,
            span_count = trace.span_count + new.span_count,
            last_seen_at = %s, analyze_after = new.due_at
        FROM unnest(%s::bigint[], %s::int[], %s::timestamptz[]) AS new (id, span_count, due_at)
        WHERE trace.id = new.id
        """,
        [
            now,
            [arrival.id for arrival, _ in new],
            [batch.span_count for _, batch in new],
            [due_at(arrival, has_root=batch.has_root, now=now) for arrival, batch in new],
        ],
    )


def due_at(arrival: Arrival, *, has_root: bool, now: datetime) -> datetime:
    """When a trace that just got new spans should be analysed: once it falls quiet.

    Quiet is short where the root is here, or the trace was about to be analysed anyway; and a trace
    that never falls quiet is analysed at least every QUIET_CAP_SECONDS.
    """
    short = now + timedelta(seconds=settings.QUIET_SECONDS)
    pending = arrival.analyze_after
    is_near = pending is not None and pending <= short
    if not (has_root or is_near or arrival.state == "complete"):
        short = now + timedelta(seconds=settings.QUIET_WITHOUT_ROOT_SECONDS)
    if pending is None:
        return short
    waiting_since = arrival.analyzed_at or arrival.first_seen_at
    return min(short, waiting_since + timedelta(seconds=settings.QUIET_CAP_SECONDS))


# --- work out ---------------------------------------------------------------------------------


class Claim(NamedTuple):
    """A trace taken for analysis. `revision` is what the analysis reads.

    `attempts` counts the analyses before this one that were begun and never answered with a result.
    """

    id: int
    project_id: int
    project: str
    trace_id: UUID
    day: date
    revision: int
    attempts: int


def claim_due(*, now: datetime, limit: int) -> list[Claim]:
    """Take at most `limit` due traces, the longest due first, for LEASE_SECONDS.

    Rows that another worker is taking are passed over. A claim that is never answered is due again
    after its lease: nothing else has to happen when a worker dies. Fairness between apps belongs
    into this order.
    """
    lease = now + timedelta(seconds=settings.LEASE_SECONDS)
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH due AS (
                SELECT id, attempts FROM tracebudget_trace WHERE analyze_after <= %s
                ORDER BY analyze_after LIMIT %s FOR NO KEY UPDATE SKIP LOCKED
            )
            UPDATE tracebudget_trace AS trace
            SET analyze_after = %s, attempts = greatest(trace.attempts, 1)
            FROM due, tracebudget_project AS project
            WHERE trace.id = due.id AND project.id = trace.project_id
            RETURNING trace.id, trace.project_id, project.slug, trace.trace_id, trace.day,
                trace.revision, due.attempts
            """,
            [now, limit, lease],
        )
        return [Claim(*row) for row in cursor.fetchall()]


def judge_again(app: models.App, *, now: datetime) -> None:
    """Make the app's latest requests due, for the budgets that it has now.

    Older ones keep the judgement of their time. The revision grows, so that an analysis under way,
    which read the old budgets, is dropped.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH latest AS (
                SELECT id FROM tracebudget_trace
                WHERE app_id = %s ORDER BY started_at DESC LIMIT %s
            ), locked AS (
                SELECT id FROM tracebudget_trace JOIN latest USING (id)
                ORDER BY project_id, trace_id FOR NO KEY UPDATE
            )
            UPDATE tracebudget_trace AS trace
            SET revision = revision + 1, attempts = 0, analyze_after = %s
            FROM locked WHERE trace.id = locked.id
            """,
            [app.pk, settings.JUDGE_AGAIN_REQUESTS, now],
        )


def note_attempt(claim: Claim) -> None:
    """Count an analysis before it begins: it may be the last thing that this process does."""
    traces = models.Trace.objects.filter(pk=claim.id, revision=claim.revision)
    traces.update(attempts=claim.attempts + 1)


def load_batches(claims: Sequence[Claim]) -> dict[int, list[bytes]]:
    """The packed spans of each claim, by its id; compressed: one trace at a time is unpacked."""
    payloads: dict[int, list[bytes]] = {claim.id: [] for claim in claims}
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT trace_id, payload FROM tracebudget_spanbatch
            WHERE day = ANY(%s) AND trace_id = ANY(%s)
            """,
            [list({claim.day for claim in claims}), list(payloads)],
        )
        for trace, payload in cursor.fetchall():
            payloads[trace].append(bytes(payload))
    return payloads


def unpack_batches(payloads: Iterable[bytes]) -> list[Span]:
    return [span for payload in payloads for span in unpack_spans(decompress(payload))]


def load_apps(project_ids: Iterable[int]) -> dict[int, dict[str, App]]:
    """What the core has to know of the apps of some projects, by project and name."""
    promised = models.App.objects.filter(project__in=set(project_ids), budgets__isnull=False)
    apps: defaultdict[int, dict[str, App]] = defaultdict(dict)
    for app in promised.distinct().prefetch_related("budgets"):
        budgets = [Budget(b.metric, b.limit, float(b.objective)) for b in app.budgets.all()]
        apps[app.project_id][app.name] = App(budgets=tuple(budgets))
    return apps


# --- conclusions in ---------------------------------------------------------------------------


class Analyzed(NamedTuple):
    """The answer to a claim."""

    claim: Claim
    conclusions: Conclusions


class Failed(NamedTuple):
    """The other answer: why the trace could not be analysed."""

    claim: Claim
    reason: str


def save_analyses(results: Sequence[Analyzed], *, now: datetime) -> None:
    """Replace the conclusions on each trace, but where spans came meanwhile: it is due again."""
    apps = app_ids({(result.claim.project_id, result.conclusions.app) for result in results})
    with transaction.atomic(), connection.cursor() as cursor:
        unchanged = _lock_unchanged(cursor, [result.claim for result in results])
        current = [result for result in results if result.claim in unchanged]
        _delete_conclusions(cursor, [claim for claim, is_old in unchanged.items() if is_old])
        _copy_conclusions(cursor, current, apps)
        _update_summaries(cursor, current, apps, now)


def save_failures(failures: Sequence[Failed], *, now: datetime) -> None:
    """Note why. Try again after growing pauses; past MAX_ATTEMPTS only new spans make it due."""
    with transaction.atomic(), connection.cursor() as cursor:
        unchanged = _lock_unchanged(cursor, [failure.claim for failure in failures])
        current = [failure for failure in failures if failure.claim in unchanged]
        cursor.execute(
            """
            UPDATE tracebudget_trace AS trace
            SET failure = failed.why, analyze_after = failed.retry_at
            FROM unnest(%s::bigint[], %s::text[], %s::timestamptz[]) AS failed (id, why, retry_at)
            WHERE trace.id = failed.id
            """,
            [
                [failure.claim.id for failure in current],
                [failure.reason for failure in current],
                [retry_at(failure.claim, now=now) for failure in current],
            ],
        )


def retry_at(claim: Claim, *, now: datetime) -> datetime | None:
    """After QUIET_SECONDS, then twice as long each time; None once MAX_ATTEMPTS are used up."""
    if claim.attempts + 1 >= settings.MAX_ATTEMPTS:
        return None
    return now + timedelta(seconds=settings.QUIET_SECONDS * 2**claim.attempts)


def app_ids(wanted: Iterable[tuple[int, str]]) -> dict[tuple[int, str], int]:
    """The ids of apps by project and name; an app seen for the first time gets its row here."""
    return {key: _app_id(*key) for key in sorted(wanted)}


def _app_id(project_id: int, name: str) -> int:
    app = models.App.objects.filter(project_id=project_id, name=name).first()
    return app.pk if app else _create_app(project_id, name).pk


def _create_app(project_id: int, name: str) -> models.App:
    """Names are free text, and several may ask for one slug: later ones get a digest behind it."""
    slug = slugify(name)[:MAX_SLUG_CHARS] or "app"
    digest = blake2b(name.encode(), digest_size=4).hexdigest()
    is_taken = models.App.objects.filter(project_id=project_id, slug=slug).exists()
    try:
        return _app_with_slug(project_id, name, f"{slug}-{digest}" if is_taken else slug)
    except IntegrityError:  # taken since we looked
        return _app_with_slug(project_id, name, f"{slug}-{digest}")


def _app_with_slug(project_id: int, name: str, slug: str) -> models.App:
    """Another worker may be first with the same name: then it is its row."""
    app, _ = models.App.objects.get_or_create(
        project_id=project_id, name=name, defaults={"slug": slug}
    )
    return app


def _lock_unchanged(cursor: CursorWrapper, claims: Sequence[Claim]) -> dict[Claim, bool]:
    """Lock the traces, as every writer does, and tell which still have the revision that was read.

    The value says whether the trace has conclusions already: when a lease ran out, of the same
    revision.
    """
    cursor.execute(
        """
        SELECT id, revision, analyzed_at IS NOT NULL FROM tracebudget_trace WHERE id = ANY(%s)
        ORDER BY project_id, trace_id FOR NO KEY UPDATE
        """,
        [[claim.id for claim in claims]],
    )
    rows = {(id_, revision): is_old for id_, revision, is_old in cursor.fetchall()}
    return {c: rows[c.id, c.revision] for c in claims if (c.id, c.revision) in rows}


def _delete_conclusions(cursor: CursorWrapper, claims: Sequence[Claim]) -> None:
    """One statement a table and day: the day tells Postgres which partition to look into."""
    by_day: defaultdict[date, list[int]] = defaultdict(list)
    for claim in claims:
        by_day[claim.day].append(claim.id)
    for day, traces in by_day.items():
        for model in CONCLUSIONS:
            table = model._meta.db_table
            cursor.execute(
                f"DELETE FROM {table} WHERE day = %s AND trace_id = ANY(%s)",  # noqa: S608 (ours)
                [day, traces],
            )


def _copy_conclusions(
    cursor: CursorWrapper, results: Sequence[Analyzed], apps: Mapping[tuple[int, str], int]
) -> None:
    for model, rows_of in CONCLUSIONS.items():
        rows = [
            {**row, "day": claim.day, "trace_id": claim.id, "app_id": apps[claim.project_id, c.app]}
            for claim, c in results
            for row in rows_of(claim, c)
        ]
        copy_rows(cursor, model, rows)


CONCLUSIONS: Mapping[
    type[models.DayPartitioned], Callable[[Claim, Conclusions], Iterable[Mapping[str, Any]]]
] = {
    models.Analysis: lambda claim, c: [{"revision": claim.revision, "document": c.document}],
    models.ModelCall: lambda claim, c: c.model_calls,
    models.ToolCall: lambda claim, c: c.tool_calls,
    models.Breach: lambda claim, c: c.breaches,
    models.Finding: lambda claim, c: c.findings,
}


def _update_summaries(
    cursor: CursorWrapper,
    results: Sequence[Analyzed],
    apps: Mapping[tuple[int, str], int],
    now: datetime,
) -> None:
    """One statement: Postgres reads the columns, by name and with their types, from JSON."""
    if not results:
        return
    rows = [
        {**c.summary, "id": claim.id, "app_id": apps[claim.project_id, c.app]}
        for claim, c in results
    ]
    columns = ", ".join(f"{name} = new.{name}" for name in rows[0] if name != "id")
    cursor.execute(
        f"""
        UPDATE tracebudget_trace AS trace
        SET {columns}, analyzed_at = %s, analyze_after = NULL, attempts = 0, failure = ''
        FROM jsonb_populate_recordset(NULL::tracebudget_trace, %s::jsonb) AS new
        WHERE trace.id = new.id
        """,  # noqa: S608 (the columns are our own)
        [now, orjson.dumps(rows).decode()],
    )


def copy_rows(
    cursor: CursorWrapper, model: type[models.DayPartitioned], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Binary COPY of rows, given by column name, into a table."""
    if not rows:
        return
    fields = [field for field in model._meta.local_concrete_fields if field.attname in rows[0]]
    names = [field.attname for field in fields]
    columns = ", ".join(f'"{field.column}"' for field in fields)
    statement = f"COPY {model._meta.db_table} ({columns}) FROM STDIN (FORMAT BINARY)"
    # Django does not know of COPY, so its errors must be asked for.
    with connection.wrap_database_errors, cursor.copy(statement) as copy:
        copy.set_types([POSTGRES_TYPES[field.get_internal_type()] for field in fields])
        for row in rows:
            copy.write_row([row[name] for name in names])
