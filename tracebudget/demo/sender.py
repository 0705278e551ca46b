"""Sends requests to an OTLP endpoint, as any program with the OpenTelemetry SDK does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from tracebudget.demo.spans import SpanWriter
from tracebudget.demo.work import Request

BATCH_SPANS = 512  # what the SDK's own processor sends at once


class SendError(Exception):
    """The endpoint did not take what was sent."""


def send(requests: Sequence[Request], *, url: str, key: str, seed: int) -> Iterator[int]:
    """Send requests to `url`, in whole ones. Yields how many are sent, whenever some were.

    Raises SendError.
    """
    exporter = OTLPSpanExporter(
        endpoint=f"{url}/v1/traces", headers={"x-api-key": key}, compression=Compression.Gzip
    )
    writer = SpanWriter(seed)
    batch: list[ReadableSpan] = []
    for number, request in enumerate(requests, start=1):
        batch += writer.write(request)
        if len(batch) >= BATCH_SPANS or number == len(requests):
            if exporter.export(batch) is not SpanExportResult.SUCCESS:
                raise SendError(f"{url} did not take {len(batch)} spans.")
            batch = []
            yield number
    exporter.shutdown()  # type: ignore[no-untyped-call]
