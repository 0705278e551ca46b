"""OTLP/JSON text -> OTLP messages, from here on the same as protobuf.

Not `json_format`: OTLP/JSON has hex ids where proto JSON has base64, and one odd value must cost
its attribute, its span or its list of spans, never what stands beside it. Unknown fields are
ignored and null is absent, as the specification asks; whole numbers are exact however they are
spelled.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, TypeVar

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2

from ingest import json_text
from ingest.bounds import MAX_PARTS
from ingest.decode import MAX_DEPTH, Export, Refused
from ingest.errors import OtlpError

T = TypeVar("T")
Object = Mapping[str, Any]

INT32, INT64 = range(-(2**31), 2**31), range(-(2**63), 2**63)
UINT32, UINT64 = range(2**32), range(2**64)
KINDS: Mapping[str, int] = dict(trace_pb2.Span.SpanKind.items())
STATUSES: Mapping[str, int] = dict(trace_pb2.Status.StatusCode.items())
NUMBER = re.compile(
    r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?"
)  # bounded: 1e99999999 fills memory

HEX = re.compile("[0-9a-fA-F]+")
URL_SAFE = str.maketrans("-_", "+/")

SCOPE_LISTS = (
    ("scopeSpans", "scope"),
    ("instrumentationLibrarySpans", "instrumentationLibrary"),  # until OTLP 0.15
)


def parse(body: bytes, export: Export) -> ExportTraceServiceRequest:
    """The request. OtlpError 400 for what is no JSON object with a list of `resourceSpans`."""
    document = json_text.load(body, export)
    request = ExportTraceServiceRequest()
    if document and "resourceSpans" not in document:
        export.repaired["request without resourceSpans, nothing to store"] += 1
    try:
        _list(document, "resourceSpans")
    except Refused as reason:
        raise OtlpError(400, f"The body is no OTLP/JSON export request: {reason}.") from reason
    for raw in _objects(document, "resourceSpans", export):
        _fill_resource_spans(request.resource_spans.add(), raw, export)
    return request


def _fill_resource_spans(target: trace_pb2.ResourceSpans, raw: Object, export: Export) -> None:
    resource = _part(_object, raw, "resource", export.repaired)
    _fill_shared_attributes(target.resource.attributes, resource, export)
    for list_name, scope_name in SCOPE_LISTS:
        for scope_spans in _objects(raw, list_name, export):
            _fill_scope_spans(target.scope_spans.add(), scope_spans, scope_name, export)


def _fill_scope_spans(
    target: trace_pb2.ScopeSpans, raw: Object, scope_name: str, export: Export
) -> None:
    scope = _part(_object, raw, scope_name, export.repaired)
    target.scope.name = _part(_string, scope, "name", export.repaired)
    target.scope.version = _part(_string, scope, "version", export.repaired)
    _fill_shared_attributes(target.scope.attributes, scope, export)
    for span in _part(_list, raw, "spans", export.refused):
        try:
            _fill_span(target.spans.add(), span)
        except Refused as reason:
            del target.spans[-1]
            export.refused[str(reason)] += 1


def _fill_shared_attributes(target: Any, raw: Object, export: Export) -> None:
    """Of a resource or a scope: its spans stay, whatever is wrong with it."""
    _fill_each(target, _part(_list, raw, "attributes", export.repaired), _fill_pair)


def _fill_span(target: trace_pb2.Span, raw: Any) -> None:
    if not isinstance(raw, dict):
        raise Refused("span is no object")
    target.trace_id = _id(raw, "traceId", base64_length=22)
    target.span_id = _id(raw, "spanId", base64_length=11)
    target.parent_span_id = _id(raw, "parentSpanId", base64_length=11)
    target.start_time_unix_nano = _integer_in(UINT64, raw, "startTimeUnixNano")
    target.end_time_unix_nano = _integer_in(UINT64, raw, "endTimeUnixNano")
    target.name, target.trace_state = _string(raw, "name"), _string(raw, "traceState")
    target.flags = _integer_in(UINT32, raw, "flags")
    target.kind = _enum(raw, "kind", KINDS, "SPAN_KIND_")
    status = _object(raw, "status")
    target.status.message = _string(status, "message")
    target.status.code = _enum(status, "code", STATUSES, "STATUS_CODE_")
    _fill_counted(target, raw)


def _fill_counted(target: trace_pb2.Span, raw: Object) -> None:
    """The lists that may lose a member; that adds to what the sender had dropped already."""
    attributes = _fill_attributes(target.attributes, raw)
    events = _fill_each(target.events, _list(raw, "events"), _fill_event)
    links = _fill_each(target.links, _list(raw, "links"), _fill_link)
    target.dropped_attributes_count = _count(raw, "droppedAttributesCount", attributes)
    target.dropped_events_count = _count(raw, "droppedEventsCount", events)
    target.dropped_links_count = _count(raw, "droppedLinksCount", links)


def _fill_event(target: trace_pb2.Span.Event, raw: Object) -> None:
    target.time_unix_nano = _integer_in(UINT64, raw, "timeUnixNano")
    target.name = _string(raw, "name")
    _fill_attributes(target.attributes, raw)


def _fill_link(target: trace_pb2.Span.Link, raw: Object) -> None:
    target.trace_id = _id(raw, "traceId", base64_length=22)
    target.span_id = _id(raw, "spanId", base64_length=11)
    _fill_attributes(target.attributes, raw)


def _fill_attributes(target: Any, raw: Object) -> int:
    return _fill_each(target, _list(raw, "attributes"), _fill_pair)


def _fill_each(target: Any, raws: Iterable[Any], fill: Callable[[Any, Any], None]) -> int:
    """Add one member for each raw one; returns how many could not be read and were left out."""
    left_out = 0
    for raw in raws:
        try:
            fill(target.add(), raw)
        except (Refused, TypeError, ValueError, OverflowError, AttributeError):
            del target[-1]
            left_out += 1
    return left_out


def _fill_pair(target: KeyValue, raw: Object, depth: int = 0) -> None:
    target.key = raw["key"] if raw.get("key") else ""
    _fill_value(target.value, raw.get("value"), depth)


def _fill_value(target: AnyValue, raw: Any, depth: int = 0) -> None:
    """The first field that OTLP knows; with none the value stays empty, which is null."""
    if raw is None or depth > MAX_DEPTH:
        return
    for name, value in raw.items():
        fill = FILLERS.get(name)
        if fill is not None and value is not None:
            fill(target, value, depth)
            return


def _fill_string(target: AnyValue, value: Any, depth: int) -> None:
    target.string_value = value


def _fill_bool(target: AnyValue, value: Any, depth: int) -> None:
    target.bool_value = value


def _fill_int(target: AnyValue, value: Any, depth: int) -> None:
    """A number that no int64 holds stays readable, as text."""
    number = _integer(value)
    if number in INT64:
        target.int_value = number
    else:
        target.string_value = str(number)


def _fill_double(target: AnyValue, value: Any, depth: int) -> None:
    target.double_value = float(value)


def _fill_bytes(target: AnyValue, value: Any, depth: int) -> None:
    """Both alphabets of base64, padded or not: proto JSON takes all four."""
    target.bytes_value = base64.b64decode(_padded(value.rstrip("=")), validate=True)


def _fill_array(target: AnyValue, value: Any, depth: int) -> None:
    target.array_value.SetInParent()
    for item in value.get("values") or ():
        _fill_value(target.array_value.values.add(), item, depth + 1)


def _fill_map(target: AnyValue, value: Any, depth: int) -> None:
    target.kvlist_value.SetInParent()
    for pair in value.get("values") or ():
        _fill_pair(target.kvlist_value.values.add(), pair, depth + 1)


FILLERS: Mapping[str, Callable[[AnyValue, Any, int], None]] = {
    "stringValue": _fill_string,
    "boolValue": _fill_bool,
    "intValue": _fill_int,
    "doubleValue": _fill_double,
    "bytesValue": _fill_bytes,
    "arrayValue": _fill_array,
    "kvlistValue": _fill_map,
}


def _list(raw: Object, name: str) -> list[Any]:
    value = raw.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise Refused(f"{name} is no list")
    if len(value) > MAX_PARTS:
        raise Refused(f"{name} has more than {MAX_PARTS} members")
    return value


def _objects(raw: Object, name: str, export: Export) -> Iterator[Object]:
    """The list's members. One that is no object may have held spans: it counts as one."""
    for value in _part(_list, raw, name, export.refused):
        if isinstance(value, dict):
            yield value
        elif value is not None:
            export.refused[f"{name} holds something that is no object"] += 1


