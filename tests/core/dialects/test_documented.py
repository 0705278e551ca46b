"""Dialects of which no trace was recorded: a hand-made span per role, after their documentation.

Names, keys and units are those of the sources that each table names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.builders import Branch, agent, chat, make_span, plain
from tests.core.reading import Document, analyzed, ms, notes, step
from tracebudget.core.dialects import DIALECTS, recognise
from tracebudget.core.span import KIND_CLIENT, KIND_INTERNAL, KIND_SERVER, Event
from tracebudget.core.step import read_step

Attributes = Mapping[str, Any]


def test_names_of_the_conventions_remain_where_attributes_are_stripped() -> None:
    assert recognise(make_span("execute_tool search"))[0] == "tool_call"
    assert recognise(make_span("invoke_agent planner"))[0] == "agent"
    assert recognise(make_span("execute_tool"))[0] is None


def test_langgraphs_node_named_agent_is_no_agent() -> None:
    """OpenInference takes every chain with "agent" in its name for one."""
    kind = {"openinference.span.kind": "AGENT"}
    scope = "openinference.instrumentation.langchain"
    assert recognise(make_span("agent", attributes=kind, scope=scope))[0] == "workflow"
    assert recognise(make_span("travel_agent", attributes=kind, scope=scope))[0] == "agent"


def test_logfires_pending_spans_of_pydantic_ai_are_ignored() -> None:
    pending = {"logfire.span_type": "pending_span", "gen_ai.operation.name": "chat"}
    assert recognise(make_span("chat m", attributes=pending, scope="pydantic-ai"))[0] == "ignore"


def test_google_adk_before_its_spans_counted_tokens() -> None:
    answer = {"usage_metadata": {"prompt_token_count": 59, "candidates_token_count": 8}}
    call = plain(
        1,
        90,
        name="call_llm",
        scope="gcp.vertex.agent",
        attributes={"gcp.vertex.agent.llm_response": json.dumps(answer)},
        id="call",
    )
    document = analyzed(plain(0, 100, call, name="agent_run [planner]", scope="gcp.vertex.agent"))
    found = step(document, "call")
    assert (found["input_tokens"], found["output_tokens"]) == (59, 8)
    assert document["agents"] == ["planner"]


@dataclass(frozen=True)
class Emitter:
    """What all spans of a dialect have in common, and a span of it for each role."""

    dialect: str
    roles: tuple[tuple[str | None, str, Attributes], ...]  # role, span name, attributes
    scope: str = ""
    service: str = "shop"
    kind: int = KIND_INTERNAL


def op(name: str, **more: Any) -> dict[str, Any]:
    return {"gen_ai.operation.name": name, "gen_ai.request.model": "m", **more}


EMITTERS = [
    Emitter(
        "agent_framework_py",
        (
            ("model_call", "chat m", op("chat")),
            ("agent", "invoke_agent a", op("invoke_agent")),
            ("tool_call", "execute_tool t", op("execute_tool")),
            ("embedding", "embeddings m", op("embeddings")),
            ("workflow", "workflow.run", {}),
            ("wrapper", "executor.process one", {}),
            ("wrapper", "edge_group.process", {}),
            ("wrapper", "message.send", {}),
        ),
        scope="agent_framework",
    ),
    Emitter(
        "agentops",
        (
            ("model_call", "openai.chat", {"agentops.span.kind": "llm"}),
            ("agent", "planner", {"agentops.span.kind": "agent"}),
            ("tool_call", "search", {"agentops.span.kind": "tool"}),
            ("workflow", "session", {"agentops.span.kind": "session"}),
            ("workflow", "task", {"agentops.span.kind": "task"}),
            ("guardrail", "check", {"agentops.span.kind": "guardrail"}),
        ),
    ),
    Emitter(
        "ai_sdk_v7",
        (
            ("agent", "invoke_agent support", op("invoke_agent")),
            ("wrapper", "step 0", op("agent_step")),
            ("model_call", "chat m", op("chat")),
            ("tool_call", "execute_tool t", op("execute_tool")),
            ("embedding", "embeddings m", op("embeddings")),
            ("retrieval", "rerank m", op("rerank")),
        ),
        scope="gen_ai",
    ),
    Emitter(
        "anthropic_api_server",
        (("server_call", "anthropic.messages.create", op("chat")),),
        scope="com.anthropic.claude-platform",
        kind=KIND_SERVER,
    ),
    Emitter(
        "anthropic_sdk",
        (
            ("model_call", "anthropic.messages.create", op("chat")),
            ("other", "anthropic.messages.count_tokens", op("chat")),
            ("agent", "anthropic.beta.messages.tool_runner", op("invoke_agent")),
            ("tool_call", "anthropic.tool_use t", op("execute_tool")),
            ("tool_call", "anthropic.mcp_tool_use t", op("execute_tool")),
            ("tool_call", "anthropic.custom_tool_use t", op("execute_tool")),
        ),
        scope="com.anthropic.sdk.python",
        kind=KIND_CLIENT,
    ),
    Emitter(
        "codex_cli",
        (
            ("agent", "session_task.turn", {"model": "m"}),
            ("wrapper", "run_turn", {}),
            ("wrapper", "run_sampling_request", {}),
            ("model_call", "try_run_sampling_request", {}),
            ("wrapper", "handle_responses", {}),
            ("model_call", "handle_responses", {"gen_ai.usage.output_tokens": 5}),
            ("tool_call", "mcp.tools.call", {}),
        ),
        scope="codex_otel",
        service="codex_cli_rs",
    ),
    Emitter(
        "crewai_builtin",
        (
            ("ignore", "Crew Created", {}),
            ("ignore", "Task Created", {}),
            ("wrapper", "Task Execution", {}),
            ("other", "Tool Usage", {"tool_name": "search", "attempts": 1}),
            ("other", "Tool Repeated Usage", {"tool_name": "search"}),
        ),
        scope="crewai.telemetry",
    ),
    Emitter(
        "dynamo",
        (
            ("server_call", "http-request", {"x_request_id": "r1"}),
            ("server_call", "handle_payload", {"x_request_id": "r1"}),
        ),
        kind=KIND_SERVER,
    ),
    Emitter(
        "envoy_ai_gateway",
        (
            ("server_call", "ChatCompletion", {"openinference.span.kind": "LLM"}),
            ("server_call", "Message", {"openinference.span.kind": "LLM"}),
            ("embedding", "CreateEmbeddings", {"openinference.span.kind": "EMBEDDING"}),
            ("other", "CountTokens", {"openinference.span.kind": "TOKEN_COUNTER"}),
        ),
        scope="envoyproxy/ai-gateway",
    ),
    Emitter(
        "gemini_cli",
        (
            ("model_call", "llm_call", op("llm_call")),
            ("tool_call", "tool_call", op("tool_call")),
            ("agent", "agent_call", op("agent_call")),
            ("agent", "user_prompt", op("user_prompt")),
            ("wrapper", "schedule_tool_calls", op("schedule_tool_calls")),
            ("other", "system_prompt", op("system_prompt")),
        ),
        scope="gemini-cli",
    ),
    Emitter(
        "haystack",
        (
            ("agent", "haystack.agent.run", {"haystack.agent.max_steps": 5}),
            ("wrapper", "haystack.agent.step", {}),
            ("model_call", "haystack.agent.step.llm", {}),
            ("tool_call", "haystack.agent.step.tool", {"haystack.tool.name": "t"}),
            ("model_call", "haystack.chat_generator.run", {}),
            (
                "model_call",
                "haystack.component.run",
                {"haystack.component.type": "OpenAIChatGenerator"},
            ),
            (
                "retrieval",
                "haystack.component.run",
                {"haystack.component.type": "InMemoryBM25Retriever"},
            ),
            (
                "embedding",
                "haystack.component.run",
                {"haystack.component.type": "OpenAITextEmbedder"},
            ),
            ("workflow", "haystack.pipeline.run", {}),
            ("workflow", "haystack.async_pipeline.run", {}),
            ("wait", "haystack.agent.hook.human_in_the_loop.strategy", {}),
        ),
    ),
    Emitter(
        "laminar",
        (
            ("model_call", "openai.chat", {"lmnr.span.type": "LLM"}),
            ("tool_call", "search", {"lmnr.span.type": "TOOL"}),
            ("other", "cached", {"lmnr.span.type": "CACHED"}),
        ),
    ),
    Emitter(
        "litellm_legacy",
        (
            ("model_call", "litellm_request", op("chat")),
            ("copy", "raw_gen_ai_request", {"llm.openai.id": "x"}),
        ),
        scope="litellm",
    ),
    Emitter(
        "litellm_v2",
        (
            ("model_call", "chat m", op("chat", **{"litellm.call_id": "c"})),
            ("guardrail", "execute_guardrail pii", {"litellm.guardrail.name": "pii"}),
            ("other", "route m", {"litellm.service.name": "router"}),
            ("other", "cache.get redis", {"litellm.service.name": "redis"}),
        ),
        scope="litellm",
        kind=KIND_CLIENT,
    ),
    Emitter(
        "llamaindex_otel",
        (
            ("model_call", "OpenAI.achat", {}),
            ("model_call", "OpenAI.stream_chat", {}),
            ("model_call", "Anthropic.complete", {}),
            ("tool_server", "FunctionTool.call", {}),
            ("tool_call", "BaseWorkflowAgent.call_tool", {}),
            ("embedding", "OpenAIEmbedding.get_text_embedding", {}),
            ("retrieval", "VectorIndexRetriever.retrieve", {}),
            ("agent", "ReActAgent.run", {}),
        ),
        scope="llamaindex.opentelemetry.tracer",
    ),
    Emitter(
        "mcp",
        (
            ("tool_call", "tools/call search", {"mcp.method.name": "tools/call"}),
            ("other", "initialize", {"mcp.method.name": "initialize"}),
            ("other", "tools/list", {"mcp.method.name": "tools/list"}),
        ),
        kind=KIND_CLIENT,
    ),
    Emitter(
        "mcp",
        (("tool_server", "tools/call search", {"mcp.method.name": "tools/call"}),),
        kind=KIND_SERVER,
    ),
    Emitter(
        "meai_dotnet",
        (
            ("model_call", "chat m", op("chat")),
            ("agent", "invoke_agent a", op("invoke_agent")),
            ("wrapper", "orchestrate_tools", op("orchestrate_tools")),
            ("tool_call", "execute_tool t", op("execute_tool")),
            ("embedding", "embeddings m", op("embeddings")),
        ),
        scope="Experimental.Microsoft.Extensions.AI",
    ),
    Emitter(
        "meai_dotnet",
        (("agent", "invoke_agent a", op("invoke_agent")),),
        scope="Experimental.Microsoft.Agents.AI",
    ),
    Emitter(
        "mistral_sdk",
        (
            ("model_call", "chat m", op("chat")),
            ("agent", "invoke_agent a", op("invoke_agent")),
            ("tool_call", "execute_tool t", op("execute_tool")),
            ("model_call", "text_completion m", op("text_completion")),
            ("embedding", "embeddings m", op("embeddings")),
        ),
        scope="mistralai_sdk_tracer",
    ),
    Emitter(
        "mlflow",
        tuple(
            (role, "x", {"mlflow.spanType": json.dumps(kind)})
            for kind, role in {
                "LLM": "model_call",
                "CHAT_MODEL": "model_call",
                "TOOL": "tool_call",
                "AGENT": "agent",
                "CHAIN": "workflow",
                "WORKFLOW": "workflow",
                "TASK": "workflow",
                "RETRIEVER": "retrieval",
                "RERANKER": "retrieval",
                "EMBEDDING": "embedding",
                "GUARDRAIL": "guardrail",
                "EVALUATOR": "guardrail",
                "PARSER": None,
                "MEMORY": None,
                "UNKNOWN": None,
            }.items()
        ),
    ),
    Emitter(
        "openlit",
        (
            ("model_call", "chat m", op("chat")),
            # Model spans carry the names of the tools that they ask for: no tool calls.
            ("model_call", "chat m", op("chat", **{"gen_ai.tool.name": "a, b"})),
            ("agent", "invoke_agent a", op("invoke_agent")),
            ("tool_call", "execute_tool t", op("execute_tool")),
            ("workflow", "invoke_workflow w", op("invoke_workflow")),
            ("retrieval", "vectordb", op("vectordb")),
            ("embedding", "embeddings m", op("embedding")),
        ),
        scope="openlit.otel.tracing",
    ),
    Emitter(
        "qwen_code",
        (
            ("agent", "qwen-code.interaction", {}),
            ("agent", "qwen-code.subagent", {}),
            ("model_call", "qwen-code.llm_request", {}),
            ("tool_call", "qwen-code.tool", {"gen_ai.tool.name": "t"}),
            ("wait", "qwen-code.tool.blocked_on_user", {}),
            ("tool_server", "qwen-code.tool.execution", {}),
            ("other", "qwen-code.hook", {}),
        ),
        scope="qwen-code",
    ),
    Emitter(
        "declared",
        (
            ("model_call", "think", {"acme.span.kind": "LLM"}),
            ("agent", "planner", {"acme.span_kind": "Agent"}),
            ("tool_call", "search", {"acme.observation.type": "tool"}),
            ("retrieval", "lookup", {"run_type": "retriever"}),
            ("embedding", "embed", {"span.type": "embedding"}),
            ("guardrail", "check", {"acme.span.type": "guardrail"}),
            ("workflow", "flow", {"acme.span.type": "chain"}),
        ),
    ),
    Emitter(
        "rig",
        (
            ("model_call", "chat", op("chat", **{"gen_ai.usage.cached_tokens": 0})),
            ("model_call", "chat_streaming", op("chat_streaming")),
            ("agent", "invoke_agent", op("invoke_agent")),
            ("tool_call", "execute_tool", op("execute_tool")),
        ),
        scope="rig::agent::prompt_request",
    ),
    Emitter(
        "semantic_kernel",
        (
            ("model_call", "chat m", op("chat", **{"gen_ai.response.finish_reason": "Stop"})),
            ("model_call", "text_completion m", op("text_completion")),
            ("agent", "invoke_agent a", op("invoke_agent")),
            ("tool_call", "execute_tool plugin-fn", op("execute_tool")),
        ),
        scope="Microsoft.SemanticKernel.Diagnostics",
    ),
    Emitter(
        "sglang",
        (
            ("server_call", "unified Req 1a2b3c4d", {"gen_ai.latency.e2e": 0.4}),
            ("queue", "prefill_waiting", {}),
            ("other", "tokenize", {}),
            ("other", "prefill_forward", {}),
            ("other", "decode_loop", {}),
        ),
        scope="sglang server",
        service="engine",
    ),
    Emitter(
        "spring_ai",
        (
            ("model_call", "chat m", op("chat", **{"spring.ai.model.request": "x"})),
            ("wrapper", "spring_ai chat_client", {"spring.ai.kind": "chat_client"}),
            ("wrapper", "advisor", {"spring.ai.kind": "advisor"}),
            ("tool_call", "tool_call t", {"spring.ai.kind": "tool_call"}),
            ("retrieval", "vector_store query", {"spring.ai.kind": "vector_store"}),
            ("embedding", "embedding m", op("embedding", **{"spring.ai.model.request": "x"})),
        ),
    ),
    Emitter(
        "traceai",
        tuple(
            (role, "x", {"fi.span.kind": kind})
            for kind, role in {
                "LLM": "model_call",
                "CHAIN": "workflow",
                "AGENT": "agent",
                "TOOL": "tool_call",
                "RETRIEVER": "retrieval",
                "RERANKER": "retrieval",
                "VECTOR_DB": "retrieval",
                "EMBEDDING": "embedding",
                "GUARDRAIL": "guardrail",
                "EVALUATOR": "guardrail",
            }.items()
        ),
    ),
    Emitter(
        "trtllm",
        (
            (
                "server_call",
                "generate",
                {"gen_ai.latency.e2e": 0.4, "gen_ai.latency.kv_cache_transfer_time": 0.01},
            ),
        ),
        kind=KIND_SERVER,
    ),
    Emitter(
        "vllm",
        (("server_call", "llm_request", {"gen_ai.latency.e2e": 0.4}),),
        scope="vllm.llm_engine",
        kind=KIND_SERVER,
    ),
]

SPANS = [
    pytest.param(emitter, role, name, attributes, id=f"{emitter.dialect}-{name}-{role}")
    for emitter in EMITTERS
    for role, name, attributes in emitter.roles
]


@pytest.mark.parametrize(("emitter", "role", "name", "attributes"), SPANS)
def test_each_span_plays_its_role(
    emitter: Emitter, role: str | None, name: str, attributes: Attributes
) -> None:
    span = make_span(
        name,
        attributes=attributes,
        scope=emitter.scope,
        service=emitter.service,
        kind=emitter.kind,
    )
    reading = recognise(span)
    assert reading.role == role
    if role is not None:
        assert reading.dialect is not None
        assert reading.dialect.id == emitter.dialect


def test_every_dialect_from_documentation_has_its_spans() -> None:
    from_documentation = {d.id for d in DIALECTS if d.evidence == "documentation"}
    assert from_documentation <= {emitter.dialect for emitter in EMITTERS}


# --- when the scope is lost -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "span"),
    [
        ("model_call", make_span("claude_code.llm_request")),
        ("model_call", make_span("qwen-code.llm_request")),
        ("model_call", make_span("anthropic.messages.create", attributes=op("chat"))),
        ("wrapper", make_span("step 0", attributes=op("agent_step"))),
        ("model_call", make_span("x", attributes={"ai.operationId": "ai.streamText.doStream"})),
        ("model_call", make_span("llm_call", attributes=op("llm_call"))),
        ("agent", make_span("agent_call", attributes=op("agent_call"))),
        ("model_call", make_span("try_run_sampling_request", service="codex_exec")),
        ("agent", make_span("invoke_agent a", attributes={"gen_ai.system": "strands-agents"})),
        ("wrapper", make_span("orchestrate_tools", attributes=op("orchestrate_tools"))),
        ("wrapper", make_span("spring_ai", attributes={"gen_ai.operation.name": "framework"})),
        ("model_call", make_span("litellm_request", attributes=op("chat"))),
        ("agent", make_span("haystack.agent.run")),
        ("model_call", make_span("x", attributes={"langfuse.observation.type": "generation"})),
        ("model_call", make_span("x", attributes={"langsmith.span.kind": "llm"})),
        ("model_call", make_span("x", attributes={"traceloop.entity.path": "a", **op("chat")})),
        ("model_call", make_span("openai.chat", attributes={"llm.request.type": "chat"})),
        ("server_call", make_span("llm_request", attributes={"gen_ai.latency.e2e": 1.0})),
        ("model_call", make_span("chat m", attributes=op("chat"))),
    ],
    ids=lambda value: value.name if hasattr(value, "name") else value,
)
def test_a_span_is_known_by_its_names_and_keys_too(role: str, span: Any) -> None:
    assert recognise(span).role == role


def test_the_native_dialect_is_read_where_a_processor_added_another() -> None:
    """OpenInference's processors add their keys to native spans; the native one knows more."""
    both = {"openinference.span.kind": "LLM", **op("chat")}
    reading = recognise(make_span("chat m", scope="pydantic-ai", attributes=both))
    assert reading.dialect is not None
    assert reading.dialect.id == "pydantic_ai"


