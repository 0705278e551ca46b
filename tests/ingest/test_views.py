"""POST /v1/traces, whole: from the bytes of an exporter to rows and an answer."""

from __future__ import annotations

import gc
import gzip
import tracemalloc
import zlib
from datetime import timedelta
from pathlib import Path
from typing import cast

import psycopg
import pytest
from django.db import connection
from django.http import HttpResponse
from django.utils import timezone
from google.rpc import code_pb2
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from pytest_django import DjangoAssertNumQueries, Settings

from ingest import receipts
from tests import otlp
from tests.ingest.exporter import Exporter, analyse_all, error_message, partial_success, rejected
from tests.otlp import JSON, PROTOBUF, json_export, json_span
from tracebudget import keys, models, partition
from tracebudget.core.span import Span
from tracebudget.packing import decompress, unpack_spans

BODY = otlp.recorded(otlp.two_turns)


def stored_spans() -> list[Span]:
    batches = models.SpanBatch.objects.order_by("day", "trace_id")
    return [span for batch in batches for span in unpack_spans(decompress(bytes(batch.payload)))]


# --- what is taken ---


@pytest.mark.parametrize(
    ("body", "content_type", "answered_as"),
    [
        (BODY, "application/x-protobuf", PROTOBUF),
        (BODY, "application/protobuf", "application/protobuf"),
        (BODY, "Application/X-Protobuf; proto=x", PROTOBUF),
        (otlp.as_json(BODY), "application/json", JSON),
        (otlp.as_json(BODY), "application/json; charset=utf-8", JSON),
    ],
)
def test_both_encodings_are_stored_and_answered_in_kind(
    exporter: Exporter, body: bytes, content_type: str, answered_as: str
) -> None:
    response = exporter.send(body, content_type)
    assert (response.status_code, rejected(response)) == (200, 0)
    assert response.headers["Content-Type"] == answered_as
    assert response.content == (b"{}" if answered_as == JSON else b"")
    assert len(stored_spans()) == 5


@pytest.mark.parametrize(
    ("encoding", "body"), [("gzip", gzip.compress(BODY)), ("deflate", zlib.compress(BODY))]
)
def test_compressed_bodies_are_inflated(exporter: Exporter, encoding: str, body: bytes) -> None:
    assert exporter.send(body, PROTOBUF, content_encoding=encoding).status_code == 200
    assert len(stored_spans()) == 5


def test_a_request_without_spans_is_a_success(exporter: Exporter) -> None:
    assert rejected(exporter.send(b"", PROTOBUF)) == 0
    assert rejected(exporter.send(b"{}", JSON)) == 0
    assert not models.Trace.objects.exists()


def test_an_export_sent_again_changes_nothing(exporter: Exporter) -> None:
    for _ in range(3):
        assert exporter.send(BODY, PROTOBUF).status_code == 200
    assert len(stored_spans()) == 5
    assert models.Trace.objects.get().revision == 1


def test_good_spans_are_stored_beside_refused_ones(exporter: Exporter) -> None:
    bad = [json_span(traceId="nope"), json_span(startTimeUnixNano=...), json_span(spanId="00" * 8)]
    response = exporter.send(json_export(json_span(), *bad))
    assert rejected(response) == 3
    message = partial_success(response)["errorMessage"]
    assert message.startswith("Spans refused: ")
    assert "1 x traceId is not hex" in message
    assert [span.span_id for span in stored_spans()] == [otlp.SPAN_ID]


def test_spans_of_a_full_trace_are_refused_with_a_reason(
    exporter: Exporter, settings: Settings
) -> None:
    assert rejected(exporter.send(BODY, PROTOBUF)) == 0
    settings.MAX_TRACE_SPANS = 5
    trace_id = models.Trace.objects.get().trace_id.hex
    more = json_export(json_span(traceId=trace_id), json_span())
    response = exporter.send(more)
    assert rejected(response) == 1
    assert "MAX_TRACE_SPANS" in partial_success(response)["errorMessage"]
    assert len(stored_spans()) == 6


