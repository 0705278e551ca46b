"""Work out: which traces are due, taken in turns, and what their analysis reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import connection

from tracebudget import models
from tracebudget.core.span import Span
from tracebudget.packing import decompress, unpack_spans
from tracebudget.store.arrival import lane_of


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


# `lane` finds the lanes that anything waits in: one index look-up each, however much that is. Of
# those with something due each gets the same number of places in the batch, and of its places only
# as many as its share of the spans allows, but always one.
#
# Rows are named by arrays, and not by joins: Postgres cannot know how few a CTE holds, and would
# read the whole table of traces for fifty of them.
CLAIM = """
    WITH RECURSIVE lane (lane) AS (
        (SELECT lane FROM tracebudget_due ORDER BY lane LIMIT 1)
        UNION ALL
        SELECT (SELECT lane FROM tracebudget_due WHERE lane > lane.lane ORDER BY lane LIMIT 1)
        FROM lane WHERE lane.lane IS NOT NULL
    ), waiting AS (
        SELECT lane.lane FROM lane, LATERAL (
            SELECT due_at FROM tracebudget_due WHERE lane = lane.lane AND due_at <= %(now)s
            ORDER BY due_at LIMIT 1
        ) AS first
        ORDER BY first.due_at LIMIT %(traces)s
    ), share AS (
        SELECT %(traces)s / count(*) AS traces, %(spans)s / count(*) AS spans FROM waiting
    ), locked AS (
        SELECT first.* FROM waiting, LATERAL (
            SELECT * FROM tracebudget_due WHERE lane = waiting.lane AND due_at <= %(now)s
            ORDER BY due_at LIMIT (SELECT traces FROM share) FOR NO KEY UPDATE SKIP LOCKED
        ) AS first
    ), placed AS (
        SELECT trace_id, attempts,
            sum(span_count) OVER (
                PARTITION BY lane ORDER BY due_at, trace_id
            ) - span_count AS before
        FROM locked JOIN (
            SELECT id, span_count FROM tracebudget_trace
            WHERE id = ANY(ARRAY(SELECT trace_id FROM locked))
        ) AS trace ON trace.id = trace_id
    ), chosen AS (
        SELECT trace_id, attempts FROM placed WHERE before < (SELECT spans FROM share)
    ), claimed AS (
        UPDATE tracebudget_due SET due_at = %(lease)s, attempts = greatest(attempts, 1)
        WHERE trace_id = ANY(ARRAY(SELECT trace_id FROM chosen))
    )
    SELECT trace.id, project.id, project.slug, trace.trace_id, trace.day, trace.revision, attempts
    FROM chosen
    JOIN (
        SELECT * FROM tracebudget_trace WHERE id = ANY(ARRAY(SELECT trace_id FROM chosen))
    ) AS trace ON trace.id = chosen.trace_id
    JOIN tracebudget_project AS project ON project.id = trace.project_id
"""


def claim_due(*, now: datetime) -> list[Claim]:
    """Take a batch of due traces for LEASE_SECONDS: the longest due of each app, apps in turns.

    At most ANALYZE_BATCH traces, with about ANALYZE_BATCH_SPANS spans. Rows that another worker is
    taking are passed over. A claim that is never answered is due again after its lease: nothing
    else has to happen when a worker dies.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            CLAIM,
            {
                "now": now,
                "traces": settings.ANALYZE_BATCH,
                "spans": settings.ANALYZE_BATCH_SPANS,
                "lease": now + timedelta(seconds=settings.LEASE_SECONDS),
            },
        )
        return [Claim(*row) for row in cursor.fetchall()]


def judge_again(app: models.App, *, now: datetime, requests: int | None = None) -> None:
    """Make the app's latest requests due, JUDGE_AGAIN_REQUESTS if not told, for the budgets that it
    has now.

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
            ), changed AS (
                UPDATE tracebudget_trace AS trace SET revision = revision + 1
                FROM locked WHERE trace.id = locked.id RETURNING trace.id
            )
            INSERT INTO tracebudget_due (trace_id, lane, due_at, attempts)
            SELECT id, %s, %s, 0 FROM changed
            ON CONFLICT (trace_id) DO UPDATE SET due_at = excluded.due_at, attempts = 0
            """,
            [
                app.pk,
                requests or settings.JUDGE_AGAIN_REQUESTS,
                lane_of(app.project_id, app.name),
                now,
            ],
        )


def note_attempt(claim: Claim) -> None:
    """Count an analysis before it begins: it may be the last thing that this process does."""
    waiting = models.Due.objects.filter(trace=claim.id, trace__revision=claim.revision)
    waiting.update(attempts=claim.attempts + 1)


def load_batches(claims: Sequence[Claim]) -> dict[int, list[bytes]]:
    """The packed spans of each claim, by its id; compressed: one trace at a time is unpacked."""
    payloads: dict[int, list[bytes]] = {claim.id: [] for claim in claims}
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT trace_id, head || tail FROM tracebudget_spanbatch
            WHERE day = ANY(%s) AND trace_id = ANY(%s)
            """,
            [list({claim.day for claim in claims}), list(payloads)],
        )
        for trace, payload in cursor.fetchall():
            payloads[trace].append(bytes(payload))
    return payloads


def unpack_batches(payloads: Iterable[bytes]) -> list[Span]:
    return [span for payload in payloads for span in unpack_spans(decompress(payload))]
