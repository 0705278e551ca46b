"""Small parts in great numbers are refused before they fill memory; large bodies take turns."""

from __future__ import annotations

import threading

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ingest import bounds
from ingest.bounds import LIGHT_BYTES, MAX_JSON_OBJECTS, MAX_PARTS
from ingest.errors import OtlpError
from ingest.otlp import read_export
from tests import otlp
from tests.otlp import JSON, PROTOBUF

EMPTY_RESOURCE = b"\x0a\x00"


def refusal(body: bytes, content_type: str) -> OtlpError:
    with pytest.raises(OtlpError) as caught:
        read_export(body, content_type)
    return caught.value


def spans(count: int) -> bytes:
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.extend(
        [otlp.request_with().resource_spans[0].scope_spans[0].spans[0]] * count
    )
    return request.SerializeToString()


@pytest.mark.parametrize(
    "body",
    [
        EMPTY_RESOURCE * (MAX_PARTS + 1),
        EMPTY_RESOURCE * (MAX_PARTS + 1)
        + otlp.recorded(otlp.two_turns).replace(b"chat", b"ch\xff\xff"),
        spans(MAX_PARTS - 1),
    ],
    ids=["resources", "resources and broken text", "spans"],
)
def test_more_parts_than_any_exporter_sends_are_413(body: bytes) -> None:
    error = refusal(body, PROTOBUF)
    assert (error.status, error.retry_after) == (413, None)
    assert "smaller batches" in error.message


def test_as_many_parts_as_are_let_in_are_read() -> None:
    assert len(read_export(spans(MAX_PARTS - 2), PROTOBUF).spans) == MAX_PARTS - 2


def test_more_json_objects_than_any_exporter_sends_are_413() -> None:
    text = '{"resourceSpans": [' + "{}," * MAX_JSON_OBJECTS + "{}]}"
    assert refusal(text.encode(), JSON).status == 413


def test_large_bodies_are_decoded_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_WAIT_SECONDS", 0.1)
    told: list[OtlpError] = []

    def wait_in_vain() -> None:
        try:
            with bounds.turn(LIGHT_BYTES + 1):
                pass
        except OtlpError as error:
            told.append(error)

    with bounds.turn(LIGHT_BYTES + 1):
        other = threading.Thread(target=wait_in_vain)
        other.start()
        other.join()
        with bounds.turn(LIGHT_BYTES):
            pass
    assert [(error.status, error.retry_after) for error in told] == [(503, 5)]
    wait_in_vain()
    assert len(told) == 1
