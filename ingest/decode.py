"""OTLP messages -> spans: what a span must bring to be let in, and what is tidied on the way.

The hot path of ingest. What costs here is making Python objects, about half a microsecond each. So
`string_value` is tried first, then `int_value`: most attributes are text, and asking which field of
the `oneof` is set costs more than reading a wrong one. Checks look at many names at once, and a
sender's attributes are shared.
"""

from __future__ import annotations

import base64
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2

from tracebudget.core.dialects.facts import LIFTED
from tracebudget.core.span import Attributes, Event, Link, Span

MAX_TIME_NS = 2**63 - 1  # Postgres bigint, and the year 2262
TRACE_ID_BYTES, SPAN_ID_BYTES = 16, 8
NO_TRACE, NO_SPAN = bytes(TRACE_ID_BYTES), bytes(SPAN_ID_BYTES)
KINDS, STATUSES = range(6), range(3)  # the numbers that OTLP gives a meaning to

# Shape limits. No real instrumentation meets them; each keeps one span from filling a page.
MAX_NAME_CHARS = 1000  # the name of a span, event or scope
MAX_KEY_CHARS = 500  # the name of one attribute
MAX_ATTRIBUTES = 1024  # of one span, event, link, scope or resource
MAX_EVENTS, MAX_LINKS = 10_000, 1000  # of one span; a stream's tokens may each be an event
MAX_ITEMS = 100_000  # of one list or map
MAX_DEPTH = 32  # lists and maps inside one attribute
TOO_DEEP = "[nested too deeply]"
MAX_REASONS = 10  # in one answer

# Ingest's own remarks on a span, so that nothing is changed silently: {"kind": raw number,
# "status": raw number}, and what the privacy door says of names and messages.
MARKS_KEY = "tracebudget.marks"
OUR_KEYS = frozenset({MARKS_KEY, LIFTED})  # a sender's attribute of such a name is left out


class Refused(Exception):
    """This span cannot be stored; its neighbours can. The text becomes the counted reason."""


@dataclass(slots=True)
class Export:
    """What one request or file held: spans let in; by reason, how many were refused or repaired.

    A span that starts or ends after `latest_ns` is refused. `stored` counts what the store took.
    """

    latest_ns: int = MAX_TIME_NS
    spans: list[Span] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    repaired: Counter[str] = field(default_factory=Counter)
    stored: int = 0

    def message(self) -> str:
        """What to tell the sender in one line, "" when all is well."""
        sentences = []
        if self.refused:
            sentences.append(f"Spans refused: {_counted(self.refused)}.")
        if self.repaired:
            sentences.append(f"Repaired: {_counted(self.repaired)}.")
        return " ".join(sentences)


@dataclass(frozen=True, slots=True)
class Sender:
    """Resource and scope of a run of spans, shared by all of them."""

    resource: Attributes
    scope: str
    version: str
    attributes: Attributes


def add_spans(request: ExportTraceServiceRequest, export: Export) -> None:
    """Add the request's spans to the export, or the reasons why not."""
    for resource_spans in request.resource_spans:
        resource, _ = _attributes(resource_spans.resource.attributes, export)
        for scope_spans in resource_spans.scope_spans:
            sender = _sender(resource, scope_spans.scope, export)
            for raw in scope_spans.spans:
                try:
                    export.spans.append(_span(raw, sender, export))
                except Refused as reason:
                    export.refused[str(reason)] += 1


def _sender(resource: Attributes, scope: InstrumentationScope, export: Export) -> Sender:
    attributes, _ = _attributes(scope.attributes, export)
    name, version = _name(scope.name, export), _name(scope.version, export)
    return Sender(resource, name, version, attributes)


