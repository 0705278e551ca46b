"""OpenLLMetry (Traceloop), which writes an event for each chunk of a streamed answer."""

from __future__ import annotations

import json

from tracebudget.core.span import KIND_CLIENT
from tracebudget.demo.dialects.spelling import (
    Attributes,
    Dialect,
    Event,
    Spelling,
    answer_message,
    finish,
    prompt_messages,
)
from tracebudget.demo.work import Call, Frame, Run, Search, ToolRun

CHUNK = "gen_ai.content.completion.chunk"


def _call(call: Call) -> Spelling:
    attributes: Attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": call.provider,
        "gen_ai.request.model": call.model,
        "gen_ai.is_streaming": call.is_streamed,
        "traceloop.association.properties.session_id": call.session,
        "gen_ai.input.messages": prompt_messages(call),
    }
    events: list[Event] = [(CHUNK, moment, {}) for moment in call.chunks]
    return Spelling("openai.chat", attributes | _answer(call), KIND_CLIENT, events)


def _answer(call: Call) -> Attributes:
    if call.error:
        return {"error.type": call.error}
    return {
        "gen_ai.response.finish_reasons": (finish(call),),
        "gen_ai.usage.input_tokens": call.prompt.tokens,
        "gen_ai.usage.cache_read.input_tokens": call.cached_tokens,
        "gen_ai.usage.output_tokens": call.output_tokens,
        "gen_ai.usage.total_tokens": call.prompt.tokens + call.output_tokens,
        "gen_ai.output.messages": answer_message(call),
    }


def _entity(kind: str, name: str) -> Attributes:
    return {"traceloop.span.kind": kind, "traceloop.entity.name": name}


def _tool(tool: ToolRun) -> Spelling:
    attributes: Attributes = _entity("tool", tool.ask.tool) | {
        "gen_ai.tool.name": tool.ask.tool,
        "gen_ai.tool.call.id": tool.ask.call_id,
        "traceloop.entity.input": json.dumps({"args": [tool.ask.arguments], "kwargs": {}}),
        "traceloop.entity.output": json.dumps(tool.result),
        "error.type": tool.error or None,
    }
    return Spelling(f"{tool.ask.tool}.tool", attributes)


def _run(run: Run) -> Spelling:
    attributes: Attributes = _entity("agent", run.agent) | {
        "traceloop.association.properties.session_id": run.session
    }
    return Spelling(f"{run.agent}.agent", attributes)


def _search(search: Search) -> Spelling:
    attributes: Attributes = {"gen_ai.operation.name": "vector_db_retrieve"}
    return Spelling("search.task", attributes, KIND_CLIENT)


def _frame(frame: Frame) -> Spelling:
    return Spelling(f"{frame.name}.workflow", _entity("workflow", frame.name))


OPENLLMETRY = Dialect("traceloop.tracer", _call, _tool, _run, _search, _frame)