def test_a_span_that_no_dialect_knows_is_plain() -> None:
    assert recognise(make_span("GET /orders", attributes={"http.route": "/orders"})).role is None


# --- facts ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """A model call 0..500 of a dialect, and what is read from it."""

    dialect: str
    expected: Attributes
    attributes: Attributes = field(default_factory=dict)
    name: str = "chat m"
    scope: str = ""
    service: str = "shop"
    kind: int = KIND_INTERNAL
    events: tuple[Event, ...] = ()

    def __str__(self) -> str:
        return self.dialect

    def branch(self) -> Branch:
        span = make_span(
            self.name,
            0,
            500,
            id="call",
            attributes=self.attributes,
            scope=self.scope,
            service=self.service,
            kind=self.kind,
        )
        moved = tuple(Event(e.name, span.start_ns + e.time_ns, e.attributes) for e in self.events)
        return Branch(span.__class__(**{**_fields(span), "events": moved}))


def _fields(span: Any) -> dict[str, Any]:
    return {name: getattr(span, name) for name in span.__dataclass_fields__}


USAGE = {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 20}
COUNTED = {"input_tokens": 100, "output_tokens": 20}
REPLY = {
    "model": "m",
    "finish_reason": "stop",
    "usage": {"prompt_tokens": 100, "completion_tokens": 20},
    "completion_start_time": "2026-01-01T00:00:00.120000",
}

