"""Load as an exporter sends it: agent traces of twelve spans and 1.3 kB each, 512 spans a request.

    invoke_agent  |==============================================|
    chat          |====|        |====|        |====|                three turns
    POST           |==|          |==|          |==|                 the HTTP client below each
    execute_tool       |==||==|      |==||==|                       two tools a turn but the last
    GET                 ||                                          one of them calls out

Attributes are those of the OpenTelemetry GenAI conventions and of OpenInference at once, as
applications with both instrumentations send them. Texts are words with ids between them, so that
they compress like real ones. All is made of a seed, before any clock runs.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

MS, SECOND = 10**6, 10**9
TURNS, TOOLS_A_TURN = 3, 2
SPANS_A_TRACE = 1 + 2 * TURNS + TOOLS_A_TURN * (TURNS - 1) + 1
SPANS_A_REQUEST = 512  # what the SDKs' batch processor sends at once
TRACES_AT_ONCE = 8  # that run side by side, so that a request holds parts of them
GZIP_LEVEL = 6  # what exporters use
TEXTS, TEXT_CHARS = 256, 2_000
ID_SHARE = 0.06  # of the words, so that texts do not compress better than people's

AGENTS = ("support", "research", "analyst", "reviewer", "travel")
MODELS = (("openai", "gpt-5-mini"), ("anthropic", "claude-sonnet-4-5"), ("groq", "llama-4-70b"))
TOOLS = ("search_docs", "read_order", "run_sql", "fetch_url", "open_ticket", "calculate")
WORDS = (  # noqa: SIM905  (a list of them is a page long)
    "the a of to in and for with on by order customer refund invoice parcel address payment status "
    "pending shipped returned agent model token answer question tool result schema error retry "
    "cache index shard latency budget policy document section summary forecast quarterly revenue "
    "Lisbon Nairobi Osaka Toronto please review the following before you continue"
).split()


@dataclass(frozen=True, slots=True)
class Request:
    """The gzipped body of one export request."""

    body: bytes
    spans: int


def requests(
    traces: int, *, seed: int, now_ns: int, spans_a_request: int = SPANS_A_REQUEST
) -> list[Request]:
    """Export requests with so many traces, which end before `now_ns`."""
    writer = _Writer(random.Random(seed))  # noqa: S311
    spans = _side_by_side(writer.trace(now_ns) for _ in range(traces))
    parts = iter(lambda: list(islice(spans, spans_a_request)), [])
    return [Request(gzip.compress(_export(part), GZIP_LEVEL), len(part)) for part in parts]


def _side_by_side(traces: Iterator[list[Span]]) -> Iterator[Span]:
    """The spans of traces that run at the same time, in the order in which they end."""
    while some := list(islice(traces, TRACES_AT_ONCE)):
        places = [(at / len(trace), span) for trace in some for at, span in enumerate(trace)]
        yield from (span for _, span in sorted(places, key=lambda place: place[0]))


def _export(spans: Sequence[Span]) -> bytes:
    export = ExportTraceServiceRequest()
    sender = export.resource_spans.add()
    resource = {
        "service.name": "bench",
        "service.version": "1.4.2",
        "deployment.environment.name": "production",
        "telemetry.sdk.name": "opentelemetry",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.version": "1.45.2",
    }
    sender.resource.attributes.extend(_attributes(resource))
    scope = sender.scope_spans.add()
    scope.scope.name, scope.scope.version = "agent.framework", "0.9.1"
    scope.spans.extend(spans)
    return export.SerializeToString()


def _attributes(values: Mapping[str, Any]) -> Iterator[KeyValue]:
    return (KeyValue(key=key, value=_value(value)) for key, value in values.items())


def _value(value: Any) -> AnyValue:
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case str():
            return AnyValue(string_value=value)
    return AnyValue(array_value=ArrayValue(values=map(_value, value)))


@cache
def _texts() -> list[str]:
    """What contents are cut out of."""
    chance = random.Random(0)  # noqa: S311
    return [_text(chance) for _ in range(TEXTS)]


def _text(chance: random.Random) -> str:
    words = chance.choices(WORDS, k=TEXT_CHARS)  # more than enough of them
    mixed = (
        word if chance.random() > ID_SHARE else f"{chance.getrandbits(40):x}" for word in words
    )
    return " ".join(mixed)[:TEXT_CHARS]


class _Writer:
    """Writes traces, all from one source of chance."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def hex(self, digits: int) -> str:
        return f"{self.chance.getrandbits(4 * digits):0{digits}x}"

    def content(self, chars: int) -> str:
        """A stretch of text that no other span has."""
        text = self.chance.choice(_texts())
        start = self.chance.randrange(TEXT_CHARS - chars)
        return f"{self.hex(12)} {text[start : start + chars - 13]}"

    def trace(self, now_ns: int) -> list[Span]:
        """The spans of one trace, in the order in which they end."""
        run = _Run(self, now_ns)
        for turn in range(TURNS):
            run.add_turn(turn)
        return run.finish()


