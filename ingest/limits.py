"""How many spans a key may send: a flood from one sender must not delay the others.

Buckets live in the process, since a row for each would be written by every export. So a key may
send its rate to each of the processes that take exports; there are few, and as a rule one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from threading import Lock

from django.conf import settings

from ingest.errors import OtlpError
from tracebudget import models

BURST_SECONDS = 10  # of full rate, saved up while a sender was quiet: batches come in clumps
MAX_BUCKETS = 10_000


@dataclass
class Bucket:
    """Spans that a key may send now; below 0 after an export larger than that."""

    spans: float
    at: datetime


_buckets: dict[int | None, Bucket] = {}
_lock = Lock()


def require_room(key: models.IngestKey, *, now: datetime) -> None:
    """OtlpError 429 while the key is in debt: before anything is read, so that it costs nothing."""
    rate = rate_of(key)
    if not rate:
        return
    with _lock:
        spans = _filled(key, rate, now).spans
    if spans < 1:
        raise OtlpError(
            429,
            f"The key sends more than its {rate} spans a second"
            " (TRACEBUDGET_MAX_SPANS_PER_SECOND, or the key's own limit). Send again later.",
            retry_after=math.ceil((1 - spans) / rate),
        )


def spend(key: models.IngestKey, span_count: int, *, now: datetime) -> None:
    """Take what an export brought. It is let in whole: what was decoded is cheaper to store."""
    rate = rate_of(key)
    if rate:
        with _lock:
            _filled(key, rate, now).spans -= span_count


def rate_of(key: models.IngestKey) -> int:
    """Spans a second; 0 for no limit."""
    own = key.max_spans_per_second
    return settings.MAX_SPANS_PER_SECOND if own is None else own


def forget_all() -> None:
    with _lock:
        _buckets.clear()


def _filled(key: models.IngestKey, rate: int, now: datetime) -> Bucket:
    """The key's bucket with what flowed in until now."""
    full = float(rate * BURST_SECONDS)
    bucket = _buckets.get(key.pk)
    if bucket is None:
        if len(_buckets) >= MAX_BUCKETS:
            _buckets.clear()
        bucket = _buckets[key.pk] = Bucket(full, now)
    passed = max(0.0, (now - bucket.at).total_seconds())
    bucket.spans, bucket.at = min(full, bucket.spans + rate * passed), now
    return bucket