def _part(read: Callable[[Object, str], T], raw: Object, name: str, reasons: Counter[str]) -> T:
    """What is read there; nothing, and a reason, where that is not what it should be."""
    try:
        return read(raw, name)
    except Refused as reason:
        reasons[str(reason)] += 1
        return read({}, name)


def _object(raw: Object, name: str) -> Object:
    value = raw.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Refused(f"{name} is no object")
    return value


def _string(raw: Object, name: str) -> str:
    value = raw.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Refused(f"{name} is no text")
    return value


def _id(raw: Object, name: str, *, base64_length: int) -> bytes:
    """Hex in either case, as OTLP/JSON asks, or base64 as plain proto JSON writes it, or what a
    Buffer of Node.js becomes. The length of the id is checked later, where protobuf's is.

    `base64_length` counts without padding. No id in hex has that length.
    """
    value = raw.get(name)
    try:
        if isinstance(value, dict) and value.get("type") == "Buffer":
            return bytes(value["data"])
        text = _string(raw, name)
        bare = text.rstrip("=")
        if len(bare) == base64_length and not HEX.fullmatch(text):
            return base64.b64decode(_padded(bare), validate=True)
        return binascii.unhexlify(text)
    except (KeyError, TypeError, ValueError):
        raise Refused(f"{name} is not hex") from None


