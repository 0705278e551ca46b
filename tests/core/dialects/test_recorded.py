"""Dialects that a recorded trace proves: roles, tokens, first tokens, and where they were read.

All but the last eleven are one scenario, run once a framework against one recording gateway: a
streamed call that asks for two tools, both at once, and a streamed answer. `truth.json` holds what
the gateway sent and when.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from tests.builders import MS
from tests.core.reading import FIXTURES, Document, document_of, fixture_spans, ms, segments
from tracebudget.core.analysis import Analysis, analyze
from tracebudget.core.dialects import DIALECTS

TRUTH: dict[str, Any] = json.loads((FIXTURES / "recorded/truth.json").read_text())


@dataclass(frozen=True)
class Recording:
    """What a framework's spans say of the scenario. `ttft`: where the first token was read, None
    where nothing tells it; `tokens`, `cached`: whether they count tokens, and cached ones.
    `model_ms`, `tool_ms`: what model and tools took, as far as the spans can tell.
    """

    name: str
    calls: str  # the dialect of its model calls
    ttft: str | None = None
    bound: bool = False
    streamed: bool | None = True
    cached: bool = False
    provider: str | None = "openai"
    agent: str = "travel_agent"
    model: str | None = "gpt-4o-mini"
    tokens: bool = True
    model_ms: int = 1160
    tool_ms: int = 452

    def __str__(self) -> str:
        return self.name


RECORDINGS = [
    Recording("openai-otel-v2", "gen_ai", streamed=None),
    Recording(
        "openai-otel-genai",
        "otel_python_genai",
        "gen_ai.response.time_to_first_chunk",
        bound=True,
    ),
    Recording(
        "openai-openinference",
        "openinference",
        "event:First Token Stream Event",
        bound=True,
        cached=True,
    ),
    Recording("langgraph-openinference", "openinference", streamed=None),
    Recording(
        "openai-traceloop",
        "openllmetry",
        "event:gen_ai.content.completion.chunk",
        bound=True,
        cached=True,
        agent="travel_agent.workflow",
    ),
    Recording("pydantic-ai", "pydantic_ai", "gen_ai.client.operation.time_to_first_chunk"),
    Recording(
        "vercel-ai",
        "ai_sdk_legacy",
        "ai.response.msToFirstChunk",
        bound=True,
        cached=True,
        provider="gateway",
    ),
    Recording("google-adk", "google_adk", streamed=None, cached=True, provider=None, model_ms=1230),
    Recording(
        "haystack-content",
        "haystack",
        "haystack.agent.step.llm.output",
        cached=True,
        provider=None,
        agent="haystack.agent.run",
    ),
    Recording(
        "langfuse-openai",
        "langfuse",
        "langfuse.observation.completion_start_time",
        bound=True,
        cached=True,
        provider=None,
    ),
    Recording("logfire-v1", "logfire_llm", cached=True),
    Recording("logfire-v2", "logfire_llm", cached=True),
    Recording(
        "mlflow-openai",
        "mlflow",
        "event:mlflow.chunk.item.0",
        bound=True,
        cached=True,
        provider=None,
    ),
    Recording(
        "mlflow-genai", "mlflow_gen_ai", "event:mlflow.chunk.item.0", bound=True, provider=None
    ),
    Recording("openlit-openai", "openlit", "gen_ai.server.time_to_first_token", bound=True),
    Recording("agent-framework", "agent_framework_py", streamed=None, cached=True),
    Recording(  # its tool runner runs one tool after the other
        "anthropic-native",
        "anthropic_sdk",
        "gen_ai.response.time_to_first_chunk",
        cached=True,
        provider="anthropic",
        agent="anthropic.messages.tool_runner",
        model="claude-sonnet-4-5",
        tool_ms=752,
    ),
    Recording(  # copies of requests alone: usage stands on the app's own span
        "litellm-legacy", "litellm_legacy", provider=None, tokens=False, model_ms=1290
    ),
    Recording(  # spans are written in a callback, some 70 ms after the answer
        "litellm-v2",
        "litellm_v2",
        "gen_ai.response.time_to_first_chunk",
        cached=True,
        model_ms=1290,
    ),
    Recording(
        "llamaindex-otel",
        "llamaindex_otel",
        provider=None,
        agent="FunctionAgent.run",
        model=None,
        tokens=False,
    ),
    Recording("mastra", "mastra", "child:model_chunk *", cached=True),
    Recording("semantic-kernel", "semantic_kernel", streamed=None),
    Recording(
        "vercel-ai-7",
        "ai_sdk_v7",
        "gen_ai.client.operation.time_to_first_chunk",
        cached=True,
        model_ms=1350,
    ),
    Recording("genkit", "genkit", streamed=None, cached=True, provider=None),
    Recording("openai-traceai", "traceai", "event:First Token Stream Event", bound=True),
    Recording(
        "openai-agents-logfire",
        "logfire_openai_agents",
        streamed=None,
        cached=True,
        model_ms=1230,
    ),
    Recording("langwatch-openai", "langwatch", "langwatch.timestamps", bound=True, provider=None),
    Recording("langgraph-monocle", "monocle", streamed=None),
    Recording(  # its figure is that of `response.created`
        "openai-agents-genai", "otel_python_openai_responses"
    ),
]

every = pytest.mark.parametrize("recording", RECORDINGS, ids=str)


@cache
def analysis(name: str) -> Analysis:
    return analyze(fixture_spans(f"recorded/{name}.json"))


def steps(recording: Recording, kind: str) -> list[Document]:
    return [s for s in analysis(recording.name).document()["steps"] if s["kind"] == kind]


def proofs() -> dict[str, set[str]]:
    """For each dialect that a fixture speaks, the fixtures."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in (FIXTURES / "recorded").glob("[!t]*.json"):
        for step in analysis(path.stem).document()["steps"]:
            found[step["dialect"]].add(path.stem)
    return found


