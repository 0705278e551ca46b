"""OTLP messages become spans: what is let in, what is refused, what is tidied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue
from opentelemetry.proto.trace.v1 import trace_pb2

from ingest.decode import (
    MARKS_KEY,
    MAX_ATTRIBUTES,
    MAX_DEPTH,
    MAX_EVENTS,
    MAX_KEY_CHARS,
    MAX_LINKS,
    MAX_NAME_CHARS,
    TOO_DEEP,
    Export,
    add_spans,
)
from tests import otlp
from tests.otlp import MS, START_NS
from tracebudget.core.dialects.facts import LIFTED
from tracebudget.core.span import KIND_CLIENT, STATUS_ERROR, Span

Change = Callable[[trace_pb2.Span], object]


def decoded(*changes: Change, latest_ns: int = 2**63 - 1) -> Export:
    """One good span for each change, changed by it."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for change in changes:
        span = spans.add(
            trace_id=bytes.fromhex(otlp.TRACE_ID),
            span_id=bytes.fromhex(otlp.SPAN_ID),
            name="chat",
            start_time_unix_nano=START_NS,
            end_time_unix_nano=START_NS + MS,
        )
        change(span)
    export = Export(latest_ns)
    add_spans(request, export)
    return export


def only_span(change: Change) -> Span:
    (span,) = decoded(change).spans
    return span


def attribute(**value: Any) -> Any:
    """What becomes of one attribute."""
    return only_span(lambda s: s.attributes.add(key="k", value=AnyValue(**value))).attributes["k"]


def test_an_sdk_export_arrives_whole() -> None:
    export = Export()
    add_spans(ExportTraceServiceRequest.FromString(otlp.recorded(otlp.two_turns)), export)
    root = next(span for span in export.spans if not span.parent_id)
    calls = [span for span in export.spans if span.kind == KIND_CLIENT]
    assert len(export.spans) == 5
    assert export.message() == ""
    assert root.name == "invoke_agent support"
    assert (root.start_ns, root.end_ns) == (START_NS, START_NS + 461 * MS)
    assert root.service == "shop-agent"
    assert (root.scope, root.scope_version) == ("tests", "1.0")
    assert {call.parent_id for call in calls} == {root.span_id}
    assert calls[0].attributes["gen_ai.response.time_to_first_chunk"] == 0.058
    assert calls[0].attributes["gen_ai.response.finish_reasons"] == ["tool_calls"]
    assert calls[0].attributes["gen_ai.request.stream"] is True


def test_sender_is_shared_not_copied() -> None:
    export = Export()
    add_spans(ExportTraceServiceRequest.FromString(otlp.recorded(otlp.two_turns)), export)
    assert len({id(span.resource) for span in export.spans}) == 1


def test_events_status_and_links_arrive() -> None:
    def change(span: trace_pb2.Span) -> None:
        span.status.code = trace_pb2.Status.STATUS_CODE_ERROR
        span.status.message = "declined"
        span.events.add(name="exception", time_unix_nano=START_NS).attributes.add(
            key="exception.type", value=AnyValue(string_value="ValueError")
        )
        span.links.add(trace_id=b"\1" * 16, span_id=b"\2" * 8)
        span.links.add(trace_id=b"", span_id=b"\2" * 8)

    export = decoded(change)
    (span,) = export.spans
    (event,) = span.events
    assert (span.status, span.status_message) == (STATUS_ERROR, "declined")
    assert (event.name, event.time_ns) == ("exception", START_NS)
    assert event.attributes == {"exception.type": "ValueError"}
    assert [(link.trace_id, link.span_id) for link in span.links] == [("01" * 16, "02" * 8)]
    assert "1 x link left out" in export.message()


def set_trace_id(raw: bytes) -> Change:
    return lambda span: setattr(span, "trace_id", raw)


def set_span_id(raw: bytes) -> Change:
    return lambda span: setattr(span, "span_id", raw)


def set_parent_id(raw: bytes) -> Change:
    return lambda span: setattr(span, "parent_span_id", raw)


def set_times(start_ns: int, end_ns: int) -> Change:
    def change(span: trace_pb2.Span) -> None:
        span.start_time_unix_nano, span.end_time_unix_nano = start_ns, end_ns

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (set_trace_id(b""), "traceId is missing"),
        (set_trace_id(bytes(16)), "traceId is all zeros"),
        (set_trace_id(b"x" * 15), "traceId must be 16 bytes, not 15"),
        (set_span_id(b""), "spanId is missing"),
        (set_span_id(bytes(8)), "spanId is all zeros"),
        (set_span_id(b"x" * 9), "spanId must be 8 bytes, not 9"),
        (set_parent_id(b"x" * 7), "parentSpanId must be 8 bytes, not 7"),
        (set_times(0, START_NS), "startTimeUnixNano is missing"),
        (set_times(0, 0), "startTimeUnixNano is missing"),
        (set_times(START_NS, 2**64 - 1), "a time lies beyond the year 2262"),
        (set_times(2**63, 2**63), "a time lies beyond the year 2262"),
    ],
)
def test_a_bad_span_is_refused_with_a_reason_and_its_neighbour_stays(
    change: Change, reason: str
) -> None:
    export = decoded(change, lambda _: None)
    assert len(export.spans) == 1
    assert export.refused == {reason: 1}
    assert export.message() == f"Spans refused: 1 x {reason}."


def test_future_is_refused_beyond_the_limit() -> None:
    def of_day(day: int) -> Change:
        return set_times(START_NS + day * 86_400 * 10**9, START_NS + day * 86_400 * 10**9 + MS)

    export = decoded(of_day(0), of_day(1), latest_ns=START_NS + MS)
    assert len(export.spans) == 1
    assert "MAX_FUTURE_SECONDS" in export.message()


