"""Traces for tests, written as they are drawn: nested calls, times in milliseconds.

    make_trace(
        agent(0, 461,
            chat(0, 171, ttft=58, asks={"c1": "search"}),
            tool(171, 355, call_id="c1"),
            chat(360, 461, ttft=62)))

gives the spans of one trace. What is not named gets an id by its place: 1, 2, ... in the order in
which the spans are written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tracebudget.core.span import (
    KIND_CLIENT,
    KIND_INTERNAL,
    KIND_SERVER,
    STATUS_ERROR,
    STATUS_UNSET,
    Event,
    Span,
)

MS = 1_000_000
START_NS = 1_767_225_600_000_000_000  # 2026-01-01T00:00:00Z, where every test trace begins
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"


def ns(ms: float) -> int:
    """A duration in ns."""
    return round(ms * MS)


def at(ms: float) -> int:
    """A moment of a test trace as Unix ns."""
    return START_NS + ns(ms)


def numbered(number: int) -> str:
    """The id of the span that is written as number 1, 2, ..."""
    return f"{number:016x}"


# --- one span -------------------------------------------------------------------------------------


def make_span(  # noqa: PLR0913  (a span has as many sides)
    name: str = "work",
    start: float = 0,
    end: float = 100,
    *,
    id: str = "",
    parent: str = "",
    kind: int = KIND_INTERNAL,
    attributes: Mapping[str, Any] | None = None,
    events: Sequence[tuple[str, float]] = (),
    service: str = "shop",
    host: str = "",
    **fields: Any,
) -> Span:
    """One span; `events` are (name, ms) pairs, `fields` are those of `Span`."""
    resource = {"service.name": service, "host.name": host}
    resource |= dict(fields.pop("resource", {}))
    return Span(
        trace_id=fields.pop("trace_id", TRACE_ID),
        span_id=id,
        parent_id=parent,
        name=name,
        kind=kind,
        start_ns=fields.pop("start_ns", at(start)),
        end_ns=fields.pop("end_ns", at(end)),
        attributes=dict(attributes or {}),
        events=tuple(Event(event, at(ms)) for event, ms in events),
        resource={key: value for key, value in resource.items() if value},
        **fields,
    )


# --- a tree of spans ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Branch:
    """A span and what is below it. Ids and parents that it does not name come from its place."""

    span: Span
    children: tuple[Branch, ...] = ()


Maker = Callable[..., Branch]


def make_trace(*tops: Branch) -> list[Span]:
    """The spans of one trace, parents before children."""
    spans: list[Span] = []
    waiting = [(top, "") for top in reversed(tops)]
    while waiting:
        branch, parent = waiting.pop()
        span = replace(
            branch.span,
            span_id=branch.span.span_id or numbered(len(spans) + 1),
            parent_id=branch.span.parent_id or parent,
        )
        spans.append(span)
        waiting += [(child, span.span_id) for child in reversed(branch.children)]
    return spans


def plain(start: float, end: float, *children: Branch, name: str = "work", **fields: Any) -> Branch:
    """A span that no dialect knows."""
    return Branch(make_span(name, start, end, **fields), children)


def _typed(
    start: float, end: float, children: tuple[Branch, ...], own: Mapping[str, Any], **fields: Any
) -> Branch:
    """A span of the OpenTelemetry GenAI conventions; the caller's attributes come on top."""
    attributes = {**own, **(fields.pop("attributes", None) or {})}
    known = {key: value for key, value in attributes.items() if value is not None}
    return Branch(make_span(start=start, end=end, attributes=known, **fields), children)


# --- agents ---------------------------------------------------------------------------------------


def agent(
    start: float, end: float, *children: Branch, name: str = "support", **fields: Any
) -> Branch:
    own = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
    return _typed(start, end, children, own, name=f"invoke_agent {name}", **fields)


def workflow(
    start: float, end: float, *children: Branch, name: str = "flow", **fields: Any
) -> Branch:
    own = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": name}
    return _typed(start, end, children, own, name=name, **fields)


def guardrail(start: float, end: float, *children: Branch, **fields: Any) -> Branch:
    own = {"gen_ai.operation.name": "guardrail_check"}
    return _typed(start, end, children, own, **{"name": "guardrail", **fields})


# --- model calls ----------------------------------------------------------------------------------


