"""OTLP at its doors: request bodies and files in, answers out."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from django.http import HttpResponse
from google.protobuf import json_format
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import code_pb2
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from ingest import body, bounds, otlp_json, otlp_protobuf
from ingest.decode import MAX_TIME_NS, Export, add_spans
from ingest.errors import OtlpError

JSON, PROTOBUF = "application/json", "application/x-protobuf"
PARSERS = {
    JSON: otlp_json.parse,
    PROTOBUF: otlp_protobuf.parse,
    "application/protobuf": otlp_protobuf.parse,  # what RFC 9113 and some exporters call it
}
RPC_CODES = {
    400: code_pb2.INVALID_ARGUMENT,
    401: code_pb2.UNAUTHENTICATED,
    404: code_pb2.NOT_FOUND,
    405: code_pb2.UNIMPLEMENTED,
    413: code_pb2.RESOURCE_EXHAUSTED,
    415: code_pb2.INVALID_ARGUMENT,
    429: code_pb2.RESOURCE_EXHAUSTED,
    500: code_pb2.INTERNAL,
    503: code_pb2.UNAVAILABLE,
}
# What RFC 9110 wants to be said with a status.
SAID_WITH = {401: ("WWW-Authenticate", "Bearer"), 405: ("Allow", "POST")}
JSON_STARTS = (b"{", b"[")
MAX_TOLD = 5  # broken lines of a file
BOM = b"\xef\xbb\xbf"


def media_type(content_type: str) -> str:
    """The type without its parameters. OtlpError 415 for one that is not OTLP."""
    named = content_type.partition(";")[0].strip().lower()
    if named not in PARSERS:
        raise OtlpError(415, f"Content-Type {named!r} is not OTLP/HTTP: send {PROTOBUF} or {JSON}.")
    return named


def read_export(content: bytes, content_type: str, *, latest_ns: int = MAX_TIME_NS) -> Export:
    """The spans of one export request; those after `latest_ns` are refused. Raises OtlpError."""
    export = Export(latest_ns)
    request = PARSERS[media_type(content_type)](content, export)
    bounds.require_few_parts(request)
    add_spans(request, export)
    return export


def read_file(source: Path | bytes, *, latest_ns: int = MAX_TIME_NS) -> Iterator[Export]:
    """The export requests in a file: JSON, JSON lines or protobuf, each also gzipped.

    JSON lines, one request a line, are read line by line, so a file may be larger than memory.
    Raises OtlpError where the file cannot be read; of JSON lines at the end, after all others were
    read, with the numbers of the broken ones.
    """
    try:
        with _opened(source) as file:
            first = file.readline()
            if first.removeprefix(BOM).lstrip(b" \t\r").startswith(JSON_STARTS):
                yield from _read_json(first, file, latest_ns)
            else:
                yield read_export(first + file.read(), PROTOBUF, latest_ns=latest_ns)
    except (OSError, EOFError, zlib.error) as error:
        raise OtlpError(400, f"The file cannot be read: {error}.") from error


@contextmanager
def _opened(source: Path | bytes) -> Iterator[io.BufferedIOBase]:
    """The file, or the bytes as one, inflated where they are gzipped."""
    file = source.open("rb", buffering=0) if isinstance(source, Path) else io.BytesIO(source)
    with io.BufferedReader(file) as raw:
        is_gzip = raw.peek(2).startswith(body.GZIP_MAGIC)
        yield gzip.GzipFile(fileobj=raw) if is_gzip else raw


def _read_json(first: bytes, file: io.BufferedIOBase, latest_ns: int) -> Iterator[Export]:
    """One document over many lines, or, where the first line is one by itself, one a line."""
    if first.rstrip().endswith(b"}"):
        yield from _read_lines(chain([first], file), latest_ns)
    else:
        yield read_export(first + file.read(), JSON, latest_ns=latest_ns)


def _read_lines(lines: Iterable[bytes], latest_ns: int) -> Iterator[Export]:
    """What can be read, then OtlpError with the lines that could not."""
    broken: list[str] = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield read_export(line, JSON, latest_ns=latest_ns)
            except OtlpError as error:
                broken.append(f"Line {number}: {error.message}")
    if broken:
        more = len(broken) - MAX_TOLD
        told = [*broken[:MAX_TOLD], f"{more} more lines cannot be read."] if more > 0 else broken
        raise OtlpError(400, " ".join(told))


def export_answer(export: Export) -> ExportTraceServiceResponse:
    """`partial_success` tells of refused spans, and of repairs alone."""
    answer = ExportTraceServiceResponse()
    if message := export.message():
        answer.partial_success.rejected_spans = export.refused.total()
        answer.partial_success.error_message = message
    return answer


def error_status(error: OtlpError) -> Status:
    """The error as all of RPC tells it, with the time after which to try again."""
    status = Status(code=RPC_CODES[error.status], message=error.message)
    if error.retry_after is not None:
        status.details.add().Pack(RetryInfo(retry_delay=Duration(seconds=error.retry_after)))
    return status


def export_response(export: Export, content_type: str) -> HttpResponse:
    """200 in the request's type."""
    return _response(export_answer(export), 200, content_type)


def error_response(error: OtlpError, content_type: str) -> HttpResponse:
    """A google.rpc.Status in the request's type; as JSON where that is not OTLP's."""
    response = _response(error_status(error), error.status, content_type)
    if error.status in SAID_WITH:
        name, value = SAID_WITH[error.status]
        response.headers[name] = value
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    return response


def _response(message: Message, status: int, content_type: str) -> HttpResponse:
    if content_type in PARSERS and content_type != JSON:
        return HttpResponse(message.SerializeToString(), content_type, status)
    text = json_format.MessageToJson(message, indent=None)
    return HttpResponse(text, JSON, status)
