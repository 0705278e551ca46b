"""The spans of a request as OTLP/JSON: what any OpenTelemetry tool reads, this product's own too.

What the privacy door took away stays away, and its digest as well: whoever has one could test
guesses against it. So an analysis of the file knows less than the one here about what repeats.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from tracebudget.core.dialects.facts import LIFTED, is_redacted
from tracebudget.core.span import Attributes, Event, Link, Span

Json = dict[str, Any]


def export_of(spans: Iterable[Span]) -> Json:
    """An ExportTraceServiceRequest in the JSON of OTLP: ids in hex, 64-bit numbers as text."""
    by_sender = groupby(sorted(spans, key=_sender), key=_sender)
    return {"resourceSpans": [_of_sender(list(group)) for _sender, group in by_sender]}


def _sender(span: Span) -> tuple[str, str, str, str]:
    """What spans share that stand together."""
    return (
        repr(sorted(span.resource.items())),
        span.scope,
        span.scope_version,
        repr(sorted(span.scope_attributes.items())),
    )


def _of_sender(spans: list[Span]) -> Json:
    first = spans[0]
    scope = {
        "name": first.scope,
        "version": first.scope_version,
        "attributes": _pairs(first.scope_attributes),
    }
    return {
        "resource": {"attributes": _pairs(first.resource)},
        "scopeSpans": [{"scope": scope, "spans": [_span(span) for span in spans]}],
    }


def _span(span: Span) -> Json:
    return {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "parentSpanId": span.parent_id,
        "traceState": span.trace_state,
        "flags": span.flags,
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _pairs(span.attributes),
        "droppedAttributesCount": span.dropped_attributes,
        "events": [_event(event) for event in span.events],
        "droppedEventsCount": span.dropped_events,
        "links": [_link(link) for link in span.links],
        "droppedLinksCount": span.dropped_links,
        "status": {"code": span.status, "message": span.status_message},
    }


def _event(event: Event) -> Json:
    return {
        "name": event.name,
        "timeUnixNano": str(event.time_ns),
        "attributes": _pairs(event.attributes),
    }


def _link(link: Link) -> Json:
    return {
        "traceId": link.trace_id,
        "spanId": link.span_id,
        "attributes": _pairs(link.attributes),
    }


def _pairs(attributes: Attributes) -> list[Json]:
    return [
        {"key": key, "value": _any_value(value)}
        for key, value in attributes.items()
        if key != LIFTED
    ]


def _any_value(value: Any) -> Json:
    """An AnyValue: the name of its type, and the value."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_any_value(each) for each in value]}}
    return {} if value is None else {"kvlistValue": {"values": _members(value)}}


def _members(value: Mapping[str, Any]) -> list[Json]:
    hidden = {"digest"} if is_redacted(value) else set()
    return [
        {"key": key, "value": _any_value(each)} for key, each in value.items() if key not in hidden
    ]