def _padded(text: str) -> str:
    """Base64 in its own alphabet, with its padding."""
    return text.translate(URL_SAFE) + "=" * (-len(text) % 4)


def _enum(raw: Object, name: str, members: Mapping[str, int], prefix: str) -> Any:
    """The number, known to us or not, or that of a name with or without its prefix."""
    value = raw.get(name)
    if isinstance(value, str) and not NUMBER.fullmatch(value):
        return members.get(prefix + value.upper().removeprefix(prefix), 0)
    return _integer_in(INT32, raw, name)


def _count(raw: Object, name: str, more: int) -> int:
    return min(_integer_in(UINT32, raw, name) + more, UINT32[-1])


def _integer_in(bounds: range, raw: Object, name: str) -> int:
    value = raw.get(name)
    if value is None or value == "":
        return 0
    try:
        number = _integer(value)
    except ValueError:
        raise Refused(f"{name} is no whole number") from None
    if number not in bounds:
        raise Refused(f"{name} is out of range")
    return number


def _integer(value: Any) -> int:
    """Of a number, a text, or the {low, high} of a JavaScript library. ValueError if not whole."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, dict):
        return _long(_integer(value.get("low")), _integer(value.get("high")), value.get("unsigned"))
    if not isinstance(value, str | Decimal) or not NUMBER.fullmatch(str(value)):
        raise ValueError(value)
    number = Decimal(value)
    if number != number.to_integral_value():
        raise ValueError(value)
    return int(number)


def _long(low: int, high: int, unsigned: object) -> int:
    number = high % 2**32 << 32 | low % 2**32
    return number if unsigned or number in INT64 else number - 2**64