CALLS = [
    Call(
        "agentops",
        COUNTED
        | {
            "ttft_ms": 120,
            "ttft_from": "gen_ai.streaming.time_to_first_token",
            "cached_input_tokens": 60,
            "streamed": True,
        },
        {
            **USAGE,
            "agentops.span.kind": "llm",
            "gen_ai.streaming.time_to_first_token": 0.12,
            "gen_ai.usage.cache_read_input_tokens": 60,
            "gen_ai.request.streaming": True,
        },
    ),
    Call(
        "ai_sdk_v7",
        COUNTED
        | {
            "ttft_ms": 120,
            "ttft_from": "gen_ai.client.operation.time_to_first_chunk",
            "streamed": True,
        },
        {**op("chat"), **USAGE, "gen_ai.client.operation.time_to_first_chunk": 0.12},
        scope="gen_ai",
    ),
    Call(
        "anthropic_sdk",
        COUNTED | {"ttft_ms": 120, "ttft_is_bound": False, "finish_reason": "end_turn"},
        {
            **op("chat"),
            **USAGE,
            "gen_ai.response.time_to_first_chunk": 0.12,
            "anthropic.message.stop_reason": "end_turn",
        },
        name="anthropic.messages.create",
        scope="com.anthropic.sdk.python",
        kind=KIND_CLIENT,
    ),
    Call(
        "codex_cli",
        COUNTED | {"cached_input_tokens": 60, "reasoning_tokens": 5, "ttft_source": "unknown"},
        {
            **USAGE,
            "gen_ai.usage.cache_read.input_tokens": 60,
            "codex.usage.reasoning_output_tokens": 5,
            "codex.usage.total_tokens": 120,
        },
        name="handle_responses",
        service="codex_cli_rs",
    ),
    Call(
        "gemini_cli",
        COUNTED | {"model": "m", "ttft_source": "unknown"},
        {**op("llm_call"), **USAGE},
        name="llm_call",
        scope="gemini-cli",
    ),
    Call(
        "haystack",
        COUNTED
        | {
            "model": "m",
            "finish_reason": "stop",
            "ttft_ms": 120,
            "ttft_from": "haystack.agent.step.llm.output",
        },
        {"haystack.agent.step.llm.output": json.dumps({"replies": [{"meta": REPLY}]})},
        name="haystack.agent.step.llm",
    ),
    Call(
        "laminar",
        COUNTED | {"model": "m"},
        {**op("chat"), **USAGE, "lmnr.span.type": "LLM"},
        name="openai.chat",
    ),
    Call(
        "litellm_v2",
        COUNTED | {"ttft_ms": 120, "streamed": True},
        {
            **op("chat"),
            **USAGE,
            "litellm.call_id": "c",
            "litellm.request.streaming": True,
            "gen_ai.response.time_to_first_chunk": 0.12,
        },
        scope="litellm",
        kind=KIND_CLIENT,
    ),
    Call(
        "litellm_legacy",
        COUNTED | {"streamed": True, "ttft_source": "unknown"},
        {**op("chat"), **USAGE, "llm.is_streaming": "True"},
        name="litellm_request",
        scope="litellm",
    ),
    Call(
        "llamaindex_otel",
        {"ttft_ms": 120, "ttft_from": "event:LLMChatInProgressEvent"},
        name="OpenAI.stream_chat",
        scope="llamaindex.opentelemetry.tracer",
        # Events are flushed when the span ends; the real time stands inside.
        events=(
            Event(
                "LLMChatInProgressEvent", 500_000_000, {"timestamp": "2026-01-01T00:00:00.120000"}
            ),
            Event(
                "LLMChatInProgressEvent", 500_000_000, {"timestamp": "2026-01-01T00:00:00.180000"}
            ),
        ),
    ),
    Call(
        "meai_dotnet",
        COUNTED
        | {"ttft_ms": 120, "ttft_is_bound": True, "streamed": True, "finish_reason": "stop"},
        {
            **op("chat"),
            **USAGE,
            "gen_ai.request.stream": True,
            "gen_ai.response.time_to_first_chunk": 0.12,
            "gen_ai.response.finish_reasons": '["stop"]',
        },
        scope="Experimental.Microsoft.Extensions.AI",
    ),
    Call(
        "mistral_sdk",
        COUNTED | {"model": "m", "ttft_source": "unknown"},
        {**op("chat"), **USAGE},
        scope="mistralai_sdk_tracer",
    ),
    Call(
        "mlflow",
        COUNTED | {"model": "m", "provider": "openai", "cached_input_tokens": 60, "ttft_ms": 120},
        {
            "mlflow.spanType": '"CHAT_MODEL"',
            "mlflow.llm.model": '"m"',
            "mlflow.llm.provider": '"openai"',
            "mlflow.chat.tokenUsage": json.dumps(
                {"input_tokens": 100, "output_tokens": 20, "cache_read_input_tokens": 60}
            ),
        },
        events=(
            Event("mlflow.chunk.item.0", 120_000_000),
            Event("mlflow.chunk.item.1", 150_000_000),
        ),
    ),
    Call(
        "openlit",
        COUNTED | {"ttft_ms": 120, "streamed": True, "reasoning_tokens": 5},
        {
            **op("chat"),
            **USAGE,
            "gen_ai.request.stream": True,
            "gen_ai.server.time_to_first_token": 0.12,
            "gen_ai.usage.reasoning_tokens": 5,
        },
        scope="openlit.otel.tracing",
    ),
    Call(
        "qwen_code",
        COUNTED | {"ttft_ms": 120, "ttft_from": "ttft_ms"},
        {**USAGE, "ttft_ms": 120, "gen_ai.request.model": "m"},
        name="qwen-code.llm_request",
        scope="qwen-code",
    ),
    Call(
        "rig",
        COUNTED | {"cached_input_tokens": 60, "streamed": True},
        {**op("chat_streaming"), **USAGE, "gen_ai.usage.cached_tokens": 60},
        name="chat_streaming",
        scope="rig::agent::prompt_request",
    ),
    Call(
        "semantic_kernel",
        COUNTED | {"finish_reason": "stop", "ttft_source": "unknown"},
        {**op("chat"), **USAGE, "gen_ai.response.finish_reason": "Stop"},
        scope="Microsoft.SemanticKernel.Diagnostics",
    ),
    Call(
        "spring_ai",
        COUNTED | {"finish_reason": "stop", "streamed": True, "cached_input_tokens": 60},
        {  # Micrometer: every value is text
            **op("chat"),
            "spring.ai.model.request": "x",
            "gen_ai.usage.input_tokens": "100",
            "gen_ai.usage.output_tokens": "20",
            "gen_ai.usage.cache_read.input_tokens": "60",
            "gen_ai.request.stream": "true",
            "gen_ai.response.finish_reasons": '["STOP"]',
        },
    ),
    Call(
        "traceai",
        COUNTED | {"ttft_ms": 120},
        {**op("chat"), **USAGE, "fi.span.kind": "LLM", "autogen.time_to_first_token_ms": 120},
    ),
    Call(
        "agent_framework_py",
        COUNTED | {"streamed": None, "ttft_source": "unknown"},
        {**op("chat"), **USAGE},
        scope="agent_framework",
    ),
]