def test_a_dialect_is_recorded_where_a_fixture_speaks_it() -> None:
    assert {d.id for d in DIALECTS if d.evidence == "recorded"} == set(proofs())


STATUS = {"recorded": "recorded", "documentation": "from documentation"}


def test_the_documentation_lists_each_dialect_with_its_status_and_its_proof() -> None:
    text = (FIXTURES.parents[1] / "docs/dialects.md").read_text()
    listed = re.findall(r"^\| `(\w+)` \| (.+) \| ([\w ]+) \| (.*)\|$", text, flags=re.MULTILINE)
    proved = proofs()
    assert [(*row[:3], set(re.findall("`(.+?)`", row[3]))) for row in listed] == [
        (d.id, d.label, STATUS[d.evidence], proved.get(d.id, set())) for d in DIALECTS
    ]


@every
def test_two_calls_of_its_dialect_two_tools_two_turns(recording: Recording) -> None:
    document = analysis(recording.name).document()
    calls, tools = steps(recording, "model_call"), steps(recording, "tool_call")
    assert [call["dialect"] for call in calls] == [recording.calls] * 2
    names = sorted(tool["name"].removeprefix("tools-") for tool in tools)
    assert names == ["get_weather", "search_docs"]
    assert [call["turn"] for call in calls] == [0, 1]
    assert [tool["turn"] for tool in tools] == [0, 0]
    assert document["agents"] == [recording.agent]
    assert document["state"] == "complete"


@every
def test_tokens_are_those_that_the_gateway_counted(recording: Recording) -> None:
    calls, truth = steps(recording, "model_call"), TRUTH[recording.name]["calls"]
    for call, sent in zip(calls, truth, strict=True):
        counted = (sent["input"], sent["output"]) if recording.tokens else (None, None)
        assert (call["input_tokens"], call["output_tokens"]) == counted
        assert call["cached_input_tokens"] == (sent["cached"] if recording.cached else None)


@every
def test_who_answered_is_read(recording: Recording) -> None:
    for call in steps(recording, "model_call"):
        assert (recording.model or "") in (call["model"] or "")
        assert (call["model"] is None) is (recording.model is None)
        assert call["provider"] == recording.provider
        assert call["streamed"] is recording.streamed


@every
def test_first_tokens_are_read_where_they_stand(recording: Recording) -> None:
    for call in steps(recording, "model_call"):
        known = recording.ttft is not None
        assert call["ttft_source"] == ("measured" if known else "unknown")
        assert (call["ttft_from"], call["ttft_is_bound"]) == (recording.ttft, recording.bound)