class _Run:
    """One trace as it is written: spans one after the other, below a root that ends last."""

    def __init__(self, writer: _Writer, now_ns: int) -> None:
        self.writer, self.chance = writer, writer.chance
        self.trace_id = self.chance.randbytes(16)
        self.root_id = self.chance.randbytes(8)
        self.agent = self.chance.choice(AGENTS)
        self.provider, self.model = self.chance.choice(MODELS)
        self.session = f"session-{self.chance.randrange(10_000)}"
        self.start = self.at = now_ns - 120 * SECOND - self.chance.randrange(60 * SECOND)
        self.spans: list[Span] = []

    def add_turn(self, turn: int) -> None:
        self._add_call(turn)
        if turn < TURNS - 1:
            for place in range(TOOLS_A_TURN):
                self._add_tool(calls_out=turn == place == 0)

    def finish(self) -> list[Span]:
        values = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": self.agent,
            "gen_ai.conversation.id": self.session,
            "openinference.span.kind": "AGENT",
            "session.id": self.session,
            "user.id": f"user-{self.chance.randrange(2_000)}",
            "input.value": self.writer.content(200),
            "output.value": self.writer.content(300),
        }
        length = self.at - self.start
        self._add(f"invoke_agent {self.agent}", self.start, length, values, id_=self.root_id)
        return self.spans

    def _add_call(self, turn: int) -> None:
        length = round(MS * min(20_000, self.chance.lognormvariate(6.6, 0.7)))
        read, written = (
            400 + 350 * turn + self.chance.randrange(200),
            self.chance.randrange(30, 280),
        )
        id_ = self._add_below("POST", self.at + 2 * MS, length - 4 * MS, self._http(read))
        first_chunk = round(length * self.chance.uniform(0.15, 0.45) / SECOND, 6)
        values = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self.provider,
            "gen_ai.request.model": self.model,
            "gen_ai.response.model": self.model,
            "gen_ai.response.id": f"chatcmpl-{self.writer.hex(24)}",
            "gen_ai.request.stream": True,
            "gen_ai.response.time_to_first_chunk": first_chunk,
            "gen_ai.response.finish_reasons": ["stop" if turn == TURNS - 1 else "tool_calls"],
            "gen_ai.usage.input_tokens": read,
            "gen_ai.usage.output_tokens": written,
            "gen_ai.usage.cache_read.input_tokens": self.chance.randrange(read // 2),
            "gen_ai.input.messages": self._messages("system", 240, "user", 660),
            "gen_ai.output.messages": self._messages("assistant", 240),
            "openinference.span.kind": "LLM",
            "llm.model_name": self.model,
            "llm.provider": self.provider,
            "llm.token_count.prompt": read,
            "llm.token_count.completion": written,
            "session.id": self.session,
            "input.value": self.writer.content(600),
            "output.value": self.writer.content(300),
        }
        self._add(f"chat {self.model}", self.at, length, values, id_=id_)
        self.at += length + 3 * MS

    def _messages(self, *parts: Any) -> str:
        """Roles and lengths in turns, as JSON in a text."""
        return json.dumps(
            [
                {
                    "role": role,
                    "parts": [{"type": "text", "content": self.writer.content(chars)}],
                }
                for role, chars in zip(parts[::2], parts[1::2], strict=True)
            ]
        )

    def _http(self, read: int) -> dict[str, Any]:
        return {
            "http.request.method": "POST",
            "url.full": f"https://api.{self.provider}.example/v1/chat/completions",
            "server.address": f"api.{self.provider}.example",
            "server.port": 443,
            "http.response.status_code": 200,
            "http.request.body.size": 4 * read,
            "user_agent.original": "openai-python/2.8.0",
        }

    def _add_tool(self, *, calls_out: bool) -> None:
        length = round(MS * min(8_000, self.chance.lognormvariate(4.6, 0.9))) + 5 * MS
        name = self.chance.choice(TOOLS)
        arguments = json.dumps({"query": self.writer.content(60), "limit": 20})
        result = self.writer.content(220)
        id_ = self.chance.randbytes(8)
        if calls_out:
            id_ = self._add_below("GET", self.at + MS, length - 2 * MS, self._http(100))
        values = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": f"call_{self.writer.hex(12)}",
            "gen_ai.tool.call.arguments": arguments,
            "gen_ai.tool.call.result": result,
            "openinference.span.kind": "TOOL",
            "tool.name": name,
            "session.id": self.session,
            "input.value": arguments,
            "output.value": result,
        }
        self._add(f"execute_tool {name}", self.at, length, values, id_=id_)
        self.at += length + MS

    def _add_below(self, name: str, start: int, length: int, values: Mapping[str, Any]) -> bytes:
        """A client span, and the id of its parent, which ends after it and is added after it."""
        parent = self.chance.randbytes(8)
        self._add(name, start, length, values, id_=self.chance.randbytes(8), parent=parent)
        return parent

    def _add(  # noqa: PLR0913  (a span has as many sides)
        self,
        name: str,
        start: int,
        length: int,
        values: Mapping[str, Any],
        *,
        id_: bytes,
        parent: bytes | None = None,
    ) -> None:
        is_client = name in {"POST", "GET"} or name.startswith("chat")
        self.spans.append(
            Span(
                trace_id=self.trace_id,
                span_id=id_,
                parent_span_id=b"" if id_ == self.root_id else parent or self.root_id,
                name=name,
                kind=Span.SPAN_KIND_CLIENT if is_client else Span.SPAN_KIND_INTERNAL,
                start_time_unix_nano=start,
                end_time_unix_nano=start + length,
                attributes=_attributes(values),
                flags=0x101,
            )
        )