ENGINES = [
    Call(
        "vllm",
        COUNTED | {"ttft_ms": 120, "ttft_from": "gen_ai.latency.time_to_first_token", "queue": 60},
        {
            "gen_ai.latency.e2e": 0.5,
            "gen_ai.latency.time_in_queue": 0.06,
            "gen_ai.latency.time_in_model_prefill": 0.05,
            "gen_ai.latency.time_in_model_decode": 0.38,
            "gen_ai.latency.time_to_first_token": 0.12,
            "gen_ai.usage.prompt_tokens": 100,
            "gen_ai.usage.completion_tokens": 20,
        },
        name="llm_request",
        scope="vllm.llm_engine",
        kind=KIND_SERVER,
    ),
    Call(
        "trtllm",
        COUNTED | {"ttft_ms": 120, "queue": 60},
        {
            "gen_ai.latency.e2e": 0.5,
            "gen_ai.latency.time_in_queue": 0.06,
            "gen_ai.latency.time_to_first_token": 0.12,
            "gen_ai.latency.kv_cache_transfer_time": 0.01,
            "gen_ai.usage.prompt_tokens": 100,
            "gen_ai.usage.completion_tokens": 20,
        },
        name="generate",
        kind=KIND_SERVER,
    ),
    Call(
        "sglang",
        COUNTED | {"ttft_ms": 120, "cached_input_tokens": 60},
        {
            "gen_ai.latency.e2e": 0.5,
            "gen_ai.latency.time_in_model_prefill": 0.12,
            "gen_ai.latency.time_to_first_token": 0.12,
            "gen_ai.usage.prompt_tokens": 100,
            "gen_ai.usage.completion_tokens": 20,
            "gen_ai.usage.cached_tokens": 60,
        },
        name="unified Req 1a2b3c4d",
        scope="sglang server",
        service="engine",
        kind=KIND_SERVER,
    ),
]


