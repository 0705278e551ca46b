"""The OpenTelemetry GenAI conventions."""

from __future__ import annotations

from tracebudget.core.span import KIND_CLIENT
from tracebudget.demo.dialects.spelling import (
    SECOND,
    Attributes,
    Dialect,
    Spelling,
    answer_message,
    finish,
    http_frame,
    prompt_messages,
)
from tracebudget.demo.work import Call, Run, Search, ToolRun


def _call(call: Call) -> Spelling:
    attributes: Attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": call.provider,
        "gen_ai.request.model": call.model,
        "gen_ai.request.stream": call.is_streamed,
        "gen_ai.conversation.id": call.session,
        "gen_ai.input.messages": prompt_messages(call),
    }
    if call.error:
        attributes["error.type"] = call.error
        return Spelling(f"chat {call.model}", attributes, KIND_CLIENT)
    return Spelling(f"chat {call.model}", attributes | _answer(call), KIND_CLIENT)


def _answer(call: Call) -> Attributes:
    return {
        "gen_ai.response.time_to_first_chunk": (
            None if call.ttft_ns is None else call.ttft_ns / SECOND
        ),
        "gen_ai.response.finish_reasons": (finish(call),),
        "gen_ai.usage.input_tokens": call.prompt.tokens,
        "gen_ai.usage.cache_read.input_tokens": call.cached_tokens,
        "gen_ai.usage.output_tokens": call.output_tokens,
        "gen_ai.output.messages": answer_message(call),
    }


def _tool(tool: ToolRun) -> Spelling:
    attributes: Attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool.ask.tool,
        "gen_ai.tool.call.id": tool.ask.call_id,
        "gen_ai.tool.call.arguments": tool.ask.arguments,
        "gen_ai.tool.call.result": tool.result or None,
        "error.type": tool.error or None,
    }
    return Spelling(f"execute_tool {tool.ask.tool}", attributes)


def _run(run: Run) -> Spelling:
    attributes: Attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": run.agent,
        "gen_ai.conversation.id": run.session,
    }
    return Spelling(f"invoke_agent {run.agent}", attributes)


def _search(search: Search) -> Spelling:
    attributes: Attributes = {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.data_source.id": "handbook",
        "gen_ai.retrieval.query.text": search.query,
    }
    return Spelling("retrieval handbook", attributes, KIND_CLIENT)


GEN_AI = Dialect("support.agent", _call, _tool, _run, _search, http_frame)
