"""Conclusions in: each result replaces the last one whole, unless spans came meanwhile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson
from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.backends.utils import CursorWrapper
from django.utils.text import slugify

from tracebudget import models
from tracebudget.conclusions import Conclusions
from tracebudget.store.copying import copy_rows
from tracebudget.store.queue import Claim
from tracebudget.store.rollups import touch

MAX_SLUG_CHARS = 60  # of the column's 80: room for what tells two apps apart


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
        old = [claim for claim, is_old in unchanged.items() if is_old]
        _delete_conclusions(cursor, old)
        _copy_conclusions(cursor, current, apps)
        touch(cursor, [claim.id for claim in old])  # it may have begun elsewhere, for another app
        _update_summaries(cursor, current, apps, now)
        touch(cursor, [claim.id for claim in unchanged])
        _clear(cursor, [claim.id for claim in unchanged])


def save_failures(failures: Sequence[Failed], *, now: datetime) -> None:
    """Note why. Try again after growing pauses; past MAX_ATTEMPTS only new spans make it due."""
    with transaction.atomic(), connection.cursor() as cursor:
        unchanged = _lock_unchanged(cursor, [failure.claim for failure in failures])
        current = [failure for failure in failures if failure.claim in unchanged]
        cursor.execute(
            """
            UPDATE tracebudget_trace AS trace SET failure = failed.why
            FROM unnest(%s::bigint[], %s::text[]) AS failed (id, why)
            WHERE trace.id = failed.id
            """,
            [[failure.claim.id for failure in current], [failure.reason for failure in current]],
        )
        retries = {failure.claim.id: retry_at(failure.claim, now=now) for failure in current}
        _postpone(cursor, {trace: at for trace, at in retries.items() if at is not None})
        _clear(cursor, [trace for trace, at in retries.items() if at is None])


def _postpone(cursor: CursorWrapper, retries: Mapping[int, datetime]) -> None:
    cursor.execute(
        """
        UPDATE tracebudget_due AS due SET due_at = retry.due_at
        FROM unnest(%s::bigint[], %s::timestamptz[]) AS retry (id, due_at)
        WHERE due.trace_id = retry.id
        """,
        [list(retries), list(retries.values())],
    )


def _clear(cursor: CursorWrapper, traces: list[int]) -> None:
    """They wait no longer."""
    cursor.execute("DELETE FROM tracebudget_due WHERE trace_id = ANY(%s)", [traces])


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
    """Lock the traces, as every writer does, and tell which still are as they were read.

    The value says whether the trace has conclusions already. The day changes when retention moves
    a trace that is to be kept.
    """
    cursor.execute(
        """
        SELECT id, revision, day, analyzed_at IS NOT NULL FROM tracebudget_trace
        WHERE id = ANY(%s) ORDER BY project_id, trace_id FOR NO KEY UPDATE
        """,
        [[claim.id for claim in claims]],
    )
    rows = {tuple(row[:3]): row[3] for row in cursor.fetchall()}
    states = {claim: rows.get((claim.id, claim.revision, claim.day)) for claim in claims}
    return {claim: is_old for claim, is_old in states.items() if is_old is not None}


def _delete_conclusions(cursor: CursorWrapper, claims: Sequence[Claim]) -> None:
    """One statement a table and day: the day tells Postgres which partition to look into."""
    by_day: defaultdict[date, list[int]] = defaultdict(list)
    for claim in claims:
        by_day[claim.day].append(claim.id)
    for day, traces in by_day.items():
        for model in CONCLUSIONS:
            table = model._meta.db_table
            cursor.execute(
                f"DELETE FROM {table} WHERE day = %s AND trace_id = ANY(%s)",
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
        SET {columns}, analyzed_at = %s, failure = ''
        FROM jsonb_populate_recordset(NULL::tracebudget_trace, %s::jsonb) AS new
        WHERE trace.id = new.id
        """,
        [now, orjson.dumps(rows).decode()],
    )
