"""OTLP bodies for tests: whole ones by the real OpenTelemetry SDK and encoder, odd ones by hand."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf import json_format
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer

JSON, PROTOBUF = "application/json", "application/x-protobuf"
START_NS = 1_767_225_600_000_000_000  # 2026-01-01T00:00:00Z
MS = 1_000_000

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7"
ID_FIELDS = ("traceId", "spanId", "parentSpanId")


def recorded(
    act: Callable[[Tracer], None], *, service: str = "shop-agent", version: str = ""
) -> bytes:
    """What the SDK exports, as protobuf, of the spans that `act` makes with its tracer."""
    exporter = InMemorySpanExporter()
    resource = {"service.name": service} | ({"service.version": version} if version else {})
    provider = TracerProvider(resource=Resource(resource), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    act(provider.get_tracer("tests", "1.0"))
    return encode_spans(exporter.get_finished_spans()).SerializeToString()


def two_turns(tracer: Tracer, start_ns: int = START_NS) -> None:
    """The worked example: an agent, two model calls, two parallel tools between them.

    agent  |----------------------------------------------| 461 ms
    chat   |--------|171            360|-------------|461
    tools           |171--------|355
                    |171----|290
    """

    def span(name: str, kind: SpanKind, at: int, until: int, attributes: Mapping[str, Any]) -> None:
        child = tracer.start_span(
            name, kind=kind, start_time=start_ns + at * MS, attributes=dict(attributes)
        )
        child.end(start_ns + until * MS)

    root = tracer.start_as_current_span(
        "invoke_agent support",
        start_time=start_ns,
        end_on_exit=False,
        attributes={
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "support",
            "gen_ai.conversation.id": "s-1",
        },
    )
    with root as agent:
        span("chat groq-3-lpx", SpanKind.CLIENT, 0, 171, chat(58, 1240, 96, "tool_calls"))
        span("execute_tool search_order", SpanKind.INTERNAL, 171, 355, tool("search_order", "c1"))
        span("execute_tool get_user_info", SpanKind.INTERNAL, 171, 290, tool("get_user_info", "c2"))
        span("chat groq-3-lpx", SpanKind.CLIENT, 360, 461, chat(62, 1548, 58, "stop"))
        agent.end(start_ns + 461 * MS)


def chat(ttft_ms: int, tokens_in: int, tokens_out: int, finish: str) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "groq",
        "gen_ai.request.model": "groq-3-lpx",
        "gen_ai.request.stream": True,
        "gen_ai.response.time_to_first_chunk": ttft_ms / 1000,
        "gen_ai.response.finish_reasons": (finish,),
        "gen_ai.usage.input_tokens": tokens_in,
        "gen_ai.usage.output_tokens": tokens_out,
        "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"my order"}]}]',
    }


def tool(name: str, call_id: str) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": call_id,
        "gen_ai.tool.call.arguments": '{"user": "jane@example.com"}',
    }


def failing_tool(tracer: Tracer) -> None:
    """One span with an exception event, a status message and a link."""
    with tracer.start_as_current_span("execute_tool pay", start_time=START_NS) as span:
        span.record_exception(ValueError("card 4111 1111 1111 1111 declined"), timestamp=START_NS)
        span.set_status(Status(StatusCode.ERROR, "card declined"))


def as_json(body: bytes) -> bytes:
    """A protobuf body in OTLP's JSON: proto JSON, but for its ids in hex."""
    document = json_format.MessageToDict(ExportTraceServiceRequest.FromString(body))
    for resource_spans in document["resourceSpans"]:
        for scope_spans in resource_spans["scopeSpans"]:
            for span in scope_spans["spans"]:
                for carrier in (span, *span.get("links", ())):
                    carrier.update({k: _hex(carrier[k]) for k in ID_FIELDS if k in carrier})
    return json.dumps(document).encode()


def _hex(text: str) -> str:
    return base64.b64decode(text).hex()


def request_with(**span: Any) -> ExportTraceServiceRequest:
    """A request with one span, given by OTLP's own field names; good where it is not told."""
    good = {
        "trace_id": bytes.fromhex(TRACE_ID),
        "span_id": bytes.fromhex(SPAN_ID),
        "name": "chat",
        "start_time_unix_nano": START_NS,
        "end_time_unix_nano": START_NS + MS,
    }
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(**good | span)
    return request


def gzipped(body: bytes) -> bytes:
    return gzip.compress(body)


# --- odd ones, by hand ------------------------------------------------------------------------


def json_span(**changes: Any) -> dict[str, Any]:
    """A span as OTLP/JSON has it, changed field by field; a field changed to `...` is left out."""
    span = {
        "traceId": TRACE_ID,
        "spanId": SPAN_ID,
        "name": "chat",
        "kind": 3,
        "startTimeUnixNano": str(START_NS),
        "endTimeUnixNano": str(START_NS + MS),
    } | changes
    return {field: value for field, value in span.items() if value is not ...}


def json_export(*spans: Any, resource: Any = None) -> bytes:
    """An export request around spans."""
    scope_spans = {"scope": {"name": "tests"}, "spans": list(spans)}
    resource_spans = {"resource": resource, "scopeSpans": [scope_spans]}
    return json.dumps({"resourceSpans": [resource_spans]}).encode()


def json_attributes(**values: Any) -> list[dict[str, Any]]:
    """Attributes from AnyValue objects by key; `__` in a key stands for a dot."""
    return [{"key": key.replace("__", "."), "value": value} for key, value in values.items()]