def test_a_future_span_is_refused(exporter: Exporter, settings: Settings) -> None:
    year_2100 = json_span(startTimeUnixNano=str(4_102_444_800 * 10**9), endTimeUnixNano=...)
    response = exporter.send(json_export(year_2100, json_span()))
    assert rejected(response) == 1
    assert "MAX_FUTURE_SECONDS" in partial_success(response)["errorMessage"]


def test_old_spans_are_welcome(exporter: Exporter) -> None:
    year_2001 = json_span(startTimeUnixNano=str(10**18), endTimeUnixNano=str(10**18 + 1))
    assert rejected(exporter.send(json_export(year_2001))) == 0
    assert stored_spans()[0].start_ns == 10**18


def test_repairs_are_told_without_a_refusal(exporter: Exporter) -> None:
    response = exporter.send(json_export(json_span(name="na\0me")))
    assert rejected(response) == 0
    assert "NUL" in partial_success(response)["errorMessage"]
    assert stored_spans()[0].name == "na\ufffdme"


@pytest.mark.parametrize("path", ["/v1/logs", "/v1/metrics"])
@pytest.mark.parametrize(
    ("content_type", "answer"), [(PROTOBUF, b""), (JSON, b"{}"), ("text/plain", None)]
)
def test_logs_and_metrics_are_taken_and_ignored(
    exporter: Exporter, path: str, content_type: str, answer: bytes | None
) -> None:
    response = exporter.send(b"whatever", content_type, path=path, content_encoding="gzip")
    assert response.status_code == (415 if answer is None else 200)
    assert answer is None or response.content == answer
    assert not models.Trace.objects.exists()


@pytest.mark.parametrize("path", ["/v1/logs", "/v1/metrics"])
def test_logs_and_metrics_need_a_key_and_have_a_cap(
    exporter: Exporter, settings: Settings, path: str
) -> None:
    assert_refused(exporter.send(b"", PROTOBUF, path=path, x_api_key=""), 401)
    settings.MAX_BODY_BYTES = 10
    assert_refused(exporter.send(b"x" * 11, PROTOBUF, path=path), 413)


# --- what is refused ---


def assert_refused(response: HttpResponse, status: int, *words: str) -> None:
    assert response.status_code == status
    message = error_message(response)
    assert all(word in message for word in words), message
    assert not models.Trace.objects.exists()


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"{", JSON),
        (b'{"resourceSpans": NaN}', JSON),
        (b'{"resourceSpans": []}\n{"resourceSpans": []}', JSON),
        (BODY, JSON),
        (BODY[:100], PROTOBUF),
        (otlp.as_json(BODY), PROTOBUF),
    ],
    ids=["cut JSON", "bare NaN", "JSON lines", "protobuf as JSON", "cut protobuf", "JSON as pb"],
)
def test_bad_data_is_400_and_not_to_be_retried(
    exporter: Exporter, body: bytes, content_type: str
) -> None:
    response = exporter.send(body, content_type)
    assert_refused(response, 400)
    assert response.headers["Content-Type"] == content_type
    assert "Retry-After" not in response.headers


@pytest.mark.parametrize("body", [b"plain", gzip.compress(BODY)[:-4], b""])
def test_broken_gzip_is_400(exporter: Exporter, body: bytes) -> None:
    assert_refused(exporter.send(body, PROTOBUF, content_encoding="gzip"), 400, "compressed")


def test_no_key_is_401(exporter: Exporter) -> None:
    response = exporter.send(BODY, PROTOBUF, x_api_key="")
    assert_refused(response, 401, "Bearer", "x-api-key")
    assert response.headers["WWW-Authenticate"] == "Bearer"


def test_a_wrong_key_stays_401_whatever_the_type(exporter: Exporter) -> None:
    response = exporter.send(BODY, "text/plain", x_api_key="tbi_000000000000_x")
    assert response.status_code in {401, 415}
    assert response.headers["Content-Type"] == JSON


def test_logs_sent_to_traces_are_refused_one_by_one(exporter: Exporter) -> None:
    """Their messages have the same field numbers, so some exporters get this far."""
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    records.add(time_unix_nano=1, body=AnyValue(string_value="hello"))
    response = exporter.send(request.SerializeToString(), PROTOBUF)
    assert rejected(response) == 1
    assert not models.Trace.objects.exists()


