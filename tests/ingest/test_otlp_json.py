"""OTLP/JSON to the letter, and the spellings that real senders use beside it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ingest import otlp_json
from ingest.decode import MAX_DEPTH, Export, add_spans
from ingest.errors import OtlpError
from tests import otlp
from tests.otlp import MS, SPAN_ID, START_NS, TRACE_ID, json_attributes, json_export, json_span
from tracebudget.core.span import KIND_CLIENT, KIND_SERVER, STATUS_ERROR, Span


def read(body: bytes) -> Export:
    export = Export()
    add_spans(otlp_json.parse(body, export), export)
    return export


def only_span(**changes: Any) -> Span:
    export = read(json_export(json_span(**changes)))
    assert export.refused == {}
    (span,) = export.spans
    return span


def refusal(body: bytes | str) -> str:
    with pytest.raises(OtlpError) as caught:
        read(body.encode() if isinstance(body, str) else body)
    assert caught.value.status == 400
    return caught.value.message


def attribute(value: Any) -> Any:
    return only_span(attributes=json_attributes(k=value)).attributes["k"]


def test_both_encodings_give_the_same_spans() -> None:
    body = otlp.recorded(otlp.two_turns) + otlp.recorded(otlp.failing_tool)
    export = Export()
    add_spans(ExportTraceServiceRequest.FromString(body), export)
    assert read(otlp.as_json(body)).spans == export.spans


# --- ids ---


@pytest.mark.parametrize(
    ("field", "text", "expected"),
    [
        ("traceId", TRACE_ID.upper(), TRACE_ID),
        ("traceId", "CvdlGRbNQ92ESOshHIAxnA==", TRACE_ID),
        ("traceId", "00f067aa0ba902b7", "0" * 16 + "00f067aa0ba902b7"),
        ("spanId", SPAN_ID.upper(), SPAN_ID),
        ("traceId", "CvdlGRbNQ92ESOshHIAxnA", TRACE_ID),
        ("spanId", "APBnqgupArc=", SPAN_ID),
        ("spanId", "APBnqgupArc", SPAN_ID),
        ("spanId", "-_Bnqgup-rc=", "fbf067aa0ba9fab7"),
        ("spanId", {"type": "Buffer", "data": [*bytes.fromhex(SPAN_ID)]}, SPAN_ID),
        ("parentSpanId", "APBnqgupArc=", SPAN_ID),
        ("parentSpanId", {"type": "Buffer", "data": []}, ""),
        ("parentSpanId", "", ""),
        ("parentSpanId", "0" * 16, ""),
        ("parentSpanId", None, ""),
    ],
)
def test_ids_are_hex_in_either_case_or_base64(field: str, text: Any, expected: str) -> None:
    name = {"traceId": "trace_id", "spanId": "span_id", "parentSpanId": "parent_id"}[field]
    assert getattr(only_span(**{field: text}), name) == expected


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"traceId": "nope"}, "traceId is not hex"),
        ({"traceId": "0" * 30 + "1g"}, "traceId is not hex"),
        ({"traceId": "ab" * 12}, "traceId must be 16 bytes, not 12"),
        ({"traceId": 7}, "traceId is no text"),
        ({"traceId": "0af76519-16cd-43dd-8448-eb211c80319c"}, "traceId is not hex"),
        ({"traceId": "0af76519 16cd43dd 8448eb21 1c80319c"}, "traceId is not hex"),
        ({"traceId": {"type": "Buffer", "data": [256] * 16}}, "traceId is not hex"),
        ({"traceId": {"type": "Buffer"}}, "traceId is not hex"),
        ({"spanId": "00f067aa0ba"}, "spanId is not hex"),
        ({"traceId": ...}, "traceId is missing"),
        ({"spanId": "abc"}, "spanId is not hex"),
        ({"spanId": "*" * 11 + "="}, "spanId is not hex"),
        ({"startTimeUnixNano": "yesterday"}, "startTimeUnixNano is no whole number"),
        ({"startTimeUnixNano": "1.5"}, "startTimeUnixNano is no whole number"),
        ({"startTimeUnixNano": True}, "startTimeUnixNano is no whole number"),
        ({"startTimeUnixNano": "-1"}, "startTimeUnixNano is out of range"),
        ({"endTimeUnixNano": "9" * 39}, "endTimeUnixNano is out of range"),
        ({"endTimeUnixNano": "1e99"}, "endTimeUnixNano is out of range"),
        ({"endTimeUnixNano": {"low": 1}}, "endTimeUnixNano is no whole number"),
        ({"name": {}}, "name is no text"),
        ({"status": "ERROR"}, "status is no object"),
        ({"events": {}}, "events is no list"),
        ({"attributes": {"a": 1}}, "attributes is no list"),
        ({"kind": 2**31}, "kind is out of range"),
        ({"flags": -1}, "flags is out of range"),
    ],
)
def test_a_bad_span_is_refused_with_a_reason_and_its_neighbour_stays(
    changes: dict[str, Any], reason: str
) -> None:
    export = read(json_export(json_span(**changes), json_span()))
    assert len(export.spans) == 1
    assert export.refused == {reason: 1}


def test_a_span_that_is_no_object_is_refused() -> None:
    assert read(json_export("span", None, json_span())).refused == {"span is no object": 2}


# --- numbers ---


@pytest.mark.parametrize(
    ("spelling", "expected"),
    [
        ("1790000001123456789", 1790000001123456789),
        ('"1790000001123456789"', 1790000001123456789),
        ("1.790000000123456e18", 1790000000123456000),
        ('"1.790000000123456E+18"', 1790000000123456000),
        ("1790000000123456789.0", 1790000000123456789),
        ('{"low": 466848096, "high": 406528574, "unsigned": true}', 1746026930686364000),
        ('{"low": -1, "high": 0}', 4294967295),
    ],
)
def test_times_are_exact_in_every_spelling(spelling: str, expected: int) -> None:
    body = json_export(json_span(startTimeUnixNano="HERE", endTimeUnixNano=...))
    (span,) = read(body.replace(b'"HERE"', spelling.encode())).spans
    assert span.start_ns == expected


HUGE = ["1" * 5000, "1e999999999", '"1e999999999"', "1e99999999999999999999", "0." + "1" * 5000]


@pytest.mark.parametrize("huge", HUGE)
@pytest.mark.parametrize("value_type", ["intValue", "doubleValue", "stringValue", "boolValue"])
def test_a_huge_number_costs_its_attribute_and_no_neighbour(value_type: str, huge: str) -> None:
    good, odd = json_attributes(good={"intValue": 1}, odd={value_type: "HERE"})
    body = json_export(json_span(attributes=[odd, good])).replace(b'"HERE"', huge.encode())
    (span,) = read(body).spans
    assert span.attributes["good"] == 1
    assert len(str(span.attributes.get("odd"))) <= 5000


@pytest.mark.parametrize("huge", HUGE)
def test_a_huge_time_costs_its_span_and_no_neighbour(huge: str) -> None:
    odd = json_export(json_span(startTimeUnixNano="HERE"), json_span())
    export = read(odd.replace(b'"HERE"', huge.encode()))
    assert (len(export.spans), export.refused.total()) == (1, 1)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"stringValue": "text"}, "text"),
        ({"boolValue": True}, True),
        ({"intValue": 7}, 7),
        ({"intValue": "8"}, 8),
        ({"intValue": 9007199254740993}, 9007199254740993),
        ({"intValue": {"low": -1, "high": -1}}, -1),
        ({"intValue": str(2**80)}, str(2**80)),
        ({"doubleValue": 120}, 120.0),
        ({"doubleValue": 0.058}, 0.058),
        ({"doubleValue": "NaN"}, "NaN"),
        ({"doubleValue": "-Infinity"}, "-Infinity"),
        ({"bytesValue": "AAH/gA=="}, "AAH/gA=="),
        ({"bytesValue": "-_8"}, "+/8="),
        ({"bytesValue": ""}, ""),
        ({"arrayValue": {}}, []),
        ({"arrayValue": {"values": None}}, []),
        ({"arrayValue": {"values": [{"intValue": 1}, {}, None]}}, [1, None, None]),
        ({"kvlistValue": {"values": [{"key": "a", "value": {"intValue": 1}}]}}, {"a": 1}),
        ({"kvlistValue": {}}, {}),
        ({"quaternionValue": "1"}, None),
        ({"stringValue": None, "intValue": 1}, 1),
        ({"stringValue": "first", "intValue": 1}, "first"),
        ({}, None),
        (None, None),
    ],
)
def test_values(value: Any, expected: Any) -> None:
    result = attribute(value)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    "odd",
    [
        {"key": "k", "value": {"bytesValue": "***"}},
        {"key": "k", "value": {"intValue": "many"}},
        {"key": "k", "value": {"intValue": 1.5}},
        {"key": "k", "value": {"stringValue": 5}},
        {"key": "k", "value": {"boolValue": "maybe"}},
        {"key": "k", "value": {"doubleValue": []}},
        {"key": "k", "value": {"arrayValue": {"values": 7}}},
        {"key": "k", "value": {"arrayValue": {"values": ["bare"]}}},
        {"key": "k", "value": {"kvlistValue": {"values": [{"key": 1}]}}},
        {"key": "k", "value": "bare"},
        {"key": 5, "value": {"intValue": 1}},
        {"value": {"stringValue": "no key"}},
        "no object",
        None,
    ],
)
def test_an_odd_attribute_is_left_out_counted_and_costs_no_neighbour(odd: Any) -> None:
    good = {"key": "good", "value": {"stringValue": "kept"}}
    span = only_span(attributes=[odd, good], droppedAttributesCount=2)
    assert span.attributes == {"good": "kept"}
    assert span.dropped_attributes == 3


def test_deep_values_do_not_exhaust_the_stack() -> None:
    value: dict[str, Any] = {"stringValue": "bottom"}
    for _ in range(MAX_DEPTH * 3):
        value = {"arrayValue": {"values": [value]}}
    assert "too deeply" in json.dumps(attribute(value))


@pytest.mark.parametrize(
    ("opening", "closing"),
    [('{"arrayValue": {"values": [', "]}}"), ("[", "]"), ('{"x": "]", "y": ', "}")],
)
def test_a_bottomless_value_is_cut_and_told_and_costs_no_neighbour(
    opening: str, closing: str
) -> None:
    good, deep = json_attributes(good={"stringValue": "[[{"}, deep="HERE")
    body = json_export(json_span(attributes=[deep, good]), json_span()).decode()
    export = read(body.replace('"HERE"', opening * 5000 + "1" + closing * 5000).encode())
    assert [span.attributes.get("good") for span in export.spans] == ["[[{", None]
    assert "nested deeper" in export.message()


def test_a_bottomless_body_without_an_end_is_400() -> None:
    assert "not JSON" in refusal('{"resourceSpans":' + "[" * 100_000)


# --- enums ---


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (2, KIND_SERVER),
        ("2", KIND_SERVER),
        (2.0, KIND_SERVER),
        ("SPAN_KIND_SERVER", KIND_SERVER),
        ("client", KIND_CLIENT),
        ("SPAN_KIND_NOVEL", 0),
        (-1, 0),
        (None, 0),
        (..., 0),
    ],
)
def test_kind_is_a_number_or_a_name(kind: Any, expected: int) -> None:
    assert only_span(kind=kind).kind == expected


@pytest.mark.parametrize("code", [2, "STATUS_CODE_ERROR", "ERROR"])
def test_status_is_a_number_or_a_name(code: Any) -> None:
    span = only_span(status={"code": code, "message": "declined"})
    assert (span.status, span.status_message) == (STATUS_ERROR, "declined")


# --- the rest of a span ---


def test_events_and_links() -> None:
    span = only_span(
        events=[
            {"name": "first_token", "timeUnixNano": str(START_NS + MS), "attributes": None},
            {"name": "no time"},
            {"timeUnixNano": "never"},
        ],
        links=[{"traceId": TRACE_ID, "spanId": SPAN_ID.upper()}, {"traceId": "x"}],
    )
    assert [(event.name, event.time_ns) for event in span.events] == [
        ("first_token", START_NS + MS),
        ("no time", 0),
    ]
    assert [link.span_id for link in span.links] == [SPAN_ID]
    assert (span.dropped_events, span.dropped_links) == (1, 1)


@pytest.mark.parametrize(
    ("escaped", "expected"),
    [
        (r"\ud83d\ude00", "\U0001f600"),
        (r"\ud83d", "\ufffd"),
        (r"a\ude00b", "a\ufffdb"),
        (r"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (r"\\ud83d", r"\ud83d"),
        (r"\\\ud83d", "\\\ufffd"),
        (r"a\u0000b", "a\ufffdb"),
    ],
)
def test_half_characters_and_nul_are_replaced(escaped: str, expected: str) -> None:
    body = json_export(json_span(name="HERE")).replace(b"HERE", escaped.encode())
    (span,) = read(body).spans
    assert span.name == expected


def test_text_that_is_not_utf8_is_repaired_and_told() -> None:
    export = read(json_export(json_span(name="HERE")).replace(b"HERE", b"\xe4\xbd"))
    assert export.spans[0].name == "\ufffd"
    assert "not UTF-8" in export.message()


def test_byte_order_mark_is_skipped() -> None:
    assert len(read(b"\xef\xbb\xbf" + json_export(json_span())).spans) == 1


# --- the frame around the spans ---


@pytest.mark.parametrize(
    "body",
    [
        "{}",
        '{"resourceSpans": null}',
        '{"resourceSpans": []}',
        '{"resourceSpans": [{"scopeSpans": [{"spans": []}]}]}',
        '{"resourceSpans": [{"resource": null, "scopeSpans": [{"scope": null, "spans": null}]}]}',
    ],
)
def test_nothing_is_a_legal_request(body: str) -> None:
    export = read(body.encode())
    assert (export.spans, export.message()) == ([], "")


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "null",
        "{",
        '{"resourceSpans": 7}',
        '{"resourceSpans": {}}',
        "{'resourceSpans': []}",
    ],
)
def test_a_broken_frame_is_400(body: str) -> None:
    refusal(body)


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (7, "resourceSpans holds something that is no object"),
        ({"scopeSpans": {}}, "scopeSpans is no list"),
        ({"scopeSpans": [7]}, "scopeSpans holds something that is no object"),
        ({"scopeSpans": [{"spans": "x"}]}, "spans is no list"),
    ],
)
def test_a_broken_list_of_spans_counts_as_refused_and_costs_no_neighbour(
    odd: Any, reason: str
) -> None:
    document = json.loads(json_export(json_span()))
    document["resourceSpans"].insert(0, odd)
    export = read(json.dumps(document).encode())
    assert (len(export.spans), export.refused) == (1, {reason: 1})


@pytest.mark.parametrize(
    ("resource", "scope", "reason"),
    [
        ([], {}, "resource is no object"),
        ({"attributes": {"a": 1}}, {}, "attributes is no list"),
        ({}, "scope", "scope is no object"),
        ({}, {"name": 5}, "name is no text"),
        ({}, {"version": 5}, "version is no text"),
        ({}, {"attributes": 5}, "attributes is no list"),
    ],
)
def test_a_broken_sender_is_told_and_costs_no_span(resource: Any, scope: Any, reason: str) -> None:
    scope_spans = {"scope": scope, "spans": [json_span()]}
    document = {"resourceSpans": [{"resource": resource, "scopeSpans": [scope_spans]}]}
    export = read(json.dumps(document).encode())
    assert (len(export.spans), export.repaired) == (1, {reason: 1})


def test_bare_nan_is_400() -> None:
    assert "NaN is not JSON" in refusal('{"resourceSpans": [], "x": NaN}')


def test_json_lines_are_400_with_a_hint() -> None:
    assert "line by line" in refusal('{"resourceSpans": []}\n{"resourceSpans": []}\n')


def test_a_body_without_resource_spans_is_not_silent() -> None:
    export = read(b'{"resourceLogs": []}')
    assert (export.spans, export.refused) == ([], {})
    assert "nothing to store" in export.message()


def test_names_with_underscores_are_read_and_those_of_attributes_stay() -> None:
    span = json_span(attributes=json_attributes(user_id={"stringValue": "start_time"}))
    text = json_export(span).decode()
    for name in ("resourceSpans", "scopeSpans", "traceId", "startTimeUnixNano", "stringValue"):
        text = text.replace(f'"{name}"', f'"{re.sub("[A-Z]", lambda m: "_" + m[0].lower(), name)}"')
    assert "resource_spans" in text
    assert read(text.encode()).spans == read(json_export(span)).spans


def test_unknown_fields_are_ignored_everywhere() -> None:
    span = json_span(futureField={"a": 1}, status={"code": 1, "deprecatedCode": 0})
    document = json.loads(json_export(span)) | {"schemaVersion": 9}
    assert len(read(json.dumps(document).encode()).spans) == 1


def test_spans_of_the_old_libraries_are_read() -> None:
    library = {"name": "old", "version": "0.19"}
    scope = {"instrumentationLibrary": library, "spans": [json_span()]}
    body = json.dumps({"resourceSpans": [{"instrumentationLibrarySpans": [scope]}]})
    (span,) = read(body.encode()).spans
    assert (span.scope, span.scope_version) == ("old", "0.19")
