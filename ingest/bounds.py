"""How much one request may hold, beside its bytes: small parts are cheap to send and dear to read.

Two bytes of protobuf, or three of JSON, can become an object of a hundred bytes that takes
microseconds to look at. 32 MiB of them would fill gigabytes, and keep a process busy for minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from ingest.errors import OtlpError

MIB = 1024 * 1024

MAX_PARTS = (
    100_000  # resources, scopes and spans in all; the Collector sends 8,192 spans by default
)
MAX_JSON_OBJECTS = 2_000_000  # objects and lists; an attribute of a span has two
# Bodies above this size are decoded one at a time in a process: then the objects made of them are
# there once, and not once for each thread. Exporters send less than 1 MiB.
LIGHT_BYTES = 4 * MIB
MAX_WAIT_SECONDS = 10.0  # as long as exporters wait for an answer
RETRY_AFTER_SECONDS = 5

_heavy = Lock()


@contextmanager
def turn(size: int) -> Iterator[None]:
    """Hold the one place for bodies of this size. OtlpError 503 where it does not become free."""
    if size <= LIGHT_BYTES:
        yield
        return
    if not _heavy.acquire(timeout=MAX_WAIT_SECONDS):
        raise OtlpError(
            503,
            f"Other large exports are being read. Try again, or send batches below {LIGHT_BYTES}"
            " bytes.",
            retry_after=RETRY_AFTER_SECONDS,
        )
    try:
        yield
    finally:
        _heavy.release()


def require_few_parts(request: Any) -> None:
    """OtlpError 413 for an ExportTraceServiceRequest with more than MAX_PARTS."""
    count = len(request.resource_spans)
    for resource_spans in request.resource_spans[:MAX_PARTS]:
        count += len(resource_spans.scope_spans)
        count += sum(len(scope.spans) for scope in resource_spans.scope_spans[:MAX_PARTS])
        if count > MAX_PARTS:
            break
    if count > MAX_PARTS:
        raise _too_many(f"{MAX_PARTS} spans, scopes and resources")


def require_few_objects(text: str) -> None:
    """OtlpError 413 for a JSON text with more than MAX_JSON_OBJECTS."""
    if text.count("{") + text.count("[") > MAX_JSON_OBJECTS:
        raise _too_many(f"{MAX_JSON_OBJECTS} JSON objects and lists")


def _too_many(what: str) -> OtlpError:
    return OtlpError(413, f"The request holds more than {what}. Send smaller batches.")
