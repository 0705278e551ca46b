"""Protobuf bytes -> OTLP messages, also where one span is broken or a text was cut in the middle of
a character: that costs no span beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from ingest.bounds import require_few_parts
from ingest.decode import Export
from ingest.errors import OtlpError

OTLP_FILES = (common_pb2, resource_pb2, trace_pb2, trace_service_pb2)  # each after those it imports
SPANS = "spans"
# Bytes in OTLP too, or still packed: not to be mended like text.
BYTES_FIELDS = frozenset({"trace_id", "span_id", "parent_span_id", "bytes_value", SPANS})

NOT_UTF8 = "text that is not UTF-8, its broken bytes now U+FFFD"
UNREADABLE = "span is broken, or nested deeper than 100 messages"  # protobuf's limit


def parse(body: bytes, export: Export) -> ExportTraceServiceRequest:
    """The request, as much of it as can be read. OtlpError 400 when it is none."""
    try:
        return ExportTraceServiceRequest.FromString(body)
    except DecodeError:
        return _read_apart(body, export)


def _read_apart(body: bytes, export: Export) -> ExportTraceServiceRequest:
    """Read what stands around the spans, then each span by itself."""
    try:
        frame = FRAME.FromString(body)
        require_few_parts(frame)
        packed = [list(scope_spans.spans) for scope_spans in _scopes(frame)]
        for scope_spans in _scopes(frame):
            scope_spans.ClearField(SPANS)
        request = ExportTraceServiceRequest.FromString(_mended(frame, export))
    except DecodeError as error:
        raise OtlpError(
            400,
            "The body is no ExportTraceServiceRequest in protobuf: broken, or nested too deeply.",
        ) from error
    for scope_spans, spans in zip(_scopes(request), packed, strict=True):
        for span in spans:
            _add_span(scope_spans.spans, span, export)
    return request


def _scopes(request: Any) -> list[Any]:
    return [inner for outer in request.resource_spans for inner in outer.scope_spans]


def _add_span(spans: Any, packed: bytes, export: Export) -> None:
    try:
        spans.append(trace_pb2.Span.FromString(_mended(LENIENT_SPAN.FromString(packed), export)))
    except DecodeError:
        export.refused[UNREADABLE] += 1


def _mended(message: Message, export: Export) -> bytes:
    """The message on the wire again, all its text UTF-8."""
    if count := _mend(message):
        export.repaired[NOT_UTF8] += count
    return message.SerializeToString()


def _mend(message: Message) -> int:
    """Make all text in the message UTF-8; how many texts were not."""
    count = 0
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            count += sum(map(_mend, value if field.is_repeated else (value,)))
        elif field.type == FieldDescriptor.TYPE_BYTES and field.name not in BYTES_FIELDS:
            count += _mend_text(message, field, value)
    return count


def _mend_text(message: Message, field: FieldDescriptor, value: Any) -> int:
    texts = list(value) if field.is_repeated else [value]
    mended = [text.decode("utf-8", "replace").encode("utf-8") for text in texts]
    if mended == texts:
        return 0
    if field.is_repeated:
        value[:] = mended
    else:
        setattr(message, field.name, mended[0])
    return len(texts)


def _schema(*, spans_packed: bool) -> DescriptorPool:
    """OTLP's own schema with `bytes` for `string`, and perhaps for the spans: the same on the wire,
    unchecked.
    """
    pool = DescriptorPool()
    for module in OTLP_FILES:
        file = FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        for field in _fields(file.message_type):
            if field.type == FieldDescriptorProto.TYPE_STRING:
                field.type = FieldDescriptorProto.TYPE_BYTES
            elif spans_packed and field.name == SPANS:
                field.type = FieldDescriptorProto.TYPE_BYTES
                field.ClearField("type_name")
        pool.Add(file)
    return pool


def _fields(messages: Iterable[DescriptorProto]) -> Iterator[FieldDescriptorProto]:
    for message in messages:
        yield from message.field
        yield from _fields(message.nested_type)


def _class(pool: DescriptorPool, like: type[Message]) -> type[Any]:
    return GetMessageClass(pool.FindMessageTypeByName(like.DESCRIPTOR.full_name))


FRAME = _class(_schema(spans_packed=True), ExportTraceServiceRequest)
LENIENT_SPAN = _class(_schema(spans_packed=False), trace_pb2.Span)