def test_open_span_is_welcome() -> None:
    assert only_span(set_times(START_NS, 0)).end_ns == 0


@pytest.mark.parametrize("raw", [b"", bytes(8)])
def test_no_parent_has_two_spellings(raw: bytes) -> None:
    assert only_span(set_parent_id(raw)).parent_id == ""


def test_64_bit_trace_id_is_padded_on_the_left() -> None:
    assert only_span(set_trace_id(b"\xab" * 8)).trace_id == "0" * 16 + "ab" * 8


def test_message_stays_short_whatever_comes() -> None:
    export = decoded(*(set_trace_id(b"x" * length) for length in range(100, 150)))
    assert export.refused.total() == 50
    assert "40 more reasons" in export.message()
    assert len(export.message()) < 1000


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"string_value": "text"}, "text"),
        ({"string_value": ""}, ""),
        ({"bool_value": False}, False),
        ({"int_value": -(2**63)}, -(2**63)),
        ({"int_value": 9007199254740993}, 9007199254740993),
        ({"double_value": 0.25}, 0.25),
        ({"double_value": float("nan")}, "NaN"),
        ({"double_value": float("inf")}, "Infinity"),
        ({"double_value": float("-inf")}, "-Infinity"),
        ({"bytes_value": b"\0\xff"}, "AP8="),
        ({"array_value": {}}, []),
        ({"array_value": {"values": [{"string_value": "a"}, {}]}}, ["a", None]),
        ({"kvlist_value": {"values": [{"key": "a", "value": {"int_value": 1}}]}}, {"a": 1}),
        ({}, None),
        ({"string_value": "a\0b"}, "a\ufffdb"),
    ],
)
def test_values(value: dict[str, Any], expected: Any) -> None:
    result = attribute(**value)
    assert result == expected
    assert type(result) is type(expected)


def test_monstrous_numbers_of_events_and_links_are_cut_and_counted() -> None:
    def change(span: trace_pb2.Span) -> None:
        for _ in range(MAX_EVENTS + 7):
            span.events.add(name="token")
        for _ in range(MAX_LINKS + 7):
            span.links.add(trace_id=b"t" * 16, span_id=b"s" * 8)
        span.dropped_events_count = span.dropped_links_count = 1

    span = only_span(change)
    assert (len(span.events), span.dropped_events) == (MAX_EVENTS, 8)
    assert (len(span.links), span.dropped_links) == (MAX_LINKS, 8)


def test_deep_values_are_cut() -> None:
    value = AnyValue(string_value="bottom")
    for _ in range(MAX_DEPTH + 5):
        value = AnyValue(array_value=ArrayValue(values=[value]))
    result, depth = attribute(array_value=value.array_value), 0
    while isinstance(result, list):
        (result,) = result
        depth += 1
    assert (result, depth) == (TOO_DEEP, MAX_DEPTH)


def test_of_equal_keys_the_last_wins() -> None:
    def change(span: trace_pb2.Span) -> None:
        for number in (10, 20):
            span.attributes.add(key="k", value=AnyValue(int_value=number))

    assert only_span(change).attributes == {"k": 20}


def test_nul_in_names_and_keys_is_replaced_and_told() -> None:
    def change(span: trace_pb2.Span) -> None:
        span.name = "na\0me"
        span.attributes.add(key="k\0ey", value=AnyValue(string_value="v"))

    export = decoded(change)
    assert export.spans[0].name == "na\ufffdme"
    assert export.spans[0].attributes == {"k\ufffdey": "v"}
    assert export.message() == "Repaired: 2 x NUL character, now U+FFFD."


def test_monstrous_names_and_numbers_of_attributes_are_cut_and_counted() -> None:
    def change(span: trace_pb2.Span) -> None:
        span.name = "n" * 20_000
        span.dropped_attributes_count = 1
        span.attributes.add(key="k" * 1000, value=AnyValue(int_value=1))
        for number in range(MAX_ATTRIBUTES + 9):
            span.attributes.add(key=f"k{number}", value=AnyValue(int_value=number))

    span = only_span(change)
    assert span.name == "n" * MAX_NAME_CHARS + "... [cut: 20000 characters in all]"
    assert "k" * MAX_KEY_CHARS in span.attributes
    assert len(span.attributes) == MAX_ATTRIBUTES
    assert span.dropped_attributes == 1 + 10


@pytest.mark.parametrize("key", ["", MARKS_KEY, LIFTED])
def test_keys_that_are_none_or_ours_are_left_out(key: str) -> None:
    def change(span: trace_pb2.Span) -> None:
        span.attributes.add(key=key, value=AnyValue(string_value="forged"))
        span.attributes.add(key="own", value=AnyValue(string_value="kept"))

    span = only_span(change)
    assert span.attributes == {"own": "kept"}
    assert span.dropped_attributes == 1


def test_unknown_numbers_are_unspecified_and_marked() -> None:
    def change(span: trace_pb2.Span) -> None:
        span.kind, span.status.code = 99, 7  # type: ignore[assignment]

    span = only_span(change)
    assert (span.kind, span.status) == (0, 0)
    assert span.attributes[MARKS_KEY] == {"kind": 99, "status": 7}


def test_event_beyond_the_calendar_keeps_no_time() -> None:
    export = decoded(lambda span: span.events.add(name="e", time_unix_nano=2**64 - 1))
    assert export.spans[0].events[0].time_ns == 0
    assert "event time" in export.message()
