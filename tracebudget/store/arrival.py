"""Spans in: durable once, and their traces due, in one short transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from hashlib import blake2b
from typing import NamedTuple
from uuid import UUID
from zlib import crc32

from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.db.backends.utils import CursorWrapper
from psycopg.errors import CheckViolation, DeadlockDetected, SerializationFailure

from tracebudget import models, partition
from tracebudget.core.span import Span
from tracebudget.packing import compress, pack_spans
from tracebudget.store.copying import copy_rows

DIGEST_BYTES = 16  # as safe against two contents of one digest as a UUID against its double
# Lanes of the queue. More apps than that share some, and a lane costs a claim an index look-up.
LANES = 256
# What Postgres cuts long values into, four to a page. A shorter rest leaves a page with a hole that
# no chunk fits into, an eighth of the table in the end: so the rest stays in the row.
CHUNK_BYTES = 1996
LOST = (DeadlockDetected, SerializationFailure)  # to another transaction, by chance


class Batch(NamedTuple):
    """The spans of one trace in one export, packed."""

    trace_id: UUID
    digest: bytes
    span_count: int
    has_root: bool
    service: str
    payload: bytes


class Arrival(NamedTuple):
    """The row of a trace that spans arrive for, as it was before them: empty where we made it."""

    id: int
    trace_id: UUID
    day: date
    batch_count: int
    span_count: int
    first_seen_at: datetime
    analyzed_at: datetime | None
    state: str | None
    due_at: datetime | None


Arriving = Sequence[tuple[Arrival, Batch]]


class TraceVanishedError(Exception):
    """Retention deleted the row of an old trace between two statements of ours."""


def store_spans(project: models.Project, spans: Iterable[Span], *, now: datetime) -> int:
    """Make spans durable and their traces due. An export sent again changes nothing.

    Returns how many spans were refused, because their trace is full. Raises OperationalError when
    the database is away or too slow; then nothing was stored.
    """
    batches = pack_batches(spans)
    if not batches:
        return 0
    try:
        return _store(project, batches, now)
    except (DatabaseError, TraceVanishedError) as error:
        _prepare_another_try(error, now)
    return _store(project, batches, now)


def _prepare_another_try(error: DatabaseError | TraceVanishedError, now: datetime) -> None:
    """Raise the error again, but where a second try can end better than the first."""
    if isinstance(error.__cause__, CheckViolation):  # what a row meets that fits into no partition
        partition.create(now.date())
    elif not isinstance(error, TraceVanishedError) and not isinstance(error.__cause__, LOST):
        raise error


def pack_batches(spans: Iterable[Span]) -> list[Batch]:
    """One batch a trace, sorted by trace id: the order in which every writer locks."""
    by_trace: defaultdict[str, list[Span]] = defaultdict(list)
    for span in spans:
        by_trace[span.trace_id].append(span)
    return [_batch(trace_id, by_trace[trace_id]) for trace_id in sorted(by_trace)]


def _batch(trace_id: str, spans: list[Span]) -> Batch:
    packed = pack_spans(spans)
    digest = blake2b(packed, digest_size=DIGEST_BYTES).digest()
    root = next((span for span in spans if not span.parent_id or span.parent_is_remote), None)
    service = (root or spans[0]).service
    return Batch(UUID(trace_id), digest, len(spans), root is not None, service, compress(packed))


def _store(project: models.Project, batches: Sequence[Batch], now: datetime) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        timeout = str(settings.STORE_TIMEOUT_MS)
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [timeout])
        arriving = _arrive(cursor, project, batches, now)
        full = [pair for pair in arriving if pair[0].span_count >= settings.MAX_TRACE_SPANS]
        taken = [pair for pair in arriving if pair[0].span_count < settings.MAX_TRACE_SPANS]
        _copy_batches(cursor, taken)
        _count_arrivals(cursor, [pair for pair in taken if pair[0].batch_count], now)
        _count_refusals(cursor, full)
        _make_due(cursor, project, taken, now)
    return sum(batch.span_count for _, batch in full)


def _arrive(
    cursor: CursorWrapper, project: models.Project, batches: Sequence[Batch], now: datetime
) -> Arriving:
    """What is new of the batches, each with the row of its trace, made or locked.

    Both in the order of trace ids, as every writer does: they queue, and never deadlock.
    """
    made = _make_traces(cursor, project, batches, now)
    known = [batch for batch in batches if batch.trace_id not in made]
    if not known:
        return [(made[batch.trace_id], batch) for batch in batches]
    found = _lock_traces(cursor, project, known)
    if len(found) < len(known):
        raise TraceVanishedError
    stored = _stored_digests(cursor, [(found[batch.trace_id], batch) for batch in known])
    arriving = [({**made, **found}[batch.trace_id], batch) for batch in batches]
    return [pair for pair in arriving if (pair[0].id, pair[1].digest) not in stored]


def _make_traces(
    cursor: CursorWrapper, project: models.Project, batches: Sequence[Batch], now: datetime
) -> dict[UUID, Arrival]:
    """Rows for traces that have none yet; they have their first batch in them already."""
    cursor.execute(
        """
        INSERT INTO tracebudget_trace (
            project_id, trace_id, day, first_seen_at, last_seen_at, revision, failure,
            batch_count, span_count, refused_span_count
        )
        SELECT %s, batch.trace_id, %s, %s, %s, 1, '', 1, batch.span_count, 0
        FROM unnest(%s::uuid[], %s::int[]) AS batch (trace_id, span_count)
        ON CONFLICT DO NOTHING
        RETURNING id, trace_id
        """,
        [
            project.pk,
            now.date(),
            now,
            now,
            [batch.trace_id for batch in batches],
            [batch.span_count for batch in batches],
        ],
    )
    return {
        trace_id: Arrival(id_, trace_id, now.date(), 0, 0, now, None, None, None)
        for id_, trace_id in cursor.fetchall()
    }


def _lock_traces(
    cursor: CursorWrapper, project: models.Project, batches: Sequence[Batch]
) -> dict[UUID, Arrival]:
    cursor.execute(
        """
        SELECT trace.id, trace.trace_id, day, batch_count, span_count, first_seen_at, analyzed_at,
            state, due_at
        FROM tracebudget_trace AS trace LEFT JOIN tracebudget_due AS due ON due.trace_id = trace.id
        WHERE project_id = %s AND trace.trace_id = ANY(%s)
        ORDER BY trace.trace_id
        FOR NO KEY UPDATE OF trace
        """,
        [project.pk, [batch.trace_id for batch in batches]],
    )
    arrivals = [Arrival(*row) for row in cursor.fetchall()]
    return {arrival.trace_id: arrival for arrival in arrivals}


def _stored_digests(cursor: CursorWrapper, arriving: Arriving) -> set[tuple[int, bytes]]:
    """Which of the batches are stored already. The locks keep the answer true until we commit."""
    cursor.execute(
        """
        SELECT trace_id, digest FROM tracebudget_spanbatch
        WHERE day = ANY(%s) AND trace_id = ANY(%s) AND digest = ANY(%s)
        """,
        [
            list({arrival.day for arrival, _ in arriving}),
            [arrival.id for arrival, _ in arriving],
            [batch.digest for _, batch in arriving],
        ],
    )
    return {(trace, bytes(digest)) for trace, digest in cursor.fetchall()}


def _copy_batches(cursor: CursorWrapper, taken: Arriving) -> None:
    rows = [
        {
            "day": arrival.day,
            "trace_id": arrival.id,
            "digest": batch.digest,
            "span_count": batch.span_count,
            "head": batch.payload[: chunked_bytes(batch.payload)],
            "tail": batch.payload[chunked_bytes(batch.payload) :],
        }
        for arrival, batch in taken
    ]
    copy_rows(cursor, models.SpanBatch, rows)


def chunked_bytes(payload: bytes) -> int:
    """How much of it fills chunks to the last byte."""
    return len(payload) - len(payload) % CHUNK_BYTES


def _count_arrivals(cursor: CursorWrapper, taken: Arriving, now: datetime) -> None:
    """In the rows of traces that were there before."""
    if not taken:
        return
    cursor.execute(
        """
        UPDATE tracebudget_trace AS trace
        SET revision = revision + 1, batch_count = batch_count + 1,
            span_count = trace.span_count + batch.span_count, last_seen_at = %s
        FROM unnest(%s::bigint[], %s::int[]) AS batch (id, span_count)
        WHERE trace.id = batch.id
        """,
        [now, [arrival.id for arrival, _ in taken], [batch.span_count for _, batch in taken]],
    )


def _count_refusals(cursor: CursorWrapper, full: Arriving) -> None:
    if not full:
        return
    cursor.execute(
        """
        UPDATE tracebudget_trace AS trace
        SET refused_span_count = refused_span_count + batch.span_count
        FROM unnest(%s::bigint[], %s::int[]) AS batch (id, span_count)
        WHERE trace.id = batch.id
        """,
        [[arrival.id for arrival, _ in full], [batch.span_count for _, batch in full]],
    )


def _make_due(
    cursor: CursorWrapper, project: models.Project, taken: Arriving, now: datetime
) -> None:
    """A trace keeps the lane in which it waits already."""
    if not taken:
        return
    cursor.execute(
        """
        INSERT INTO tracebudget_due (trace_id, lane, due_at, attempts)
        SELECT batch.id, batch.lane, batch.due_at, 0
        FROM unnest(%s::bigint[], %s::int[], %s::timestamptz[]) AS batch (id, lane, due_at)
        ON CONFLICT (trace_id) DO UPDATE SET due_at = excluded.due_at, attempts = 0
        """,
        [
            [arrival.id for arrival, _ in taken],
            [lane_of(project.pk, batch.service) for _, batch in taken],
            [due_at(arrival, has_root=batch.has_root, now=now) for arrival, batch in taken],
        ],
    )


def lane_of(project_id: int, app: str) -> int:
    """Where traces of an app wait. A batch without the root guesses by the service it came from."""
    return crc32(f"{project_id}/{app}".encode()) % LANES


def due_at(arrival: Arrival, *, has_root: bool, now: datetime) -> datetime:
    """When a trace that just got new spans should be analysed: once it falls quiet.

    Quiet is short where the root is here, or the trace was about to be analysed anyway; and a trace
    that never falls quiet is analysed at least every QUIET_CAP_SECONDS.
    """
    short = now + timedelta(seconds=settings.QUIET_SECONDS)
    pending = arrival.due_at
    is_near = pending is not None and pending <= short
    if not (has_root or is_near or arrival.state == "complete"):
        short = now + timedelta(seconds=settings.QUIET_WITHOUT_ROOT_SECONDS)
    if pending is None:
        return short
    waiting_since = arrival.analyzed_at or arrival.first_seen_at
    return min(short, waiting_since + timedelta(seconds=settings.QUIET_CAP_SECONDS))