def test_an_unknown_key_is_401(exporter: Exporter) -> None:
    assert_refused(exporter.send(BODY, PROTOBUF, x_api_key="tbi_000000000000_x"), 401, "unknown")


def test_a_revoked_key_is_401(exporter: Exporter, settings: Settings) -> None:
    settings.KEY_CACHE_SECONDS = 0
    models.IngestKey.objects.update(revoked_at="2026-01-01T00:00:00Z")
    assert_refused(exporter.send(BODY, PROTOBUF), 401, "revoked")


def test_a_key_also_comes_as_bearer(exporter: Exporter) -> None:
    bearer = f"Bearer {exporter.secret}"
    response = exporter.send(BODY, PROTOBUF, x_api_key="", authorization=bearer)
    assert response.status_code == 200


def test_a_fault_of_ours_is_told_in_otlp_and_not_retried(
    exporter: Exporter, settings: Settings, tmp_path: Path
) -> None:
    settings.DIGEST_KEY_FILE = tmp_path / "digest.key"
    settings.DIGEST_KEY_FILE.write_bytes(b"too short")
    keys.forget_all()
    response = exporter.send(BODY, PROTOBUF)
    keys.forget_all()
    assert_refused(response, 500, "log")
    assert response.headers["Content-Type"] == PROTOBUF
    assert "Retry-After" not in response.headers


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs"])
def test_other_methods_are_405_and_web_pages_are_not_let_in(
    exporter: Exporter, method: str, path: str
) -> None:
    asked = {"Origin": "https://shop.example", "Access-Control-Request-Method": "POST"}
    response = cast(HttpResponse, exporter.client.generic(method, path, headers=asked))
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    assert "by POST" in error_message(response)
    assert not any(name.startswith("Access-Control") for name in response.headers)


@pytest.mark.parametrize("path", ["/v1/traces/", "/v1/logs/", "/v1/metrics/"])
def test_an_address_may_end_with_a_slash(exporter: Exporter, path: str) -> None:
    assert exporter.send(BODY, PROTOBUF, path=path).status_code == 200
    assert models.Trace.objects.exists() == (path == "/v1/traces/")


@pytest.mark.parametrize("path", ["/", "/v1/v1/traces", "/v1/profiles"])
def test_other_addresses_are_404_and_name_the_right_one(exporter: Exporter, path: str) -> None:
    assert_refused(exporter.send(BODY, PROTOBUF, path=path), 404, "/v1/traces")


def test_a_body_above_the_cap_is_413(exporter: Exporter, settings: Settings) -> None:
    settings.MAX_BODY_BYTES = len(BODY) - 1
    assert_refused(exporter.send(BODY, PROTOBUF), 413, "MAX_BODY_BYTES")
    settings.MAX_BODY_BYTES = len(BODY)
    assert exporter.send(BODY, PROTOBUF).status_code == 200


def test_a_bomb_is_413_and_the_next_request_works(exporter: Exporter) -> None:
    bomb = gzip.compress(b" " * 64 * 1024 * 1024)
    assert_refused(exporter.send(bomb, JSON, content_encoding="gzip"), 413, "MAX_INFLATED_BYTES")
    assert exporter.send(BODY, PROTOBUF).status_code == 200


def test_a_refused_body_leaves_no_memory_behind(exporter: Exporter, settings: Settings) -> None:
    """An error that holds the frame that holds it would keep the body until a full collection."""
    settings.MAX_INFLATED_BYTES = 16 * 1024 * 1024
    bomb = gzip.compress(b" " * 17 * 1024 * 1024)
    exporter.send(bomb, JSON, content_encoding="gzip")
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        assert exporter.send(bomb, JSON, content_encoding="gzip").status_code == 413
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert peak > settings.MAX_INFLATED_BYTES
    assert held < settings.MAX_INFLATED_BYTES / 2