def chat(  # noqa: PLR0913  (a model call has as many facts)
    start: float,
    end: float,
    *children: Branch,
    model: str = "m",
    ttft: float | None = None,
    stream: bool | None = None,
    input: int | None = None,
    output: int | None = None,
    cached: int | None = None,
    asks: Mapping[str, str] | None = None,
    arguments: str = "{}",
    finish: str | None = None,
    prompt: Sequence[str] | None = None,
    error: str | None = None,
    **fields: Any,
) -> Branch:
    """A model call. `asks` maps the ids of tool calls to tool names, all with the same
    `arguments`, a text of JSON or of what should be; `error` is the type of a failure.
    """
    reason = finish or ("tool_calls" if asks else "stop")
    own = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": model,
        "gen_ai.request.stream": stream,
        "gen_ai.response.time_to_first_chunk": None if ttft is None else ttft / 1000,
        "gen_ai.usage.input_tokens": input,
        "gen_ai.usage.output_tokens": output,
        "gen_ai.usage.cache_read.input_tokens": cached,
        "gen_ai.response.finish_reasons": None if error else [reason],
        "gen_ai.input.messages": None if prompt is None else messages(prompt),
        "gen_ai.output.messages": None if asks is None else answer(asks, arguments),
        "error.type": error,
    }
    fields = {"name": f"chat {model}", "kind": KIND_CLIENT, **fields}
    return _typed(start, end, children, own, status=_status(error), **fields)


def messages(texts: Sequence[str]) -> str:
    """A prompt of so many user messages, as the conventions write it."""
    return json.dumps(
        [{"role": "user", "parts": [{"type": "text", "content": text}]} for text in texts]
    )


def answer(asks: Mapping[str, str], arguments: str = "{}") -> str:
    """An answer that asks for tools, as the conventions write it."""
    parts = [
        {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}
        for call_id, name in asks.items()
    ]
    return json.dumps([{"role": "assistant", "parts": parts, "finish_reason": "tool_call"}])


def server(  # noqa: PLR0913  (an engine tells as much)
    start: float,
    end: float,
    *children: Branch,
    queue: float | None = None,
    prefill: float | None = None,
    decode: float | None = None,
    ttft: float | None = None,
    input: int | None = None,
    output: int | None = None,
    **fields: Any,
) -> Branch:
    """The inference server's view of a call, as vLLM writes it. Phases in ms."""
    phases = {
        "e2e": end - start,
        "time_in_queue": queue,
        "time_in_model_prefill": prefill,
        "time_in_model_decode": decode,
        "time_to_first_token": ttft,
    }
    own = {
        f"gen_ai.latency.{phase}": ms / 1000 for phase, ms in phases.items() if ms is not None
    } | {"gen_ai.usage.prompt_tokens": input, "gen_ai.usage.completion_tokens": output}
    fields = {"scope": "vllm.llm_engine", "service": "engine", "kind": KIND_SERVER, **fields}
    return _typed(start, end, children, own, name="llm_request", **fields)


def queue(start: float, end: float, *children: Branch, **fields: Any) -> Branch:
    """Waiting for a slot at the client, as Pydantic AI writes it."""
    name = "waiting for m concurrency"
    return plain(start, end, *children, name=name, scope="pydantic-ai", **fields)


def http(start: float, end: float, *children: Branch, status: int = 200, **fields: Any) -> Branch:
    """A request of an instrumented HTTP client."""
    own = {"http.request.method": "POST", "http.response.status_code": status}
    failed = STATUS_ERROR if status >= 400 else STATUS_UNSET  # HTTP's own line
    fields = {"name": "POST", "kind": KIND_CLIENT, "status": failed, **fields}
    return _typed(start, end, children, own, **fields)


# --- tools and the like ---------------------------------------------------------------------------


def tool(  # noqa: PLR0913  (a tool call has as many facts)
    start: float,
    end: float,
    *children: Branch,
    name: str = "search",
    call_id: str | None = None,
    arguments: Any = None,
    result: Any = None,
    error: str | None = None,
    **fields: Any,
) -> Branch:
    own = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": call_id,
        "gen_ai.tool.call.arguments": _as_text(arguments),
        "gen_ai.tool.call.result": _as_text(result),
        "error.type": error,
    }
    name = f"execute_tool {name}"
    return _typed(start, end, children, own, name=name, status=_status(error), **fields)


def retrieval(start: float, end: float, *children: Branch, **fields: Any) -> Branch:
    own = {"gen_ai.operation.name": "retrieval"}
    return _typed(start, end, children, own, name="retrieval docs", kind=KIND_CLIENT, **fields)


def embedding(start: float, end: float, *children: Branch, **fields: Any) -> Branch:
    own = {"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "e"}
    return _typed(start, end, children, own, name="embeddings e", kind=KIND_CLIENT, **fields)


def wait(start: float, end: float, **fields: Any) -> Branch:
    """Blocked on a person, as Claude Code writes it."""
    return plain(start, end, name="claude_code.tool.blocked_on_user", **fields)


def _as_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _status(error: str | None) -> int:
    return STATUS_UNSET if error is None else STATUS_ERROR
