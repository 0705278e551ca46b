"""What a dialect makes of a piece of work: the name, kind, attributes and events of its span."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tracebudget.core.span import KIND_INTERNAL, KIND_SERVER
from tracebudget.demo.work import Call, Frame, Run, Search, Serving, ToolRun

Value: TypeAlias = str | bool | int | float | Sequence[str]
Attributes: TypeAlias = dict[str, Value | None]  # None: this one is not written
Event: TypeAlias = tuple[str, int, dict[str, str]]  # name, Unix ns, attributes

SECOND, MS = 1_000_000_000, 1_000_000


@dataclass(frozen=True, slots=True)
class Spelling:
    """A span but for its times."""

    name: str
    attributes: Attributes
    kind: int = KIND_INTERNAL
    events: Sequence[Event] = ()


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one instrumentation writes each kind of work. `scope` is the name of its tracer."""

    scope: str
    call: Callable[[Call], Spelling]
    tool: Callable[[ToolRun], Spelling]
    run: Callable[[Run], Spelling]
    search: Callable[[Search], Spelling]
    frame: Callable[[Frame], Spelling]


def http_frame(frame: Frame) -> Spelling:
    """A request handler, as HTTP instrumentations write it."""
    attributes: Attributes = {
        "http.request.method": "POST",
        "http.route": frame.route,
        "http.response.status_code": 200,
    }
    return Spelling(frame.name, attributes, KIND_SERVER)


def serving(work: Serving, call: Call) -> Spelling:
    """The server's own span of a call, as vLLM writes it. Times in s."""
    decode_ns = work.end - work.start - work.queue_ns - work.prefill_ns
    attributes: Attributes = {
        "gen_ai.response.model": call.model,
        "gen_ai.usage.prompt_tokens": call.prompt.tokens,
        "gen_ai.usage.completion_tokens": call.output_tokens,
        "gen_ai.latency.time_in_queue": work.queue_ns / SECOND,
        "gen_ai.latency.time_in_model_prefill": work.prefill_ns / SECOND,
        "gen_ai.latency.time_in_model_decode": decode_ns / SECOND,
        "gen_ai.latency.time_to_first_token": (work.queue_ns + work.prefill_ns) / SECOND,
        "gen_ai.latency.e2e": (work.end - work.start) / SECOND,
    }
    return Spelling("llm_request", attributes, KIND_SERVER)


SERVING_SCOPE = "vllm.llm_engine"


def first_chunk(name: str, call: Call) -> Sequence[Event]:
    """An event at the first chunk of a streamed answer."""
    return ((name, call.chunks[0], {}),) if call.is_streamed else ()


def prompt_messages(call: Call) -> str:
    """A prompt as the OpenTelemetry conventions write it."""
    return json.dumps(
        [
            {"role": message.role, "parts": [{"type": "text", "content": message.text}]}
            for message in call.prompt.messages()
        ]
    )


def answer_message(call: Call) -> str:
    """An answer as the OpenTelemetry conventions write it."""
    parts: list[dict[str, Any]] = [{"type": "text", "content": call.text}] if call.text else []
    parts += [
        {"type": "tool_call", "id": ask.call_id, "name": ask.tool, "arguments": ask.arguments}
        for ask in call.asks
    ]
    return json.dumps([{"role": "assistant", "parts": parts, "finish_reason": finish(call)}])


def finish(call: Call) -> str:
    return "tool_calls" if call.asks else "stop"
