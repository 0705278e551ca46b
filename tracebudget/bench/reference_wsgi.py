"""The bare reference: an endpoint that decodes requests and COPYs the same rows, and nothing else.

No key, no privacy door, no rows of traces, no queue, no look for repeats, no Django around it: what
is left is what any receiver must do that stores spans as we do. granian serves it, as the product.
"""

from __future__ import annotations

import os
import signal
import threading
import zlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import django
import psycopg

from tracebudget.runtime.spread import spread
from tracebudget.runtime.tether import die_with_parent

die_with_parent(os.getppid(), signal.SIGKILL)
django.setup()

from ingest.otlp import PROTOBUF, read_export  # noqa: E402
from tracebudget.store.arrival import chunked_bytes, pack_batches  # noqa: E402

COPY = (
    "COPY bench_reference (day, trace_id, digest, span_count, head, tail)"
    " FROM STDIN (FORMAT BINARY)"
)
TYPES = ("date", "int8", "bytea", "int4", "bytea", "bytea")
GZIP = zlib.MAX_WBITS | 16

_local = threading.local()


def store(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    """What remains of an export."""
    wire = environ["wsgi.input"].read()
    _store(zlib.decompress(wire, GZIP))
    start_response("200 OK", [("Content-Type", PROTOBUF)])
    return [b""]


def _store(body: bytes) -> None:
    today = datetime.now(UTC).date()
    with _database().cursor() as cursor, cursor.copy(COPY) as copy:
        copy.set_types(TYPES)
        for batch in pack_batches(read_export(body, PROTOBUF).spans):
            cut = chunked_bytes(batch.payload)
            head, tail = batch.payload[:cut], batch.payload[cut:]
            trace = batch.trace_id.int >> 65  # any 63 bits of it
            copy.write_row((today, trace, batch.digest, batch.span_count, head, tail))


def _database() -> psycopg.Connection:
    """A connection for each thread, as the product has."""
    if not hasattr(_local, "database"):
        _local.database = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
    database: psycopg.Connection = _local.database
    return database


application = spread(store)
