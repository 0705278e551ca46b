"""Requests to look at, written in milliseconds from their start."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from tracebudget import models, pipeline, store
from tracebudget.core.span import Span

MS = 1_000_000
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
START_NS = int(START.timestamp()) * 1_000_000_000
ARRIVAL = START + timedelta(minutes=1)
AFTERWARDS = START + timedelta(hours=1)


class Recorder:
    """Collects the spans of one trace. Spans are numbered in the order in which they are made."""

    def __init__(
        self, trace: int = 1, *, app: str = "shop", at_ms: int = 0, **resource: str
    ) -> None:
        self.trace_id = f"{trace:032x}"
        self.start_ns = START_NS + at_ms * MS
        self.resource = {"service.name": app, **resource}
        self.spans: list[Span] = []

    def span(
        self, name: str, start: float, end: float, parent: Span | None = None, **more: Any
    ) -> Span:
        """Any span. `kind`, `error` (its type) and `attributes` may be given."""
        error = more.get("error", "")
        made = Span(
            trace_id=self.trace_id,
            span_id=f"{len(self.spans) + 1:016x}",
            parent_id=parent.span_id if parent is not None else "",
            name=name,
            kind=more.get("kind", 1),
            start_ns=self.start_ns + round(start * MS),
            end_ns=self.start_ns + round(end * MS),
            attributes=more.get("attributes", {}) | ({"error.type": error} if error else {}),
            status=2 if error else 0,
            resource=self.resource,
            scope="tests",
        )
        self.spans.append(made)
        return made

    def agent(self, name: str, start: float, end: float, parent: Span | None = None) -> Span:
        attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
        return self.span(f"invoke_agent {name}", start, end, parent, attributes=attributes)

    def chat(self, start: float, end: float, parent: Span, **said: Any) -> Span:
        """A model call. `ttft` in ms; `tokens` in and out; `asks` for tools by (name, call id)."""
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "groq",
            "gen_ai.request.model": said.get("model", "lpx"),
            "gen_ai.response.finish_reasons": ["tool_calls" if said.get("asks") else "stop"],
        }
        if "ttft" in said:
            attributes["gen_ai.request.stream"] = True
            attributes["gen_ai.response.time_to_first_chunk"] = said["ttft"] / 1000
        if "tokens" in said:
            attributes["gen_ai.usage.input_tokens"] = said["tokens"][0]
            attributes["gen_ai.usage.output_tokens"] = said["tokens"][1]
        if "asks" in said:
            parts = [
                {"type": "tool_call", "id": call_id, "name": name, "arguments": {"q": call_id}}
                for name, call_id in said["asks"]
            ]
            message = [{"role": "assistant", "parts": parts}]
            attributes["gen_ai.output.messages"] = json.dumps(message)
        error = said.get("error", "")
        return self.span("chat lpx", start, end, parent, kind=3, error=error, attributes=attributes)

    def tool(self, name: str, start: float, end: float, parent: Span, **said: Any) -> Span:
        attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
        if "call_id" in said:
            attributes["gen_ai.tool.call.id"] = said["call_id"]
        error = said.get("error", "")
        return self.span(
            f"execute_tool {name}", start, end, parent, error=error, attributes=attributes
        )


def worked_example(trace: int = 1, **options: Any) -> Recorder:
    """The contract's: two turns, two tools at once, 461 ms."""
    made = Recorder(trace, **options)
    root = made.agent("support", 0, 461)
    asks = [("search_order", "c1"), ("get_user_info", "c2")]
    made.chat(0, 171, root, ttft=58, tokens=(1240, 96), asks=asks)
    made.tool("search_order", 171, 355, root, call_id="c1")
    made.tool("get_user_info", 171, 290, root, call_id="c2")
    made.chat(360, 461, root, ttft=62, tokens=(1548, 58))
    return made


def serial_tools(trace: int = 1, **options: Any) -> Recorder:
    """Three tools of one answer one after another, and work that goes on when all is over."""
    made = Recorder(trace, **options)
    root = made.agent("support", 0, 4210)
    made.chat(9, 391, root, ttft=138, tokens=(1240, 7), asks=[("get_user_info", "c0")])
    made.tool("get_user_info", 393, 613, root, call_id="c0")
    names = ("search_order", "search_invoice", "search_shipment")
    asks = [(name, f"c{index}") for index, name in enumerate(names, 1)]
    made.chat(632, 1236, root, ttft=252, tokens=(2910, 12), asks=asks)
    for index, (start, end) in enumerate([(1240, 1960), (1964, 2554), (2558, 3318)]):
        made.tool(names[index], start, end, root, call_id=f"c{index + 1}")
    made.chat(3389, 4198, root, ttft=330, tokens=(4480, 58))
    made.tool("save_memory", 4230, 4540, root)
    return made


def nested_agents(trace: int = 1, **options: Any) -> Recorder:
    """A coordinator whose tool is an agent; its first call failed and was tried again."""
    made = Recorder(trace, **options)
    root = made.agent("coordinator", 0, 5000)
    made.chat(20, 420, root, error="429", tokens=(1500, 0))
    made.chat(820, 1600, root, ttft=310, tokens=(1500, 60), asks=[("ask_researcher", "a1")])
    tool = made.tool("ask_researcher", 1620, 3020, root, call_id="a1")
    inner = made.agent("researcher", 1640, 3000, tool)
    made.chat(1650, 2300, inner, ttft=180, tokens=(900, 40), asks=[("search_docs", "d1")])
    made.tool("search_docs", 2310, 2600, inner, call_id="d1")
    made.chat(2610, 2990, inner, tokens=(1400, 90))
    made.span("GET state", 3100, 3500, root, kind=3)
    made.chat(3520, 4990, root, ttft=400, tokens=(2600, 70))
    return made


def waits_for_a_person(trace: int = 1, **options: Any) -> Recorder:
    """Two runs, an hour's third between them in which somebody thought."""
    made = Recorder(trace, **options)
    root = made.span("POST /chat", 0, 95_000, kind=2)
    for start in (5, 92_000):
        agent = made.agent("support", start, start + 2900, root)
        made.chat(start + 10, start + 2800, agent, ttft=300, tokens=(1200, 90))
    return made


def arrive(
    project: models.Project, *recorders: Recorder, add_up: bool = True
) -> list[models.Trace]:
    """Store the traces, analyse them and add their figures up, as ingest and worker do."""
    for recorder in recorders:
        store.store_spans(project, recorder.spans, now=ARRIVAL)
    pipeline.analyze_due(lambda: AFTERWARDS)
    if add_up:
        store.refresh_rollups(_clock)
    ids = [recorder.trace_id for recorder in recorders]
    traces = {t.trace_id.hex: t for t in models.Trace.objects.filter(project=project)}
    return [traces[trace_id] for trace_id in ids]


_looks = count()


def _clock() -> datetime:
    """Time passes with each look, so that no stretch has to wait."""
    return AFTERWARDS + timedelta(milliseconds=20 * next(_looks))
