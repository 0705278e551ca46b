"""Files in, answers out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from ingest import otlp as door
from ingest.decode import Export
from ingest.errors import OtlpError
from tests import otlp
from tests.otlp import JSON, PROTOBUF, json_export, json_span


@pytest.mark.parametrize(
    ("content_type", "named"),
    [
        ("application/json", JSON),
        ("Application/JSON; charset=utf-8", JSON),
        ("application/x-protobuf", PROTOBUF),
        ("application/x-protobuf; messageType=x", PROTOBUF),
        ("application/protobuf", "application/protobuf"),
    ],
)
def test_media_type_ignores_parameters_and_case(content_type: str, named: str) -> None:
    assert door.media_type(content_type) == named


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/x-www-form-urlencoded"])
def test_other_types_are_415(content_type: str) -> None:
    with pytest.raises(OtlpError) as caught:
        door.media_type(content_type)
    assert caught.value.status == 415


PRETTY = json.dumps(json.loads(json_export(json_span())), indent=2).encode()
LINE = json_export(json_span()) + b"\n"


@pytest.mark.parametrize(
    ("content", "spans"),
    [
        (otlp.recorded(otlp.two_turns), [5]),
        (otlp.as_json(otlp.recorded(otlp.two_turns)), [5]),
        (PRETTY, [1]),
        (b"\xef\xbb\xbf" + PRETTY, [1]),
        (LINE, [1]),
        (LINE + b"\n" + LINE, [1, 1]),
        (b"", [0]),
    ],
    ids=["protobuf", "json", "pretty", "byte order mark", "one line", "lines", "empty"],
)
@pytest.mark.parametrize("is_gzipped", [False, True])
def test_files_are_told_apart_by_their_content(
    content: bytes, spans: list[int], is_gzipped: bool, tmp_path: Path
) -> None:
    content = gzip.compress(content) if is_gzipped else content
    file = tmp_path / "traces"
    file.write_bytes(content)
    for source in (content, file):
        assert [len(export.spans) for export in door.read_file(source)] == spans


def test_files_have_no_future_limit() -> None:
    year_2200 = json_span(startTimeUnixNano=str(7_258_118_400 * 10**9), endTimeUnixNano=...)
    (export,) = door.read_file(json_export(year_2200))
    assert len(export.spans) == 1


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"no traces in here", "protobuf"),
        (b"{", "not JSON"),
        (gzip.compress(LINE)[:-4], "ended"),
        (gzip.compress(LINE)[:-8] + bytes(8), "CRC"),
        (gzip.compress(LINE)[:20] + b"\xff" * 20, "invalid"),
        (LINE + LINE + b'{"resourceSpans": 7}\n', "Line 3"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(content: bytes, why: str) -> None:
    with pytest.raises(OtlpError, match=why):
        list(door.read_file(content))


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(OtlpError, match="No such file"):
        list(door.read_file(tmp_path / "missing.json"))


@pytest.mark.parametrize("place", [0, 1, 3])
def test_lines_beside_a_broken_one_are_read(place: int) -> None:
    lines = [LINE] * 3
    lines.insert(place, b'{"resourceSpans": [}\n')
    exports = door.read_file(b"".join(lines))
    assert [len(next(exports).spans) for _ in range(3)] == [1, 1, 1]
    with pytest.raises(OtlpError, match=f"^Line {place + 1}: .* at character 20"):
        next(exports)


def test_many_broken_lines_are_told_shortly() -> None:
    with pytest.raises(OtlpError, match=r"Line 5: .* 15 more lines cannot be read") as caught:
        list(door.read_file(b"{}}\n" * 20))
    assert len(caught.value.message) < 500


def test_a_broken_document_says_in_which_line() -> None:
    with pytest.raises(OtlpError, match="at line 3"):
        list(door.read_file(b'{\n"resourceSpans":\n!}\n'))


REFUSED = Export()
REFUSED.refused.update({"traceId is not hex": 2})


def test_success_is_an_empty_message_in_the_type_of_the_request() -> None:
    in_json, in_protobuf = (door.export_response(Export(), kind) for kind in (JSON, PROTOBUF))
    assert (in_json.headers["Content-Type"], in_json.content) == (JSON, b"{}")
    assert (in_protobuf.headers["Content-Type"], in_protobuf.content) == (PROTOBUF, b"")


def test_refused_spans_are_told_in_both_types() -> None:
    in_json, in_protobuf = (door.export_response(REFUSED, kind) for kind in (JSON, PROTOBUF))
    message = "Spans refused: 2 x traceId is not hex."
    partial = ExportTraceServiceResponse.FromString(in_protobuf.content).partial_success
    assert json.loads(in_json.content) == {
        "partialSuccess": {"rejectedSpans": "2", "errorMessage": message}
    }
    assert (partial.rejected_spans, partial.error_message) == (2, message)


@pytest.mark.parametrize("content_type", [PROTOBUF, "application/protobuf"])
def test_errors_are_a_status_in_protobuf(content_type: str) -> None:
    response = door.error_response(OtlpError(400, "broken"), content_type)
    assert (response.status_code, response.headers["Content-Type"]) == (400, content_type)
    assert Status.FromString(response.content) == Status(code=3, message="broken")


@pytest.mark.parametrize("content_type", [JSON, "text/plain", ""])
def test_errors_are_a_status_in_json_for_all_others(content_type: str) -> None:
    response = door.error_response(OtlpError(415, "unknown"), content_type)
    assert response.headers["Content-Type"] == JSON
    assert json.loads(response.content) == {"code": 3, "message": "unknown"}


def test_retry_after_stands_only_where_a_retry_can_help() -> None:
    away = door.error_response(OtlpError(503, "away", retry_after=5), JSON)
    broken = door.error_response(OtlpError(400, "broken"), JSON)
    assert away.headers["Retry-After"] == "5"
    assert "Retry-After" not in broken.headers
