"""Protobuf bodies, the broken ones too."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1 import trace_pb2

from ingest import otlp_protobuf
from ingest.decode import Export, add_spans
from ingest.errors import OtlpError
from tests import otlp


def read(body: bytes) -> Export:
    export = Export()
    add_spans(otlp_protobuf.parse(body, export), export)
    return export


def test_empty_body_is_an_empty_request() -> None:
    assert read(b"").spans == []


@pytest.mark.parametrize("body", [b'{"resourceSpans": []}', b"\xff" * 64, b"plain text"])
def test_what_is_no_protobuf_is_400(body: bytes) -> None:
    with pytest.raises(OtlpError) as caught:
        read(body)
    assert caught.value.status == 400


def test_cut_protobuf_is_400() -> None:
    body = otlp.recorded(otlp.two_turns)
    with pytest.raises(OtlpError) as caught:
        read(body[: len(body) // 2])
    assert caught.value.status == 400


def test_text_cut_inside_a_character_is_repaired_and_costs_no_neighbour() -> None:
    body = otlp.recorded(otlp.two_turns)
    half_a_character = body.replace(
        b"execute_tool search_order", b"execute_tool search_ord\xe4\xbd"
    )
    assert half_a_character != body
    export = read(half_a_character)
    names = sorted(span.name for span in export.spans)
    assert len(names) == 5
    assert "execute_tool search_ord\ufffd" in names
    assert "not UTF-8" in export.message()
    good = {span.span_id: span for span in read(body).spans}
    changed = [span for span in export.spans if span != good[span.span_id]]
    assert len(changed) == 1


def with_first_span(change: Callable[[trace_pb2.Span], bytes]) -> bytes:
    """Two turns, what `change` gives put in place of its first span, as bytes of its own."""
    request = ExportTraceServiceRequest.FromString(otlp.recorded(otlp.two_turns))
    (scope_spans,) = request.resource_spans[0].scope_spans
    changed = change(scope_spans.spans[0])
    del scope_spans.spans[0]
    inner = length_delimited(2, length_delimited(2, changed))
    return request.SerializeToString() + length_delimited(1, inner)


def length_delimited(field: int, content: bytes) -> bytes:
    length, size = bytearray(), len(content)
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([field << 3 | 2, *length, size]) + content


def nested(levels: int) -> bytes:
    """An attribute whose value is a list in a list in a list ..."""
    value = AnyValue(string_value="innermost").SerializeToString()
    for _ in range(levels):
        value = length_delimited(5, length_delimited(1, value))
    return length_delimited(9, length_delimited(1, b"deep") + length_delimited(2, value))


@pytest.mark.parametrize(
    ("spoil", "is_refused"),
    [
        (lambda span: span.SerializeToString() + nested(40), False),
        (lambda span: span.SerializeToString() + nested(60), True),
        (lambda span: span.SerializeToString() + nested(20_000), True),
        (lambda span: span.SerializeToString()[:-1], True),
        (lambda span: b"\xff" * 20, True),
    ],
    ids=["deep", "too deep", "far too deep", "cut", "garbage"],
)
def test_an_unreadable_span_is_refused_and_its_neighbours_stay(
    spoil: Callable[[trace_pb2.Span], bytes], is_refused: bool
) -> None:
    export = read(with_first_span(spoil))
    assert len(export.spans) == 5 - is_refused
    assert export.refused.total() == is_refused
    assert not is_refused or "nested deeper" in export.message()


def test_a_resource_nested_too_deeply_is_400() -> None:
    body = length_delimited(1, length_delimited(1, nested(60).replace(b"\x4a", b"\x0a", 1)))
    with pytest.raises(OtlpError, match="nested") as caught:
        read(body)
    assert caught.value.status == 400


def test_broken_text_is_repaired_wherever_it_stands() -> None:
    def spoil(span: trace_pb2.Span) -> bytes:
        span.events.add(name="half").attributes.add(key="key").value.string_value = "value"
        span.status.message = "refusal"
        whole = span.SerializeToString()
        for text in (b"half", b"key", b"value", b"refusal"):
            whole = whole.replace(text, text[:-1] + b"\xe4")
        return whole

    export = read(with_first_span(spoil))
    (span,) = [span for span in export.spans if span.events]
    assert (span.status_message, span.events[0].name) == ("refusa\ufffd", "hal\ufffd")
    assert span.events[0].attributes == {"ke\ufffd": "valu\ufffd"}
    assert export.repaired == {otlp_protobuf.NOT_UTF8: 4}


def test_unknown_fields_are_ignored() -> None:
    field_99 = b"\x9a\x06\x03new"
    assert len(read(otlp.recorded(otlp.two_turns) + field_99).spans) == 5