def read(call: Call) -> Document:
    found = step(analyzed(agent(0, 500, call.branch())), "call")
    found["ttft_ms"] = None if found["ttft_ns"] is None else ms(found["ttft_ns"])
    found["queue"] = None if found["queue_ns"] is None else ms(found["queue_ns"])
    return found


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_the_facts_of_a_call(call: Call) -> None:
    found = read(call)
    assert found["dialect"] == call.dialect
    assert {key: found[key] for key in call.expected} == call.expected
    assert found["ttft_source"] == ("measured" if "ttft_ms" in call.expected else "unknown")


@pytest.mark.parametrize("call", ENGINES, ids=str)
def test_the_facts_of_an_engine(call: Call) -> None:
    """Alone, the server's view is the call; its figures are reported."""
    found = read(call)
    assert (found["dialect"], found["kind"]) == (call.dialect, "model_call")
    assert {key: found[key] for key in call.expected} == call.expected
    assert found["ttft_source"] == "reported"


# --- traps ----------------------------------------------------------------------------------------


def test_codex_names_the_model_on_the_turns_span() -> None:
    call = plain(
        10, 90, name="handle_responses", id="call", service="codex_cli_rs",
        attributes={"gen_ai.usage.output_tokens": 5},
    )  # fmt: skip
    inner = plain(5, 95, call, name="run_sampling_request", service="codex_cli_rs")
    document = analyzed(
        plain(
            0,
            100,
            inner,
            name="session_task.turn",
            attributes={"model": "gpt-codex"},
            service="codex_cli_rs",
        )
    )
    assert step(document, "call")["model"] == "gpt-codex"


