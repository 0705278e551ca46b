"""How fast spans are taken in, stored and analysed, and what they cost: `manage.py bench_ingest`.

All in one run, so that the machine is the same for all: bursts in *full* and in *timings only*,
each beside the bare reference; the same spans once more; a steady rate. A first load, which is not
measured, makes the app known.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tracebudget.bench import load, reference
from tracebudget.bench.load import Request
from tracebudget.bench.reference import Reference
from tracebudget.bench.sender import Sent, send
from tracebudget.bench.stack import Stack, running

CONNECTIONS = 4
QUIET_SECONDS = 2  # how long a trace waits for more spans before its analysis may begin
POLL_SECONDS = 0.05
# A change of privacy must not wait for the key's cache. And what is learnt of an app while it grows
# has its latest requests analysed again: a few times in its life, and in each burst here.
SETTINGS = {
    "TRACEBUDGET_KEY_CACHE_SECONDS": "1",
    "TRACEBUDGET_QUIET_SECONDS": str(QUIET_SECONDS),
    "TRACEBUDGET_JUDGE_AGAIN_REQUESTS": "1",
}
MODES = ("full", "timings_only")

STORED = "SELECT coalesce(sum(span_count), 0) FROM tracebudget_spanbatch"
# Begun so long ago that it is done.
LEARNT = "SELECT count(*) FROM tracebudget_learned WHERE made_at < now() - interval '5 seconds'"
LEARNT_SPANS = 12_000  # of which an app is known well
WAITING = "SELECT count(*) FROM tracebudget_due"
# From the last span's arrival to the analysis, less the quiet period: what traces wait for us.
LAG = """
    SELECT percentile_cont(%s) WITHIN GROUP (
        ORDER BY extract(epoch FROM analyzed_at - last_seen_at) - %s
    ) FROM tracebudget_trace WHERE first_seen_at >= %s
"""
BYTES = """
    SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class
    WHERE relkind = 'r' AND relname ~ %s
"""
KINDS = {
    "spans": "^tracebudget_spanbatch_",
    "analysis objects": "^tracebudget_analysis_",
    "rows of requests": "^tracebudget_trace$",
    "rows of calls": "^tracebudget_(modelcall|toolcall|breach|finding)_",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of what."""

    spans: int  # in a burst
    rounds: int
    steady_rate: int  # spans a second
    steady_seconds: int


@dataclass(frozen=True, slots=True)
class Burst:
    """Spans as fast as they are taken: seconds from the first request, costs for each span."""

    sent: Sent
    queryable: float
    analysed: float
    cpu_us: Mapping[str, float]
    bytes_: Mapping[str, float]

    @property
    def queryable_rate(self) -> float:
        return self.sent.spans / self.queryable

    @property
    def analysed_rate(self) -> float:
        """While traces wait for more spans, nothing can be analysed."""
        return self.sent.spans / (self.analysed - QUIET_SECONDS)


@dataclass(frozen=True, slots=True)
class Bare:
    """The same for the bare reference, which analyses nothing."""

    sent: Sent
    cpu_us: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Steady:
    """A steady rate. Lags in seconds: how long traces waited for their analysis."""

    sent: Sent
    lag_p50: float
    lag_p99: float
    lag_max: float


@dataclass(frozen=True, slots=True)
class Result:
    bursts: Mapping[str, Sequence[Burst]]  # by mode
    references: Sequence[Bare]
    repeat: Sent
    stored_by_repeat: int
    steady: Steady


def measure(plan: Plan) -> Result:
    """Start the product, load it, stop it."""
    seeds = iter(range(10**6))

    def new(spans: int) -> list[Request]:
        traces = spans // load.SPANS_A_TRACE
        return load.requests(traces, seed=next(seeds), now_ns=time.time_ns())

    with running(SETTINGS) as stack, reference.running(stack) as bare:
        _let_learn(stack, new(min(plan.spans, LEARNT_SPANS)))
        bursts: dict[str, list[Burst]] = {mode: [] for mode in MODES}
        references = []
        for mode in MODES * plan.rounds:
            _set_privacy(stack, mode)
            requests = new(plan.spans)
            bursts[mode].append(_burst(stack, requests))
            references.append(_bare(stack, bare, requests))
        repeat, stored = _repeat(stack, requests)
        _set_privacy(stack, MODES[0])
        steady = _steady(stack, new(plan.steady_rate * plan.steady_seconds), plan.steady_rate)
    return Result(bursts, references, repeat, stored, steady)


def _let_learn(stack: Stack, requests: Sequence[Request]) -> None:
    """What is usual in an app is learnt of its first requests, and they are analysed again by that:
    once in its life, and not what is measured here.
    """
    send(requests, stack.address, stack.key, connections=CONNECTIONS)
    _seconds_until(0, lambda: stack.value(LEARNT) and not stack.value(WAITING))


def _set_privacy(stack: Stack, mode: str) -> None:
    stack.database.execute("UPDATE tracebudget_project SET privacy = %s", [mode])
    time.sleep(1.5 * float(SETTINGS["TRACEBUDGET_KEY_CACHE_SECONDS"]))


def _burst(stack: Stack, requests: Sequence[Request]) -> Burst:
    stored, cpu, sizes = stack.value(STORED), stack.cpu_seconds(), _sizes(stack)
    started = time.perf_counter()
    sent = send(requests, stack.address, stack.key, connections=CONNECTIONS)
    queryable = _seconds_until(started, lambda: stack.value(STORED) - stored >= sent.spans)
    analysed = _seconds_until(started, lambda: not stack.value(WAITING))
    used, grown = stack.cpu_seconds(), _sizes(stack)
    return Burst(
        sent,
        queryable,
        analysed,
        _cpu_us(cpu, used, sent),
        {kind: (grown[kind] - sizes[kind]) / sent.spans for kind in grown},
    )


def _bare(stack: Stack, bare: Reference, requests: Sequence[Request]) -> Bare:
    def cpu() -> dict[str, float]:
        return {"otlp": bare.cpu_seconds(), "postgres": stack.cpu_seconds()["postgres"]}

    before = cpu()
    sent = send(requests, bare.address, stack.key, connections=CONNECTIONS)
    return Bare(sent, _cpu_us(before, cpu(), sent))


def _cpu_us(
    before: Mapping[str, float], after: Mapping[str, float], sent: Sent
) -> dict[str, float]:
    """CPU time a span, by program."""
    return {name: (after[name] - before[name]) * 10**6 / sent.spans for name in after}


def _seconds_until(started: float, is_so: Callable[[], bool]) -> float:
    while not is_so():
        time.sleep(POLL_SECONDS)
    return time.perf_counter() - started


def _sizes(stack: Stack) -> dict[str, int]:
    return {kind: int(stack.value(BYTES, pattern)) for kind, pattern in KINDS.items()}


def _repeat(stack: Stack, requests: Sequence[Request]) -> tuple[Sent, int]:
    """The same requests again, and how many spans were stored by that: none should be."""
    stored = stack.value(STORED)
    sent = send(requests, stack.address, stack.key, connections=CONNECTIONS)
    return sent, stack.value(STORED) - stored


def _steady(stack: Stack, requests: Sequence[Request], rate: int) -> Steady:
    began = stack.value("SELECT clock_timestamp()")
    sent = send(requests, stack.address, stack.key, connections=CONNECTIONS, spans_a_second=rate)
    _seconds_until(0, lambda: not stack.value(WAITING))
    lags = (stack.value(LAG, share, QUIET_SECONDS, began) for share in (0.5, 0.99, 1.0))
    return Steady(sent, *map(float, lags))
