"""`python -m tests.bench_core [FILE...]`: what analysing spans costs, on one core.

From decoded spans to the bytes of the analysis object, findings included: first on recorded traces
(those of the tests, or the files that are named), then on one trace that grows, in several shapes.
Times are CPU time, the best of ten rounds; each figure's neighbours come from the same run.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import process_time

from ingest.otlp import read_file
from tests.builders import Branch, agent, chat, make_trace, plain, tool
from tracebudget.collector import relax_collector
from tracebudget.core.analysis import analyze
from tracebudget.core.span import Span
from tracebudget.document import dumps
from tracebudget.summary import table

Trace = list[Span]

RECORDED = Path(__file__).parent / "fixtures" / "recorded"
TRUTH = RECORDED / "truth.json"  # what was measured outside the spans; no trace
SIZES = (1_000, 10_000, 50_000)  # spans in one trace
ROUNDS = 10  # short ones, of which one falls between whatever else the machine does
SPANS_A_ROUND = 5_000  # a trace smaller than this is analysed several times
MIB = 1024**2


# --- traces that grow -----------------------------------------------------------------------------


def loop(spans: int) -> Branch:
    """One agent, turn after turn: a call that asks for two tools, which run side by side."""
    turns = [step for turn in range(spans // 4) for step in _turn(turn)]
    return agent(0, spans // 4 * 100, *turns)


def _turn(number: int) -> tuple[Branch, ...]:
    start = number * 100
    first, second = f"call-{2 * number}", f"call-{2 * number + 1}"
    asks = {first: "search", second: "read"}
    return (
        chat(start, start + 40, ttft=15, input=1_000 + number, output=50, asks=asks),
        plain(start + 41, start + 42),
        tool(start + 43, start + 70, call_id=first, arguments={"q": first}),
        tool(start + 43, start + 80, name="read", call_id=second, arguments={"q": second}),
    )


def supervisor(spans: int) -> Branch:
    """An agent whose every tool call starts an agent of its own."""
    works = [_delegation(number) for number in range(spans // 5)]
    return agent(0, spans // 5 * 100, *works)


def _delegation(number: int) -> Branch:
    start, call_id = number * 100, f"call-{number}"
    worker = agent(
        start + 1,
        start + 89,
        chat(start + 2, start + 30, asks={call_id: "search"}),
        tool(start + 31, start + 60, call_id=call_id),
        chat(start + 61, start + 88),
        name="worker",
    )
    return tool(start, start + 90, worker, name="delegate", call_id=f"delegate-{number}")


def wide(spans: int) -> Branch:
    """One call that asks for all tools, which all run at once."""
    ids = [f"call-{number}" for number in range(spans - 3)]
    tools = [
        tool(50 + number % 13, 1_000 + number % 700, call_id=call_id)
        for number, call_id in enumerate(ids)
    ]
    first = chat(0, 40, asks=dict.fromkeys(ids, "search"))
    return agent(0, 2_000, first, *tools, chat(1_800, 1_900))


def deep(spans: int) -> Branch:
    """Every span within the one before."""
    inner = plain(spans, spans + 1)
    for depth in reversed(range(spans - 1)):
        inner = plain(depth, 2 * spans - depth, inner)
    return inner


SHAPES: dict[str, Callable[[int], Branch]] = {
    "turn after turn": loop,
    "agents as tools": supervisor,
    "tools side by side": wide,
    "nested": deep,
}


# --- measuring ------------------------------------------------------------------------------------


def recorded(paths: Sequence[Path]) -> list[Trace]:
    traces: dict[str, Trace] = {}
    for path in paths:
        for export in read_file(path):
            for span in export.spans:
                traces.setdefault(span.trace_id, []).append(span)
    return list(traces.values())


def seconds_a_span(traces: Sequence[Trace]) -> float:
    """CPU seconds, the best of the rounds."""
    spans = sum(map(len, traces))
    repeats = max(1, SPANS_A_ROUND // spans)
    return min(_round(traces, repeats) for _ in range(ROUNDS)) / (spans * repeats)


def _round(traces: Sequence[Trace], repeats: int) -> float:
    begun = process_time()
    for _ in range(repeats):
        for trace in traces:
            dumps(analyze(trace).document())
    return process_time() - begun


def peak_bytes(trace: Trace) -> int:
    """What the analysis of a trace holds at most, beside its spans."""
    tracemalloc.start()
    dumps(analyze(trace).document())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


# --- what is printed ------------------------------------------------------------------------------


def report(paths: Sequence[Path]) -> Iterator[str]:
    traces = recorded(paths)
    cost = seconds_a_span(traces)
    yield (
        f"Recorded: {1 / cost:,.0f} spans/s on one core ({sum(map(len, traces)):,} spans of"
        f" {len(traces):,} traces, {cost * 1e6:.1f} us a span)."
    )
    yield f"One trace that grows, us a span, and how much more a span of {SIZES[-1]:,} takes:"
    yield from table(_growth(), right=set(range(1, len(SIZES) + 2)))
    yield f"What the analysis of {SIZES[-1]:,} spans holds at most, beside the spans:"
    yield from table(_memory(), right={1})


def _growth() -> Iterator[Sequence[str]]:
    yield ("", *(f"{size:,}" for size in SIZES), "times")
    for name, shape in SHAPES.items():
        costs = [seconds_a_span([make_trace(shape(size))]) for size in SIZES]
        yield (name, *(f"{cost * 1e6:.1f}" for cost in costs), f"{costs[-1] / costs[0]:.2f}")


def _memory() -> Iterator[Sequence[str]]:
    for name, shape in SHAPES.items():
        yield (name, f"{peak_bytes(make_trace(shape(SIZES[-1]))) / MIB:,.0f} MiB")


if __name__ == "__main__":
    relax_collector()
    files = [Path(name) for name in sys.argv[1:]]
    for line in report(files or sorted({*RECORDED.glob("*.json")} - {TRUTH})):
        print(line, flush=True)