def test_envoys_first_token_event_is_written_at_the_end_and_never_read() -> None:
    gateway = plain(
        5,
        495,
        name="ChatCompletion",
        scope="envoyproxy/ai-gateway",
        attributes={"openinference.span.kind": "LLM", "llm.token_count.completion": 20},
        events=[("First Token Stream Event", 200)],
    )
    document = analyzed(agent(0, 500, chat(0, 500, gateway, input=9, output=20, id="call")))
    assert step(document, "call")["ttft_source"] == "unknown"


def test_agent_framework_net_writes_a_first_token_on_the_agent() -> None:
    """The agent span is made by the chat client's class: usage and TTFT of a call, and no call."""
    outer = {**op("invoke_agent"), **USAGE, "gen_ai.response.time_to_first_chunk": 0.1}
    document = analyzed(
        plain(
            0,
            500,
            chat(10, 490, input=100, output=20, id="call"),
            scope="Experimental.Microsoft.Agents.AI",
            attributes=outer,
        )
    )
    assert [s["kind"] for s in document["steps"]] == ["agent", "model_call"]
    assert step(document, "call")["ttft_source"] == "unknown"


def test_agent_framework_py_calls_an_unknown_tool_call_unknown() -> None:
    attributes = op("execute_tool", **{"gen_ai.tool.call.id": "unknown", "gen_ai.tool.name": "t"})
    document = analyzed(
        agent(0, 100, plain(0, 90, scope="agent_framework", attributes=attributes, id="t"))
    )
    assert step(document, "t")["call_id"] is None


def test_gemini_cli_writes_the_call_id_with_an_underscore() -> None:
    attributes = op("tool_call", **{"gen_ai.tool.call_id": "c1", "gen_ai.tool.name": "t"})
    document = analyzed(
        agent(0, 100, plain(0, 90, scope="gemini-cli", attributes=attributes, id="t"))
    )
    assert (step(document, "t")["call_id"], step(document, "t")["name"]) == ("c1", "t")


def test_haystack_tools_fail_in_their_output() -> None:
    attributes = {
        "haystack.tool.name": "search",
        "haystack.agent.step.tool.output": '{"error": "no such city"}',
    }
    document = analyzed(
        agent(0, 100, plain(0, 90, name="haystack.agent.step.tool", attributes=attributes, id="t"))
    )
    assert step(document, "t")["status"] == "error"


