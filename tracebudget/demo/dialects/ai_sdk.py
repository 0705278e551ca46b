"""The Vercel AI SDK (versions 3 to 6)."""

from __future__ import annotations

import json

from tracebudget.demo.dialects.spelling import (
    MS,
    Attributes,
    Dialect,
    Spelling,
    first_chunk,
    http_frame,
)
from tracebudget.demo.work import Call, Run, Search, ToolRun


def _operation(name: str) -> Attributes:
    return {"operation.name": name, "ai.operationId": name}


def _call(call: Call) -> Spelling:
    is_streamed = call.is_streamed or call.error  # the calls that are refused are the coder's
    name = "ai.streamText.doStream" if is_streamed else "ai.generateText.doGenerate"
    attributes: Attributes = _operation(name) | {
        "ai.model.provider": f"{call.provider}.chat",
        "ai.model.id": call.model,
        "gen_ai.system": f"{call.provider}.chat",
        "gen_ai.request.model": call.model,
        "ai.telemetry.metadata.sessionId": call.session,
        "ai.prompt.messages": _prompt(call),
    }
    if call.error:
        return Spelling(name, attributes)
    first = first_chunk("ai.stream.firstChunk", call)
    return Spelling(name, attributes | _answer(call), events=first)


def _answer(call: Call) -> Attributes:
    reason = "tool-calls" if call.asks else "stop"
    return {
        "ai.response.msToFirstChunk": None if call.ttft_ns is None else call.ttft_ns / MS,
        "ai.response.finishReason": reason,
        "ai.response.text": call.text,
        "ai.response.toolCalls": _tool_calls(call) if call.asks else None,
        "ai.usage.inputTokens": call.prompt.tokens,
        "ai.usage.cachedInputTokens": call.cached_tokens,
        "ai.usage.outputTokens": call.output_tokens,
        "ai.usage.totalTokens": call.prompt.tokens + call.output_tokens,
        "gen_ai.response.finish_reasons": (reason,),
        "gen_ai.usage.input_tokens": call.prompt.tokens,
        "gen_ai.usage.output_tokens": call.output_tokens,
    }


def _prompt(call: Call) -> str:
    return json.dumps(
        [{"role": message.role, "content": message.text} for message in call.prompt.messages()]
    )


def _tool_calls(call: Call) -> str:
    return json.dumps(
        [
            {
                "type": "tool-call",
                "toolCallId": ask.call_id,
                "toolName": ask.tool,
                "input": ask.arguments,
            }
            for ask in call.asks
        ]
    )


def _tool(tool: ToolRun) -> Spelling:
    attributes: Attributes = _operation("ai.toolCall") | {
        "ai.toolCall.name": tool.ask.tool,
        "ai.toolCall.id": tool.ask.call_id,
        "ai.toolCall.args": tool.ask.arguments,
        "ai.toolCall.result": json.dumps(tool.result) if tool.result else None,
    }
    return Spelling("ai.toolCall", attributes)


def _run(run: Run) -> Spelling:
    is_streamed = any(isinstance(work, Call) and work.is_streamed for work in run.inside)
    name = "ai.streamText" if is_streamed else "ai.generateText"
    attributes: Attributes = _operation(name) | {
        "resource.name": run.agent,
        "ai.telemetry.functionId": run.agent,
        "ai.telemetry.metadata.sessionId": run.session,
        "ai.prompt": json.dumps({"prompt": run.question}),
        "ai.response.text": run.answer,
    }
    return Spelling(name, attributes)


def _search(search: Search) -> Spelling:
    return Spelling("ai.embed", _operation("ai.embed") | {"ai.value": search.query})


AI_SDK = Dialect("ai", _call, _tool, _run, _search, http_frame)
