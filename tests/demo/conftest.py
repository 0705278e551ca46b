"""One simulated day for all tests of it, and its spans as the product receives them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from ingest.otlp import PROTOBUF, read_export
from tracebudget.core.analysis import Analysis, analyze
from tracebudget.core.app import App
from tracebudget.core.gateway import declared_by
from tracebudget.core.profile import Profile
from tracebudget.core.span import Span
from tracebudget.demo import coding, nightly, support
from tracebudget.demo.day import DEFAULT_SEED, calls_of, simulate
from tracebudget.demo.spans import SpanWriter
from tracebudget.demo.work import Request

NOW_NS = 1_790_000_000_123_456_789


@dataclass(frozen=True, repr=False)
class Seen:
    """A request, its spans after SDK, OTLP and decoding, and what the core says of them."""

    request: Request
    spans: list[Span]
    analysis: Analysis

    @property
    def codes(self) -> frozenset[str]:
        return frozenset(finding.code for finding in self.analysis.findings)

    def is_over(self, metric: str) -> bool:
        return any(b.metric == metric and b.state == "over" for b in self.analysis.budgets)


@pytest.fixture(scope="session")
def see() -> Callable[[int], list[Seen]]:
    """A day of a seed, sent and analysed."""
    return see_day


@pytest.fixture(scope="session")
def day() -> list[Seen]:
    """The day that `manage.py demo` sends."""
    return see_day(DEFAULT_SEED)


def see_day(seed: int) -> list[Seen]:
    requests, writer = simulate(NOW_NS, seed), SpanWriter(seed)
    apps = {
        app.APP: App(
            app.BUDGETS,
            declared_by(app.GATEWAY, read_only=app.READ_ONLY),
            profile_of(app.APP, requests),
        )
        for app in (support, coding, nightly)
    }
    days = []
    for request in requests:
        body = encode_spans(writer.write(request)).SerializeToString()
        spans = read_export(body, PROTOBUF).spans
        days.append(Seen(request, spans, analyze(spans, apps=apps)))
    return days


def profile_of(app: str, requests: Sequence[Request]) -> Profile:
    """What is usual in an app: the median of what its calls had to compute, and of its simple
    requests (one call, no tools) by model.
    """
    uncached: list[int] = []
    simple: dict[str, list[int]] = {}
    for request in requests:
        if request.app == app:
            calls = list(calls_of(request.root))
            uncached += [call.prompt.tokens - call.cached_tokens for call in calls]
            if len(calls) == 1:
                took = request.root.end - request.root.start
                simple.setdefault(calls[0].model, []).append(took)
    medians = {model: int(median(times)) for model, times in simple.items()}
    return Profile(median_input_tokens=int(median(uncached)), simple_ns=medians)