def _span(raw: trace_pb2.Span, sender: Sender, export: Export) -> Span:
    start_ns, end_ns = raw.start_time_unix_nano, raw.end_time_unix_nano
    _check_times(start_ns, end_ns, export.latest_ns)
    attributes, left_out = _attributes(raw.attributes, export)
    kind, status = raw.kind, raw.status
    if kind not in KINDS or status.code not in STATUSES:
        attributes[MARKS_KEY] = _unknown_numbers(raw)
    return Span(
        _trace_id(raw.trace_id),
        _span_id(raw.span_id),
        _parent_id(raw.parent_span_id),
        _name(raw.name, export),
        kind if kind in KINDS else 0,
        start_ns,
        end_ns,
        attributes,
        status.code if status.code in STATUSES else 0,
        _tidy(status.message, export),
        tuple(_events(raw, export)) if raw.events else (),
        tuple(_links(raw, export)) if raw.links else (),
        raw.flags,
        _tidy(raw.trace_state, export),
        sender.scope,
        sender.version,
        sender.attributes,
        sender.resource,
        raw.dropped_attributes_count + left_out,
        raw.dropped_events_count + max(0, len(raw.events) - MAX_EVENTS),
        raw.dropped_links_count + max(0, len(raw.links) - MAX_LINKS),
    )


def _unknown_numbers(raw: trace_pb2.Span) -> dict[str, int]:
    numbers = {"kind": (raw.kind, KINDS), "status": (raw.status.code, STATUSES)}
    return {name: number for name, (number, known) in numbers.items() if number not in known}


def _check_times(start_ns: int, end_ns: int, latest_ns: int) -> None:
    """A span without a start has no place on any clock. One without an end is open, and welcome."""
    if start_ns == 0:
        raise Refused("startTimeUnixNano is missing")
    if start_ns > MAX_TIME_NS or end_ns > MAX_TIME_NS:
        raise Refused("a time lies beyond the year 2262")
    if start_ns > latest_ns or end_ns > latest_ns:
        raise Refused(
            "a time lies in the future (TRACEBUDGET_MAX_FUTURE_SECONDS): wrong unit or wrong clock"
        )


def _trace_id(raw: bytes) -> str:
    """Hex. The 64-bit id of an older system is padded on the left, as W3C Trace Context asks."""
    if not raw:
        raise Refused("traceId is missing")
    raw = raw.rjust(TRACE_ID_BYTES, b"\0") if len(raw) == TRACE_ID_BYTES // 2 else raw
    if len(raw) != TRACE_ID_BYTES:
        raise Refused(f"traceId must be 16 bytes, not {len(raw)}")
    if raw == NO_TRACE:
        raise Refused("traceId is all zeros")
    return raw.hex()


def _span_id(raw: bytes) -> str:
    if not raw:
        raise Refused("spanId is missing")
    if len(raw) != SPAN_ID_BYTES:
        raise Refused(f"spanId must be 8 bytes, not {len(raw)}")
    if raw == NO_SPAN:
        raise Refused("spanId is all zeros")
    return raw.hex()


def _parent_id(raw: bytes) -> str:
    """Empty and all zeros both say: no parent."""
    if not raw or raw == NO_SPAN:
        return ""
    if len(raw) != SPAN_ID_BYTES:
        raise Refused(f"parentSpanId must be 8 bytes, not {len(raw)}")
    return raw.hex()


def _events(raw: trace_pb2.Span, export: Export) -> Iterator[Event]:
    for event in raw.events[:MAX_EVENTS]:
        time_ns = event.time_unix_nano
        if time_ns > MAX_TIME_NS:
            export.repaired["event time beyond the year 2262, now absent"] += 1
            time_ns = 0
        yield Event(_name(event.name, export), time_ns, _attributes(event.attributes, export)[0])


def _links(raw: trace_pb2.Span, export: Export) -> Iterator[Link]:
    """Links only group. One that points nowhere is left out, and its span stays."""
    for link in raw.links[:MAX_LINKS]:
        try:
            trace_id, span_id = _trace_id(link.trace_id), _span_id(link.span_id)
        except Refused as reason:
            export.repaired[f"link left out: {reason}"] += 1
        else:
            yield Link(trace_id, span_id, _attributes(link.attributes, export)[0])


