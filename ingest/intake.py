"""From spans in hand to spans stored, whatever brought them: through the privacy door."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings

from ingest.decode import Export
from ingest.privacy import pass_door
from tracebudget import keys, models, store


def take_in(export: Export, project: models.Project, *, now: datetime) -> None:
    """Store the spans of an export, as its project lets them be stored; durable on return.

    Raises OperationalError where the database is away or too slow; then nothing was stored.
    """
    spans = pass_door(export.spans, project, keys.digest_key())
    store.store_spans(project, spans, now=now)


def latest_ns(now: datetime) -> int:
    """The last moment a span may name, in Unix nanoseconds."""
    latest = now + timedelta(seconds=settings.MAX_FUTURE_SECONDS)
    return int(latest.timestamp()) * 10**9
