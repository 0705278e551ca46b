"""OTLP over gRPC, by the real program: what is taken, what is refused, and with which status."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from subprocess import Popen
from typing import Any

import grpc
import psycopg
import pytest
from django.db import connection
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from ingest import otlp_json
from ingest.decode import Export
from ingest.rpc import DETAILS, IGNORED, TRACES
from tests import otlp
from tests.ingest.test_fuzz import damaged, fuzzed, modes
from tests.ingest.test_inputs import ANSWERS, INPUTS, Answer
from tests.running import free_port
from tracebudget import keys, models
from tracebudget.packing import decompress, unpack_spans
from tracebudget.runtime import programs
from tracebudget.runtime.addresses import listens
from tracebudget.runtime.child import Command

BODY = otlp.recorded(otlp.two_turns)
MIB = 1024 * 1024

RunProgram = Callable[[Command], Popen[bytes]]


@dataclass(frozen=True)
class Target:
    """The server, and a channel to it that sends bytes as they are."""

    port: int
    secret: str
    channel: grpc.Channel
    process: Popen[bytes]

    def export(
        self,
        body: bytes,
        *,
        service: str = TRACES,
        secret: str | None = None,
        compression: grpc.Compression = grpc.Compression.NoCompression,
    ) -> ExportTraceServiceResponse:
        call: Any = self.channel.unary_unary(f"/{service}/Export")
        metadata = [("x-api-key", self.secret if secret is None else secret)]
        answer = call(body, metadata=metadata, compression=compression, timeout=20)
        return ExportTraceServiceResponse.FromString(answer)

    def code(self, body: bytes) -> Any:
        try:
            self.export(body)
        except grpc.RpcError as error:
            return error.code()
        return grpc.StatusCode.OK

    def refusal(self, body: bytes, **how: Any) -> Any:
        """The error in the call's place, which is also the call."""
        with pytest.raises(grpc.RpcError) as caught:
            self.export(body, **how)
        return caught.value


@pytest.fixture
def keyless_project() -> str:
    """Of the server; a test may name another."""
    return ""


@pytest.fixture
def target(
    run_program: RunProgram, monkeypatch: pytest.MonkeyPatch, keyless_project: str
) -> Iterator[Target]:
    port = free_port()
    monkeypatch.setenv("TRACEBUDGET_GRPC_PORT", str(port))
    monkeypatch.setenv("TRACEBUDGET_STORE_TIMEOUT_MS", "500")
    monkeypatch.setenv("TRACEBUDGET_KEYLESS_PROJECT", keyless_project)
    shop = models.Project.objects.create(slug="shop", name="Shop")
    _, secret = keys.create_key(shop, "tests", models.IngestKey)
    process = run_program(programs.grpc())
    deadline = time.monotonic() + 20
    while not listens("127.0.0.1", port):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    unbounded = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=unbounded) as channel:
        yield Target(port, secret, channel, process)


def stored_span_count() -> int:
    return sum(models.SpanBatch.objects.values_list("span_count", flat=True))


def details(error: Any) -> Status:
    return Status.FromString(dict(error.trailing_metadata())[DETAILS])


def test_the_sdk_exports_and_finds_its_spans(target: Target) -> None:
    exporter = OTLPSpanExporter(
        endpoint=f"http://127.0.0.1:{target.port}",
        headers=(("authorization", f"Bearer {target.secret}"),),
        compression=grpc.Compression.Gzip,
    )
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    otlp.two_turns(provider.get_tracer("tests"))
    provider.shutdown()
    assert stored_span_count() == 5
    assert models.Trace.objects.get().span_count == 5
    assert not any(b"jane" in decompress(bytes(b.payload)) for b in models.SpanBatch.objects.all())


def test_exports_are_stored_once_and_refused_spans_are_counted(target: Target) -> None:
    for compression in grpc.Compression:
        assert not target.export(BODY, compression=compression).HasField("partial_success")
    assert stored_span_count() == 5
    assert not target.export(b"").HasField("partial_success")
    bad_span = otlp.request_with(trace_id=b"short").SerializeToString()
    answer = target.export(BODY + bad_span)
    assert answer.partial_success.rejected_spans == 1
    assert "traceId must be 16 bytes" in answer.partial_success.error_message
    for service in IGNORED:
        assert not target.export(b"whatever", service=service).HasField("partial_success")