def _invoker(start: float, end: float, became: str, *, is_error: bool, id: str) -> Branch:
    """Haystack's component that runs tools, as OpenInference sees it."""
    message = f"ChatMessage(_content=[ToolCallResult(result='{became}', origin=ToolCall(tool_name="
    message += f"'search', arguments={{'q': 'hours'}}, id='c1', extra=None), error={is_error})])"
    return plain(
        start, end, name="ToolInvoker.run_async", id=id,
        scope="openinference.instrumentation.haystack",
        attributes={
            "openinference.span.kind": "CHAIN",
            "output.value": json.dumps({"tool_messages": [message]}),
        },
    )  # fmt: skip


def test_haystacks_tool_invoker_is_a_tool_to_openinference() -> None:
    document = analyzed(agent(0, 100, _invoker(0, 90, "closed", is_error=False, id="t")))
    tool = step(document, "t")
    assert (tool["kind"], tool["name"], tool["status"]) == ("tool_call", "search", "ok")


def test_a_tool_that_failed_inside_haystacks_invoker_failed() -> None:
    """
    haystack.component.run |------|  Haystack's own span, which says nothing of failures
      ToolInvoker.run_async |----|
    """
    inner = _invoker(5, 85, "timed out", is_error=True, id="inner")
    component = {"haystack.component.type": "ToolInvoker", "haystack.component.name": "invoker"}
    outer = plain(0, 90, inner, name="haystack.component.run", attributes=component, id="t")
    document = analyzed(agent(0, 100, outer))
    assert [s["span_id"] for s in document["steps"] if s["kind"] == "tool_call"] == ["t"]
    assert step(document, "t")["status"] == "error"


def test_agnos_first_openinference_spans_tell_a_tools_arguments_as_parameters() -> None:
    def asked(page: int, start: int) -> Branch:
        arguments = {"input.value": "{}", "tool.parameters": json.dumps({"page": page})}
        tool = {"openinference.span.kind": "TOOL", "tool.name": "fetch", **arguments}
        return plain(start, start + 90, name="fetch", attributes=tool)

    other = analyzed(agent(0, 200, asked(1, 0), asked(2, 100)))
    same = analyzed(agent(0, 200, asked(1, 0), asked(1, 100)))
    assert "repeated_tool_call" not in {f["code"] for f in other["findings"]}
    assert "repeated_tool_call" in {f["code"] for f in same["findings"]}


def test_claude_code_names_a_failures_class() -> None:
    failed = {"success": False, "error_class": "ShellError", "error": "cat: no such file"}
    run = plain(10, 90, name="claude_code.tool.execution", attributes=failed)
    document = analyzed(agent(0, 100, plain(0, 95, run, name="claude_code.tool", id="t")))
    assert step(document, "t")["error_type"] == "ShellError"


def test_claude_codes_heading_above_a_tools_input_is_none_of_it() -> None:
    told = {"tool_name": "t", "tool_input": '[TOOL INPUT: mcp__x__t]\n{"city": "Paris"}'}
    bare = {"tool_name": "t", "tool_input": '{"city": "Paris"}'}
    spans = [make_span("claude_code.tool", attributes=a) for a in (told, bare)]
    first, second = (read_step(span, recognise(span)) for span in spans)
    assert first is not None
    assert second is not None
    assert first.arguments == second.arguments
    assert first.arguments is not None
    assert first.arguments[1] is True


@pytest.mark.parametrize(("source", "kinds"), [("config", set()), ("user_permanent", {"wait"})])
def test_claude_code_waits_only_where_a_person_was_asked(source: str, kinds: set[str]) -> None:
    asked = plain(0, 40, name="claude_code.tool.blocked_on_user", attributes={"source": source})
    document = analyzed(agent(0, 100, plain(0, 95, asked, name="claude_code.tool")))
    assert {s["kind"] for s in document["steps"]} - {"agent", "tool_call"} == kinds


STREAMS = ["<groq.AsyncStream object at 0x7f49>", "<async_generator object f at 0x7f49>"]


@pytest.mark.parametrize("answer", STREAMS)
def test_a_call_whose_answer_is_the_stream_itself_went_on(answer: str) -> None:
    """The wrapper closed the span when the stream was opened: the tools began after it."""
    said = {"openinference.span.kind": "LLM", "output.value": answer}
    asked = {"openinference.span.kind": "TOOL", "tool.name": "search"}
    call = plain(0, 4, name="AsyncCompletions", attributes=said, id="call")
    document = analyzed(
        agent(0, 900, call, plain(500, 800, name="search", attributes=asked, id="tool"))
    )
    assert ms(step(document, "call")["critical_ns"]) == 500
    assert notes(document)["unfinished_span"]["span_ids"] == ["call"]


DECLARED = {
    "agent": {"acme.span.kind": "AGENT"},
    "model_call": {
        "acme.span.kind": "LLM",
        "acme.model_name": "m",
        "acme.usage.prompt_tokens": 70,
        "acme.usage.completion_tokens": 9,
        "acme.ttft_ms": 30,
    },
    "tool_call": {"acme.span_type": "tool"},
}


def test_an_unknown_sdk_that_declares_its_spans_kind_is_read() -> None:
    call = plain(10, 90, name="think", attributes=DECLARED["model_call"], id="call")
    tool = plain(90, 150, name="search", attributes=DECLARED["tool_call"], id="tool")
    document = analyzed(plain(0, 200, call, tool, name="planner", attributes=DECLARED["agent"]))
    found = step(document, "call")
    assert (found["dialect"], found["model"], ms(found["ttft_ns"])) == ("declared", "m", 30)
    assert (found["input_tokens"], found["output_tokens"]) == (70, 9)
    assert step(document, "tool")["name"] == "search"
    assert document["agents"] == ["planner"]