@pytest.mark.parametrize("content_type", ["text/plain", "", "multipart/form-data; boundary=x"])
def test_other_types_are_415_in_json(exporter: Exporter, content_type: str) -> None:
    response = exporter.send(BODY, content_type)
    assert_refused(response, 415, "application/x-protobuf")
    assert response.headers["Content-Type"] == JSON


@pytest.mark.parametrize("encoding", ["br", "zstd"])
def test_other_encodings_are_415(exporter: Exporter, encoding: str) -> None:
    assert_refused(exporter.send(BODY, PROTOBUF, content_encoding=encoding), 415, encoding)


def assert_to_be_retried(response: HttpResponse) -> None:
    assert response.status_code == 503
    assert response.headers["Retry-After"] == "5"
    assert Status.FromString(response.content).code == code_pb2.UNAVAILABLE


@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_away_is_503_until_it_is_back(
    exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.close()
    with monkeypatch.context() as away:
        away.setitem(connection.settings_dict, "HOST", "/nowhere")
        assert_to_be_retried(exporter.send(BODY, PROTOBUF))
    assert exporter.send(BODY, PROTOBUF).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_slow_is_503_and_nothing_is_half_stored(
    exporter: Exporter, settings: Settings
) -> None:
    settings.STORE_TIMEOUT_MS = 200
    partition.create(timezone.now().date())
    with psycopg.connect(**connection.get_connection_params()) as other:
        other.execute("LOCK TABLE tracebudget_spanbatch IN ACCESS EXCLUSIVE MODE")
        assert_to_be_retried(exporter.send(BODY, PROTOBUF))
    assert not models.Trace.objects.exists()
    assert exporter.send(BODY, PROTOBUF).status_code == 200


# --- tenants and privacy ---


def test_two_projects_can_hold_the_same_trace(exporter: Exporter) -> None:
    other = models.Project.objects.create(slug="other", name="Other")
    _, secret = keys.create_key(other, "tests", models.IngestKey)
    for key in (exporter.secret, secret):
        assert exporter.send(BODY, PROTOBUF, x_api_key=key).status_code == 200
    traces = models.Trace.objects.order_by("project__slug")
    assert [trace.project.slug for trace in traces] == ["other", "shop"]
    assert traces[0].trace_id == traces[1].trace_id


def test_equal_trace_ids_of_two_projects_never_meet(
    exporter: Exporter, project: models.Project
) -> None:
    other = models.Project.objects.create(slug="other", name="Other", privacy=models.Privacy.FULL)
    _, secret = keys.create_key(other, "tests", models.IngestKey)
    ours, theirs = json_span(name="ours"), json_span(name="theirs", spanId="00" * 7 + "01")
    exporter.send(json_export(ours))
    exporter.send(json_export(theirs), x_api_key=secret)
    assert analyse_all() == 2
    for owner, name in ((project, "ours"), (other, "theirs")):
        trace = models.Trace.objects.get(project=owner)
        spans = unpack_spans(decompress(models.SpanBatch.objects.get(trace=trace).payload))
        assert ([span.name for span in spans], trace.name, trace.span_count) == ([name], name, 1)


def test_the_privacy_of_the_project_decides_what_is_stored(
    exporter: Exporter, project: models.Project
) -> None:
    project.privacy = models.Privacy.TIMINGS_ONLY
    project.save()
    exporter.send(BODY, PROTOBUF)
    arguments = [span.attributes.get("gen_ai.tool.call.arguments") for span in stored_spans()]
    assert [value["redacted"] for value in arguments if value] == [28, 28]
    assert "jane" not in str(stored_spans())


# --- cost ---


def test_the_number_of_queries_does_not_depend_on_the_number_of_spans(
    exporter: Exporter,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    monkeypatch.setattr(receipts, "EVERY", timedelta(hours=1))
    settings.KEY_CACHE_SECONDS = 60
    exporter.send(BODY, PROTOBUF)
    many = b"".join(otlp.recorded(otlp.two_turns) for _ in range(20))
    with django_assert_num_queries(6):
        assert exporter.send(many, PROTOBUF).status_code == 200
    assert len(stored_spans()) == 5 + 100
