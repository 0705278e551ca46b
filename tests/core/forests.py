"""Strategies for hypothesis: any forest of spans, however broken; and agents that did their work.

`forests` knows no mercy: parents that never came, rings, ids that are shared, ends before starts,
ends never written, times of two hosts, every kind of step anywhere. `conversations` are traces
whose truth is known, since they are built from it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from tests.builders import (
    MS,
    Branch,
    agent,
    answer,
    at,
    chat,
    make_span,
    make_trace,
    messages,
    tool,
)
from tracebudget.core.span import Event, Span

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}

# (span name, attributes) of what an agent's trace consists of.
SHAPES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("work", {}),
    ("GET /", {"http.request.method": "GET", "http.response.status_code": 429}),
    ("POST /", {"http.request.method": "POST", "http.response.status_code": 200}),
    ("chat m", CHAT),
    ("chat m", {**CHAT, "gen_ai.request.stream": True}),
    ("chat m", {**CHAT, "gen_ai.request.stream": False}),
    ("tool", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"}),
    ("tool", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "u"}),
    ("agent", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}),
    ("agent", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "b"}),
    ("flow", {"gen_ai.operation.name": "invoke_workflow"}),
    ("guard", {"openinference.span.kind": "GUARDRAIL"}),
    ("docs", {"openinference.span.kind": "RETRIEVER"}),
    ("llm", {"openinference.span.kind": "LLM", "llm.token_count.completion": 30}),
    ("claude_code.tool", {"tool_name": "Bash"}),
    ("claude_code.tool.blocked_on_user", {}),
    ("claude_code.tool.execution", {}),
    ("claude_code.llm_request", {"attempt": 2, "ttft_ms": 30}),
    ("waiting for m concurrency", {"pydantic_ai.x": 1}),
    ("llm_request", {"gen_ai.latency.e2e": 0.1, "gen_ai.latency.time_in_queue": 0.02}),
    ("tools/call t", {"mcp.method.name": "tools/call", "gen_ai.tool.name": "t"}),
    ("Crew Created", {}),
    ("turn", {}),
    ("(copy)", {"logfire.span_type": "pending_span", "gen_ai.operation.name": "chat"}),
)

# What a model call may say of itself, true or not.
CLAIMS = st.fixed_dictionaries(
    {},
    optional={
        "gen_ai.usage.input_tokens": st.sampled_from([0, 50, 900, 5000, -1, "120", "n/a", 1.5]),
        "gen_ai.usage.output_tokens": st.sampled_from([0, 1, 2, 60, 5000, None]),
        "gen_ai.usage.cache_read.input_tokens": st.sampled_from([0, 40, 9000]),
        "gen_ai.response.time_to_first_chunk": st.sampled_from([0, -1, 0.01, 0.3, 5.0, "x"]),
        "gen_ai.server.time_to_first_token": st.sampled_from([0.05, 50, 50_000, 50_000_000]),
        "gen_ai.latency.time_to_first_token": st.sampled_from([0.02, 3.0]),
        "gen_ai.response.finish_reasons": st.sampled_from([["stop"], ["tool_calls"], '["STOP"]']),
        "gen_ai.response.id": st.sampled_from(["r1", "r2"]),
        "gen_ai.tool.call.id": st.sampled_from(["c1", "c2"]),
        "gen_ai.tool.call.arguments": st.sampled_from(["{}", '{"q": ', "text", '{"q": 1}']),
        "gen_ai.input.messages": st.sampled_from([messages(["a"]), messages(["a", "b"]), "["]),
        "gen_ai.output.messages": st.sampled_from([answer({"c1": "t"}), answer({"c2": "u"}, "{")]),
        "error.type": st.sampled_from(["TimeoutError", "429", "ValidationError"]),
        "session.id": st.sampled_from(["s-1", "s-2"]),
    },
)

MOMENTS = st.integers(0, 300) | st.integers(0, 60_000)
EVENT_NAMES = ("First Token Stream Event", "gen_ai.request.attempt", "llm.content.completion.chunk")
SIZES = (1, 2, 3, 5, 8, 13, 21)


@st.composite
def forests(draw: st.DrawFn) -> list[Span]:
    """The spans of one trace, in any order. Most hang below an earlier one and lie inside it: else
    hardly anything would ever happen in them.
    """
    placed = [make_span("root", 0, 600, id="s1")]
    size = draw(st.sampled_from(SIZES))
    trace = [draw(spans(number, size, placed)) for number in range(1, size + 1)]
    return draw(st.permutations(trace))


@st.composite
def spans(draw: st.DrawFn, number: int, size: int, placed: list[Span]) -> Span:
    """Span `number` of `size`; `placed` are those before it, and become one more."""
    above = draw(st.sampled_from(placed))
    is_sane = draw(st.integers(0, 9)) > 1
    name, attributes = draw(st.sampled_from(SHAPES))
    start, end = draw(_inside(above) if is_sane else _anywhere())
    parent = above.span_id if is_sane else draw(st.sampled_from(["", "gone", f"s{size}"]))
    own_id = draw(st.sampled_from([number] * 9 + [1]))
    span = make_span(
        name,
        id=f"s{own_id}",
        parent=parent if number > 1 or not is_sane else "",
        kind=draw(st.integers(0, 5)),
        attributes=attributes | draw(CLAIMS),
        events=draw(st.lists(st.tuples(st.sampled_from(EVENT_NAMES), MOMENTS), max_size=3)),
        service=draw(st.sampled_from(["a", "b", ""])),
        host=draw(st.sampled_from(["", "h", "k"])),
        start_ns=start,
        end_ns=end,
        status=draw(st.sampled_from([0, 0, 0, 1, 2])),
        scope=draw(st.sampled_from(["", "p", "q", "pydantic-ai"])),
        flags=draw(st.sampled_from([0, 0x300])),
        dropped_events=draw(st.sampled_from([0, 0, 2])),
    )
    placed.append(span)
    return span


@st.composite
def _inside(draw: st.DrawFn, above: Span) -> tuple[int, int]:
    """An interval inside that of another span, in whole ms."""
    length = max(0, above.end_ns - above.start_ns) // MS
    start = draw(st.integers(0, length))
    end = draw(st.integers(start, length))
    return above.start_ns + start * MS, above.start_ns + end * MS


@st.composite
def _anywhere(draw: st.DrawFn) -> tuple[int, int]:
    """Any interval; it may end before it starts, or never."""
    start = draw(MOMENTS)
    end = draw(st.sampled_from([at(start), at(start + 1), at(start - 7), 0]) | MOMENTS.map(at))
    return at(start), end


# --- traces whose truth is known ------------------------------------------------------------------

LENGTHS = st.integers(1, 2000)
GAPS = st.integers(0, 200)


@dataclass(frozen=True)
class Conversation:
    """An agent that did its work, and what its time was spent on, ms."""

    top: Branch
    prefill: int
    decode: int
    tool: int
    framework: int
    turns: int


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    """
    agent  |..|-chat-|..|-tools, side by side-|..|-chat-|..| ...

    Every answer but the last asks for its tools by their ids; gaps are the framework's.
    """
    turns = draw(st.integers(1, 5))
    clock = _Clock()
    branches: list[Branch] = []
    for turn in range(turns):
        clock.framework += draw(GAPS)
        asks = {} if turn == turns - 1 else _asked(draw, turn)
        branches.append(_call(draw, clock, asks, turn))
        clock.framework += draw(GAPS)
        branches += _wave(draw, clock, asks)
    clock.framework += draw(GAPS)
    return Conversation(
        agent(0, clock.now, *branches, id="a"),
        clock.prefill,
        clock.decode,
        clock.tool,
        clock.framework,
        turns,
    )


@dataclass
class _Clock:
    prefill: int = 0
    decode: int = 0
    tool: int = 0
    framework: int = 0

    @property
    def now(self) -> int:
        return self.prefill + self.decode + self.tool + self.framework


def _asked(draw: st.DrawFn, turn: int) -> dict[str, str]:
    names = draw(st.lists(st.sampled_from("xyz"), min_size=1, max_size=3, unique=True))
    return {f"c{turn}{name}": name for name in names}


def _call(draw: st.DrawFn, clock: _Clock, asks: dict[str, str], turn: int) -> Branch:
    start, ttft, decode = clock.now, draw(LENGTHS), draw(st.integers(10, 2000))
    clock.prefill, clock.decode = clock.prefill + ttft, clock.decode + decode
    return chat(
        start,
        clock.now,
        stream=True,
        ttft=ttft,
        input=draw(st.integers(1, 5000)),
        output=draw(st.integers(2, 40)),
        asks=asks or None,
        arguments=json.dumps({"turn": turn}),
        prompt=[f"message {n}" for n in range(turn + 1)],
    )


def _wave(draw: st.DrawFn, clock: _Clock, asks: dict[str, str]) -> list[Branch]:
    start, lengths = clock.now, [draw(LENGTHS) for _ in asks]
    clock.tool += max(lengths, default=0)
    return [
        tool(
            start, start + length, name=name, call_id=call_id, arguments={"id": call_id}, result=[]
        )
        for (call_id, name), length in zip(asks.items(), lengths, strict=True)
    ]


def shifted(conversation: Conversation, ms: int) -> list[Span]:
    """The same trace, so much later."""
    return [
        replace(
            span,
            start_ns=span.start_ns + ms * 10**6,
            end_ns=span.end_ns + ms * 10**6,
            events=tuple(
                Event(event.name, event.time_ns + ms * 10**6, event.attributes)
                for event in span.events
            ),
        )
        for span in make_trace(conversation.top)
    ]