def _attributes(pairs: Sequence[KeyValue], export: Export) -> tuple[dict[str, Any], int]:
    """The attributes, the last of equal names winning, and how many were left out."""
    attributes: dict[str, Any] = {}
    too_many = max(0, len(pairs) - MAX_ATTRIBUTES)
    for pair in pairs[:MAX_ATTRIBUTES] if too_many else pairs:
        value = pair.value
        text = value.string_value
        if not text:
            attributes[pair.key] = value.int_value or _value(value, export)
        elif "\0" in text:
            attributes[pair.key] = _tidy(text, export)
        else:
            attributes[pair.key] = text
    kept, left_out = _with_sane_names(attributes, export)
    return kept, left_out + too_many


def _with_sane_names(attributes: dict[str, Any], export: Export) -> tuple[dict[str, Any], int]:
    """Nearly always as they are, and none left out: the tests look at all names together."""
    is_tidy = "\0" not in "".join(attributes) and "" not in attributes
    is_short = max(map(len, attributes), default=0) <= MAX_KEY_CHARS
    if is_tidy and is_short and OUR_KEYS.isdisjoint(attributes):
        return attributes, 0
    named = [(key, value) for key, value in attributes.items() if key and key not in OUR_KEYS]
    kept = {_tidy(key, export)[:MAX_KEY_CHARS]: value for key, value in named}
    return kept, len(attributes) - len(kept)


def _value(value: AnyValue, export: Export, depth: int = 0) -> Any:
    """What JSON can say: bytes become base64 text, and NaN and infinity their names."""
    which = value.WhichOneof("value")
    if which in {"int_value", "bool_value"}:
        return getattr(value, which)
    read = READERS.get(which or "")
    return None if read is None else read(value, export, depth)


def _string(value: AnyValue, export: Export, depth: int) -> str:
    return _tidy(value.string_value, export)


def _double(value: AnyValue, export: Export, depth: int) -> float | str:
    number = value.double_value
    return number if math.isfinite(number) else _not_finite(number)


def _bytes(value: AnyValue, export: Export, depth: int) -> str:
    return base64.b64encode(value.bytes_value).decode("ascii")


def _list(value: AnyValue, export: Export, depth: int) -> Any:
    if depth >= MAX_DEPTH:
        return TOO_DEEP
    return [_value(item, export, depth + 1) for item in value.array_value.values[:MAX_ITEMS]]


def _map(value: AnyValue, export: Export, depth: int) -> Any:
    if depth >= MAX_DEPTH:
        return TOO_DEEP
    pairs = value.kvlist_value.values[:MAX_ITEMS]
    return {_tidy(pair.key, export): _value(pair.value, export, depth + 1) for pair in pairs}


READERS: Mapping[str, Callable[[AnyValue, Export, int], Any]] = {
    "string_value": _string,
    "double_value": _double,
    "bytes_value": _bytes,
    "array_value": _list,
    "kvlist_value": _map,
}


def _not_finite(number: float) -> str:
    """The spelling of proto JSON."""
    if math.isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"


def _name(text: str, export: Export) -> str:
    return _tidy(cut(text, MAX_NAME_CHARS), export)


CUT = "... [cut: "


def cut(text: str, cap: int) -> str:
    """The text as it is, or its beginning with a word on what is missing."""
    return text if len(text) <= cap else f"{text[:cap]}{CUT}{len(text)} characters in all]"


def _tidy(text: str, export: Export) -> str:
    """Postgres text cannot hold NUL: it is replaced, never dropped."""
    if "\0" not in text:
        return text
    export.repaired["NUL character, now U+FFFD"] += 1
    return text.replace("\0", "\ufffd")


def _counted(reasons: Counter[str]) -> str:
    """The most frequent reasons; a hostile request has as many as spans."""
    told = [f"{count} x {reason}" for reason, count in reasons.most_common(MAX_REASONS)]
    more = len(reasons) - len(told)
    return "; ".join([*told, f"{more} more reasons"] if more else told)
