"""Protobuf bytes -> OTLP messages, also where a sender cut a text in the middle of a character."""

from __future__ import annotations

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from ingest.decode import Export
from ingest.errors import OtlpError

OTLP_FILES = (common_pb2, resource_pb2, trace_pb2, trace_service_pb2)  # each after those it imports
BYTES_FIELDS = frozenset(
    {"trace_id", "span_id", "parent_span_id", "bytes_value"}
)  # bytes in OTLP, too


def parse(body: bytes, export: Export) -> ExportTraceServiceRequest:
    """The request, text that is not UTF-8 repaired. OtlpError 400 when it is none."""
    try:
        return ExportTraceServiceRequest.FromString(body)
    except DecodeError:
        request = _repaired(body)
    export.repaired["request with text that is not UTF-8, its broken bytes now U+FFFD"] += 1
    return request


def _repaired(body: bytes) -> ExportTraceServiceRequest:
    """Read the request by a schema that takes any bytes for text, mend those, and read it again.

    One broken text must not cost the hundreds of spans beside it.
    """
    try:
        lenient = LENIENT_REQUEST.FromString(body)
        _mend(lenient)
        return ExportTraceServiceRequest.FromString(lenient.SerializeToString())
    except DecodeError as error:
        raise OtlpError(400, "The body is no ExportTraceServiceRequest in protobuf.") from error


def _mend(message: Message) -> None:
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for inner in value if field.is_repeated else (value,):
                _mend(inner)
        elif field.type == FieldDescriptor.TYPE_BYTES and field.name not in BYTES_FIELDS:
            if field.is_repeated:
                value[:] = [_mended(text) for text in value]
            else:
                setattr(message, field.name, _mended(value))


def _mended(text: bytes) -> bytes:
    return text.decode("utf-8", "replace").encode("utf-8")


def _lenient_request() -> type[Message]:
    """OTLP's own schema with `bytes` for every `string`: the same on the wire, unchecked."""
    pool = DescriptorPool()
    for module in OTLP_FILES:
        file = FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        for message in file.message_type:
            for field in message.field:
                if field.type == FieldDescriptorProto.TYPE_STRING:
                    field.type = FieldDescriptorProto.TYPE_BYTES
        pool.Add(file)
    name = ExportTraceServiceRequest.DESCRIPTOR.full_name
    return GetMessageClass(pool.FindMessageTypeByName(name))


LENIENT_REQUEST = _lenient_request()
