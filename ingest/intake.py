"""What happens to an export, by whatever way it comes: key, spans, privacy door, store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from django.conf import settings

from ingest import bounds, limits, otlp, receipts
from ingest.auth import Caller, authenticate
from ingest.decode import Export
from ingest.privacy import pass_door
from ingest.receipts import Stream
from tracebudget import keys, metrics, store
from tracebudget.models import Signal

TRACE_FULL = "its trace has TRACEBUDGET_MAX_TRACE_SPANS"


def receive(
    caller: Caller, content_type: str, read: Callable[[], bytes], *, now: datetime
) -> Export:
    """Store the spans of one export request. OtlpError where that is refused as a whole."""
    key = authenticate(caller, now=now)
    stream = Stream(key.project, caller.way, Signal.TRACES)
    with receipts.errors_noted(stream, now=now):
        limits.require_room(key, now=now)
        body = read()
        with bounds.turn(len(body)):
            export = otlp.read_export(body, content_type, latest_ns=latest_ns(now))
            limits.spend(key, len(export.spans) + export.refused.total(), now=now)
            take_in(export, stream, now=now)
    return export


def ignore(caller: Caller, signal: Signal, read: Callable[[], bytes], *, now: datetime) -> Export:
    """A success without effect, for exporters that send logs and metrics to where traces go.

    The body is read to its end: senders that cannot finish writing see a broken connection.
    """
    stream = Stream(authenticate(caller, now=now).project, caller.way, signal)
    with receipts.errors_noted(stream, now=now):
        read()
    receipts.note_ignored(stream, now=now)
    return Export()


def take_in(export: Export, stream: Stream, *, now: datetime) -> None:
    """Store the spans of an export, as its project lets them be stored; durable on return.

    Raises OperationalError where the database is away or too slow; then nothing was stored.
    """
    spans = pass_door(export.spans, stream.project, keys.digest_key())
    if refused := store.store_spans(stream.project, spans, now=now):
        export.refused[TRACE_FULL] += refused
    export.stored = len(spans) - refused
    receipts.note_export(stream, export, spans, now=now)
    metrics.count_spans(taken=export.stored, refused=export.refused.total())


def latest_ns(now: datetime) -> int:
    """The last moment a span may name, in Unix nanoseconds."""
    latest = now + timedelta(seconds=settings.MAX_FUTURE_SECONDS)
    return int(latest.timestamp()) * 10**9