@every
def test_first_tokens_came_when_the_gateway_sent_them(recording: Recording) -> None:
    """Seen by the client up to 30 ms later; its clock may read a little before."""
    truth = TRUTH[recording.name]["calls"]
    calls = analysis(recording.name).report.calls
    for call, sent in zip(calls, truth, strict=True):
        if call.ttft.ns is not None:
            late = call.start + call.ttft.ns - sent["first_token_at"]
            assert -5 * MS <= late <= 30 * MS


@every
def test_time_went_to_the_tools_and_the_model(recording: Recording) -> None:
    """Tools of 300 and of 450 ms side by side; the rest is the model's, but for a little."""
    found = segments(analysis(recording.name).document())
    assert found["tool"] == pytest.approx(recording.tool_ms, abs=15)
    model = found.get("prefill", 0) + found["decode"]
    assert model == pytest.approx(recording.model_ms, abs=30)
    assert found["framework"] < 60


# --- Strands: a figure that is the end of the answer ----------------------------------------------


def test_strands_first_tokens_of_answers_that_ask_for_tools_are_refused() -> None:
    """It stamps the first block of content; with this provider that of a tool request comes when
    the answer is complete.
    """
    document = document_of(fixture_spans("recorded/strands.json"))
    asking, answering = (s for s in document["steps"] if s["kind"] == "model_call")
    assert (asking["dialect"], asking["ttft_source"], asking["input_tokens"]) == (
        "strands",
        "unknown",
        162,
    )
    assert (ms(answering["ttft_ns"]), answering["ttft_from"], answering["output_tokens"]) == (
        132,
        "gen_ai.server.time_to_first_token",
        60,
    )
    assert len(document["turns"]) == 2


# --- LiveKit: a first chunk that is a whole tool call ---------------------------------------------


def test_livekits_first_chunks_of_answers_that_ask_for_tools_are_refused() -> None:
    """Its first tool begins while the answer still streams: that time is the tool's."""
    document = document_of(fixture_spans("recorded/livekit.json"))
    asking, answering = (s for s in document["steps"] if s["kind"] == "model_call")
    assert (asking["dialect"], asking["ttft_source"]) == ("livekit_tools", "unknown")
    assert answering["dialect"] == "gen_ai"
    assert ms(answering["ttft_ns"]) == pytest.approx(144, abs=1)
    assert [call["input_tokens"] for call in (asking, answering)] == [186, 254]
    assert segments(document)["tool"] == pytest.approx(642, abs=2)
    assert document["agents"] == ["default_agent"]
    assert len(document["turns"]) == 2


# --- the Responses API: a first event that is no token --------------------------------------------


@pytest.mark.parametrize("emitter", ["mlflow", "openinference"])
def test_the_first_event_of_the_responses_api_is_refused(emitter: str) -> None:
    """`response.created` came 3 ms after the start, the first token after 97."""
    document = document_of(fixture_spans(f"recorded/openai-responses-{emitter}.json"))
    (call,) = (s for s in document["steps"] if s["kind"] == "model_call")
    assert (call["dialect"], call["ttft_source"]) == (f"{emitter}_responses", "unknown")
    assert (call["input_tokens"], call["output_tokens"]) == (45, 80)


# --- mcp-agent: spans of the framework around those of a model client -----------------------------


def test_mcp_agents_wrappers_add_no_call_and_its_agents_own_their_rounds() -> None:
    """The same two calls and two tools, not streamed; its agent sums up all usage."""
    document = document_of(fixture_spans("recorded/mcp-agent.json"))
    calls = [s for s in document["steps"] if s["kind"] == "model_call"]
    tools = [s for s in document["steps"] if s["kind"] == "tool_call"]
    assert [call["dialect"] for call in calls] == ["openllmetry"] * 2
    assert [call["output_tokens"] for call in calls] == [44, 60]
    assert [tool["dialect"] for tool in tools] == ["mcp_agent"] * 2
    assert sorted(tool["name"] for tool in tools) == ["get_weather", "search_docs"]
    assert document["agents"] == ["travel_agent"]
    assert [turn["agent"] for turn in document["turns"]] == ["travel_agent"] * 2


