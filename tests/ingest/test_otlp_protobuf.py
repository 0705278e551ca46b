"""Protobuf bodies, the broken ones too."""

from __future__ import annotations

import pytest

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


def test_unknown_fields_are_ignored() -> None:
    field_99 = b"\x9a\x06\x03new"
    assert len(read(otlp.recorded(otlp.two_turns) + field_99).spans) == 5