def test_strands_in_typescript_is_known_by_its_events_times() -> None:
    """Its scope and its `gen_ai.system` are the service's name."""
    told = {**op("execute_tool", **{"gen_ai.tool.name": "t"}), "gen_ai.event.start_time": "x"}
    asked = Event("gen_ai.tool.message", 0, {"content": '{"sku": "A-100"}'})
    span = replace(make_span("execute_tool t", attributes=told), events=(asked,))
    found = read_step(span, recognise(span))
    assert found is not None
    assert (found.dialect, found.kind) == ("strands", "tool_call")
    assert found.arguments is not None


def test_a_tools_arguments_may_stand_as_the_message_to_it() -> None:
    """TanStack AI."""
    told = {"gen_ai.tool.name": "t", "gen_ai.tool.call.id": "c1"}
    asked = {"gen_ai.input.messages": '[{"role":"tool","content":"{\\"sku\\":\\"A-100\\"}"}]'}
    span = make_span("execute_tool t", attributes={**told, **asked})
    same = make_span(
        "execute_tool t", attributes={**told, "gen_ai.tool.call.arguments": '{"sku": "A-100"}'}
    )
    first, second = (read_step(one, recognise(one)) for one in (span, same))
    assert first is not None
    assert second is not None
    assert first.arguments == second.arguments
    assert first.arguments is not None


def test_a_kind_that_says_nothing_leaves_a_span_plain() -> None:
    assert recognise(make_span(attributes={"acme.span.type": "component"})).role is None
    assert recognise(make_span(attributes={"db.type": "llm"})).role is None


def test_a_tools_name_and_its_calls_id_make_a_tool() -> None:
    told = {"gen_ai.tool.name": "search", "gen_ai.tool.call.id": "c1"}
    assert recognise(make_span("run", attributes=told)).role == "tool_call"


def test_qwen_code_tells_how_a_tool_failed() -> None:
    attributes = {"gen_ai.tool.name": "t", "tool.failure_kind": "timeout"}
    document = analyzed(
        agent(0, 100, plain(0, 90, name="qwen-code.tool", attributes=attributes, id="t"))
    )
    assert step(document, "t")["status"] == "error"


def test_qwen_codes_log_records_are_no_spans() -> None:
    """Written as spans that begin with the record and run past the event."""
    attributes = {"log.bridge": True, "qwen-code.prompt_id": "p", **op("chat"), **USAGE}
    document = analyzed(
        agent(
            0,
            500,
            plain(0, 300, name="qwen-code.llm_request", attributes=USAGE, id="call"),
            plain(300, 600, name="qwen-code.api_response", scope="qwen-code",
                  attributes=attributes),
        )
    )  # fmt: skip
    assert [s["span_id"] for s in document["steps"] if s["kind"] == "model_call"] == ["call"]


def test_sglang_waits_in_a_stage_of_its_own() -> None:
    """
    request  |--------------------|
      prefill_waiting  |---|            60 ms in the queue
    """
    waiting = plain(10, 70, name="prefill_waiting", scope="sglang server", service="engine")
    request = plain(
        0,
        500,
        waiting,
        name="unified Req 1a2b3c4d",
        scope="sglang server",
        service="engine",
        kind=KIND_SERVER,
        attributes={
            "gen_ai.latency.e2e": 0.5,
            "gen_ai.latency.time_to_first_token": 0.12,
            "gen_ai.usage.completion_tokens": 20,
        },
        id="call",
    )
    document = analyzed(agent(0, 500, request))
    assert ms(step(document, "call")["queue_ns"]) == 60


def test_fetching_a_stored_response_is_no_generation() -> None:
    fetched = plain(
        100,
        200,
        scope="opentelemetry.instrumentation.genai.openai",
        attributes={**op("fetch_response"), **USAGE},
    )
    document = analyzed(agent(0, 300, chat(0, 100), fetched))
    assert sum(s["kind"] == "model_call" for s in document["steps"]) == 1


def test_langsmith_prompt_runs_are_no_generations() -> None:
    attributes = {"langsmith.span.kind": "prompt", **op("chat")}
    assert recognise(make_span("ChatPromptTemplate", attributes=attributes)).role == "other"


def test_litellm_copies_are_left_out() -> None:
    """`raw_gen_ai_request` covers the same interval."""
    raw = plain(0, 400, name="raw_gen_ai_request", scope="litellm",
                attributes={"llm.openai.id": "x"}, id="raw")  # fmt: skip
    call = plain(0, 400, raw, name="litellm_request", scope="litellm", attributes=op("chat"),
                 id="call")  # fmt: skip
    document = analyzed(agent(0, 500, call))
    assert [s["span_id"] for s in document["steps"] if s["kind"] == "model_call"] == ["call"]


def test_spring_ai_wrappers_add_no_call() -> None:
    call = plain(20, 380, name="chat m", attributes={**op("chat"), "spring.ai.model": "x"},
                 id="call")  # fmt: skip
    advised = plain(10, 390, call, attributes={"spring.ai.kind": "advisor"})
    document = analyzed(
        agent(0, 400, plain(0, 400, advised, attributes={"spring.ai.kind": "chat_client"}))
    )
    assert [s["span_id"] for s in document["steps"] if s["kind"] == "model_call"] == ["call"]


def test_a_clean_documented_call_raises_no_doubt() -> None:
    document = analyzed(agent(0, 500, CALLS[0].branch()))
    assert set(notes(document)) == set()