@pytest.mark.parametrize("privacy", models.Privacy.values)
def test_odd_requests_have_the_answers_that_http_gives(target: Target, privacy: str) -> None:
    models.Project.objects.update(privacy=privacy)
    stored = 0
    for answer in (answer for answer in ANSWERS if answer.status == 200):
        stored += answer.stored
        refused = target.export(protobuf_of(answer)).partial_success.rejected_spans
        assert refused <= answer.refused, answer
        assert stored_span_count() == stored, answer


def protobuf_of(answer: Answer) -> bytes:
    """The request of a file. What only JSON can spell has been refused by then."""
    content = (INPUTS / answer.file).read_bytes()
    is_protobuf = answer.file.endswith(".pb")
    return content if is_protobuf else otlp_json.parse(content, Export()).SerializeToString()


@given(damaged(BODY + otlp.recorded(otlp.failing_tool)) | st.binary(max_size=200), modes)
@fuzzed
def test_damaged_messages_end_in_an_answer(
    target: Target, body: bytes, privacy: models.Privacy
) -> None:
    models.Project.objects.update(privacy=privacy)
    assert target.code(body) in {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT}
    for batch in models.SpanBatch.objects.all():
        assert len(unpack_spans(decompress(batch.payload))) == batch.span_count
    models.SpanBatch.objects.all().delete()
    models.Trace.objects.all().delete()


def test_refusals_have_the_status_that_the_specification_gives_them(target: Target) -> None:
    for service in (TRACES, *IGNORED):
        stranger = target.refusal(b"", service=service, secret="")
        assert stranger.code() == grpc.StatusCode.UNAUTHENTICATED
        assert "x-api-key" in stranger.details()
    broken = target.refusal(BODY[:-1])
    assert broken.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert not details(broken).details  # nothing that would make an exporter try again
    for too_large in (b"x" * 33 * MIB, b" " * 200 * MIB):
        error = target.refusal(too_large, compression=grpc.Compression.Gzip)
        assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert DETAILS not in dict(error.trailing_metadata())
    assert stored_span_count() == 0
    target.export(BODY)
    assert stored_span_count() == 5


def test_a_key_over_its_limit_is_told_when_to_send_again(target: Target) -> None:
    models.IngestKey.objects.update(max_spans_per_second=1)
    target.export(BODY)
    target.export(BODY)
    error = target.refusal(BODY)
    wait = RetryInfo()
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert details(error).details[0].Unpack(wait)
    assert wait.retry_delay.seconds >= 1


@pytest.mark.parametrize("keyless_project", ["shop"])
def test_without_a_key_only_where_the_setting_names_a_project(target: Target) -> None:
    target.export(BODY, secret="")
    assert stored_span_count() == 5


def test_a_slow_database_is_unavailable_with_a_time_to_wait(target: Target) -> None:
    target.export(BODY)
    with psycopg.connect(**connection.get_connection_params()) as other:
        other.execute("LOCK TABLE tracebudget_spanbatch IN ACCESS EXCLUSIVE MODE")
        error = target.refusal(otlp.recorded(otlp.failing_tool))
    wait = RetryInfo()
    assert error.code() == grpc.StatusCode.UNAVAILABLE
    assert details(error).details[0].Unpack(wait)
    assert wait.retry_delay.seconds == 5
    target.export(otlp.recorded(otlp.failing_tool))
    assert stored_span_count() == 6


def test_a_connection_that_the_database_ended_is_replaced(target: Target) -> None:
    target.export(BODY)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    target.export(otlp.recorded(otlp.failing_tool))
    assert stored_span_count() == 6


def test_sigterm_ends_it_and_a_taken_port_is_an_error(
    target: Target, run_program: RunProgram
) -> None:
    second = run_program(programs.grpc())
    assert second.wait(timeout=10) == 1
    assert not target.export(BODY).HasField("partial_success")
    began = time.monotonic()
    target.process.terminate()
    assert target.process.wait(timeout=10) == 0
    assert time.monotonic() - began < 3