# --- Mirascope: tools that the app itself traced as plain functions -------------------------------


def test_mirascopes_traced_functions_are_the_tools_that_were_asked_for() -> None:
    """The same two calls and two tools, not streamed."""
    document = document_of(fixture_spans("recorded/mirascope.json"))
    tools = [s for s in document["steps"] if s["kind"] == "tool_call"]
    assert sorted(tool["name"] for tool in tools) == ["get_weather", "search_docs"]
    assert all(tool["call_id"] for tool in tools)
    assert segments(document)["tool"] == pytest.approx(452, abs=5)
    assert [turn["agent"] for turn in document["turns"]] == ["travel_agent"] * 2


# --- VoltAgent: one span for all calls of an agent's rounds ---------------------------------------


def test_voltagents_tools_are_none_of_its_models_time() -> None:
    """Its one model span lies over both calls; the tools are traced beside it."""
    document = document_of(fixture_spans("recorded/voltagent.json"))
    (call,) = (s for s in document["steps"] if s["kind"] == "model_call")
    assert (call["dialect"], call["streamed"]) == ("voltagent", True)
    assert (call["input_tokens"], call["output_tokens"]) == (257, 60)  # of the second call
    assert segments(document)["tool"] == pytest.approx(451, abs=2)
    assert segments(document)["decode"] == pytest.approx(1160, abs=15)
    assert document["agents"] == ["travel_agent"]


# --- Codex CLI: a span for each event of a stream -------------------------------------------------


def test_codex_events_are_no_calls_and_the_last_one_tells_the_usage() -> None:
    """Two calls and two tools of an MCP server; the first begins while the answer still streams.
    Of the 145 spans of events a few are kept.
    """
    document = document_of(fixture_spans("recorded/codex-cli.json"))
    calls = [s for s in document["steps"] if s["kind"] == "model_call"]
    tools = [s for s in document["steps"] if s["kind"] == "tool_call"]
    assert [call["name"] for call in calls] == ["try_run_sampling_request"] * 2
    assert [call["input_tokens"] for call in calls] == [10_431, 10_514]
    assert [call["output_tokens"] for call in calls] == [44, 60]
    assert [call["model"] for call in calls] == ["gpt-4o-mini"] * 2
    assert [tool["name"] for tool in tools] == ["get_weather", "search_docs"]
    assert segments(document)["tool"] == pytest.approx(648, abs=1)
    assert [(turn["agent"], turn["segments"]["tool"] > 0) for turn in document["turns"]] == [
        ("session_task.turn", True),
        ("session_task.turn", False),
    ]


# --- Claude Code, recorded by others --------------------------------------------------------------


def test_claude_code_one_turn() -> None:
    """18,864 tokens of prompt, nearly all of them written to the cache; 46 out."""
    document = document_of(fixture_spans("recorded/claude-code.json"))
    (call,) = (s for s in document["steps"] if s["kind"] == "model_call")
    assert (call["input_tokens"], call["cached_input_tokens"], call["output_tokens"]) == (
        18_864,
        0,
        46,
    )
    assert (ms(call["ttft_ns"]), call["ttft_from"]) == (2171, "first_content_ms")
    assert document["agents"] == ["claude_code.interaction"]


def test_claude_code_waits_for_its_user() -> None:
    """A Bash call of 3.0 s of which 2.0 s were an approval: a person's time is no tool's."""
    document = document_of(fixture_spans("recorded/claude-code-approval.json"))
    found = segments(document)
    assert (found["tool"], found["wait"]) == (1200, 2000)
    assert [s["name"] for s in document["steps"] if s["kind"] == "tool_call"] == ["Read", "Bash"]


def test_claude_agent_sdk_through_langsmith_and_langfuse() -> None:
    """Assistant turns that overlap and enclose their tools: 11 s of spans in 7.36 s of clock."""
    document = document_of(fixture_spans("recorded/langsmith-claude-agent.json"))
    assert ms(document["end_to_end_ns"]) == pytest.approx(7359, abs=2)
    assert segments(document)["tool"] == 82
    assert sum(s["output_tokens"] for s in document["steps"] if s["kind"] == "model_call") == 232
