"""OpenInference, as its OpenAI instrumentation and its decorators write it."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tracebudget.demo.dialects.spelling import (
    Attributes,
    Dialect,
    Spelling,
    finish,
    first_chunk,
    http_frame,
)
from tracebudget.demo.work import Call, Run, Search, ToolRun


def _call(call: Call) -> Spelling:
    attributes: Attributes = {
        "openinference.span.kind": "LLM",
        "llm.system": call.provider,
        "llm.model_name": call.model,
        "llm.invocation_parameters": json.dumps({"model": call.model, "stream": call.is_streamed}),
        "session.id": call.session,
        **dict(_prompt(call)),
    }
    first = first_chunk("First Token Stream Event", call)
    return Spelling("ChatCompletion", attributes | _answer(call), events=first)


def _prompt(call: Call) -> Iterator[tuple[str, str]]:
    for number, message in enumerate(call.prompt.messages()):
        yield f"llm.input_messages.{number}.message.role", message.role
        yield f"llm.input_messages.{number}.message.content", message.text


def _answer(call: Call) -> Attributes:
    if call.error:
        return {}
    return {
        "llm.finish_reason": finish(call),
        "llm.token_count.prompt": call.prompt.tokens,
        "llm.token_count.prompt_details.cache_read": call.cached_tokens,
        "llm.token_count.completion": call.output_tokens,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": call.text,
        **dict(_tool_calls(call)),
    }


def _tool_calls(call: Call) -> Iterator[tuple[str, str]]:
    for number, ask in enumerate(call.asks):
        prefix = f"llm.output_messages.0.message.tool_calls.{number}.tool_call"
        yield f"{prefix}.id", ask.call_id
        yield f"{prefix}.function.name", ask.tool
        yield f"{prefix}.function.arguments", ask.arguments


def _tool(tool: ToolRun) -> Spelling:
    attributes: Attributes = {
        "openinference.span.kind": "TOOL",
        "tool.name": tool.ask.tool,
        "tool_call.id": tool.ask.call_id,
        "input.value": tool.ask.arguments,
        "output.value": tool.result,
    }
    return Spelling(tool.ask.tool, attributes)


def _run(run: Run) -> Spelling:
    attributes: Attributes = {
        "openinference.span.kind": "AGENT",
        "agent.name": run.agent,
        "session.id": run.session,
        "input.value": run.question,
        "output.value": run.answer,
    }
    return Spelling(run.agent, attributes)


def _search(search: Search) -> Spelling:
    attributes: Attributes = {"openinference.span.kind": "RETRIEVER", "input.value": search.query}
    return Spelling("retrieve", attributes)


OPENINFERENCE = Dialect(
    "openinference.instrumentation.openai", _call, _tool, _run, _search, http_frame
)
