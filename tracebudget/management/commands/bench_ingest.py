"""`manage.py bench_ingest`: what taking in, storing and analysing spans costs on this machine."""

from __future__ import annotations

import os
import signal
from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from django.core.management.base import BaseCommand

from tracebudget.bench.ingest import (
    CONNECTIONS,
    KINDS,
    MODES,
    Bare,
    Burst,
    Plan,
    Result,
    measure,
)
from tracebudget.summary import table

COLUMNS = (*MODES, "reference")


class Command(BaseCommand):
    help = "Start the product, load it with agent traces, and print what it takes and costs."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--spans", type=int, default=60_000, help="in a burst")
        parser.add_argument("--rounds", type=int, default=3, help="bursts of each kind")
        parser.add_argument("--rate", type=int, default=5_000, help="steady spans a second")
        parser.add_argument("--seconds", type=int, default=30, help="how long it is steady")

    def handle(self, *args: Any, **options: Any) -> None:
        plan = Plan(options["spans"], options["rounds"], options["rate"], options["seconds"])
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # what we started ends with us
        load_before = os.getloadavg()[0]
        for line in report(measure(plan), plan):
            self.stdout.write(line)
        self.stdout.write(
            f"{os.cpu_count()} cores, load {load_before:.1f} before and"
            f" {os.getloadavg()[0]:.1f} after."
        )


def report(result: Result, plan: Plan) -> Iterable[str]:
    """Medians over the rounds, a line each."""
    yield f"Medians of {plan.rounds} bursts of {plan.spans} spans over {CONNECTIONS} connections"
    yield from table([("", *COLUMNS), *_rates(result), *_costs(result)], right={1, 2, 3})
    yield (
        f"The same spans again: {result.repeat.spans / result.repeat.seconds:.0f} spans/s,"
        f" {result.stored_by_repeat} stored."
    )
    steady = result.steady
    yield (
        f"Steady {steady.sent.spans / steady.sent.seconds:.0f} spans/s for {plan.steady_seconds} s:"
        f" analysed {steady.lag_p50:.1f} s (p50), {steady.lag_p99:.1f} s (p99),"
        f" {steady.lag_max:.1f} s (most) after the quiet period;"
        f" p99 {steady.sent.percentile_ms(99):.0f} ms a request."
    )


Row = tuple[str, ...]


def _rates(result: Result) -> Iterable[Row]:
    bursts, measured = _bursts(result), _measured(result)
    rates = [median(one.sent.spans / one.sent.seconds for one in some) for some in measured]
    yield ("acknowledged spans/s", *_whole(rates))
    queryable = [median(burst.queryable_rate for burst in some) for some in bursts]
    yield ("queryable spans/s", *_whole(queryable), "")
    yield ("of the reference", *(f"{rate / rates[-1]:.2f}" for rate in queryable), "1.00")
    analysed = [median(burst.analysed_rate for burst in some) for some in bursts]
    yield ("analysed spans/s", *_whole(analysed), "")
    for percent in (50, 95, 99):
        values = [median(one.sent.percentile_ms(percent) for one in some) for some in measured]
        yield (f"p{percent} ms a request", *_whole(values))


def _costs(result: Result) -> Iterable[Row]:
    bursts, measured = _bursts(result), _measured(result)
    for name in ("otlp", "postgres", "worker"):
        used = [median(one.cpu_us.get(name, 0) for one in some) for some in measured]
        yield (f"CPU us a span, {name}", *_whole(used))
    for kind in KINDS:
        sizes = [median(burst.bytes_[kind] for burst in some) for some in bursts]
        yield (f"bytes a span, {kind}", *_whole(sizes), "")
    sums = [median(sum(burst.bytes_.values()) for burst in some) for some in bursts]
    yield ("bytes a span, all", *_whole(sums), "")


def _bursts(result: Result) -> list[Sequence[Burst]]:
    return [result.bursts[mode] for mode in MODES]


def _measured(result: Result) -> list[Sequence[Burst | Bare]]:
    """A column each."""
    return [*_bursts(result), result.references]


def _whole(values: Iterable[float]) -> Iterable[str]:
    return (f"{value:.0f}" for value in values)
