"""What we count about ourselves, over all processes; `web.metrics` shows the sums at /metrics.

Each process keeps its counts in a file of its own in METRICS_DIR, named after host and process, so
that containers can share the directory. Whoever is asked adds the files up.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from time import perf_counter

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from prometheus_client import Counter, Histogram, Summary, values

EXPORT_PATHS = "/v1/"

# An export is answered in 20 ms where all is well; exporters give up after 10 s.
EXPORT_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


def _process() -> str:
    """Of all that run at one time, this one. Containers of one machine have equal process ids."""
    return f"{socket.gethostname()}-{os.getpid()}"


settings.METRICS_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(settings.METRICS_DIR)
values.ValueClass = values.MultiProcessValue(_process)  # type: ignore[no-untyped-call]

SPANS = Counter("tracebudget_spans", "Spans that arrived, by what became of them", ["outcome"])
EXPORTS = Counter("tracebudget_http_exports", "Exports over HTTP, by the answer", ["status"])
EXPORT_SECONDS = Histogram(
    "tracebudget_http_export_seconds", "Time to answer an export over HTTP", ["status"],
    buckets=EXPORT_BUCKETS,
)  # fmt: skip
ANALYSES = Counter("tracebudget_analyses", "Traces analysed, by outcome", ["outcome"])
ANALYSIS_SECONDS = Summary("tracebudget_analysis_seconds", "Time to analyse a trace")
DELIVERIES = Counter("tracebudget_deliveries", "Tries to tell somebody", ["kind", "outcome"])


def count_spans(*, taken: int, refused: int) -> None:
    SPANS.labels("taken").inc(taken)
    SPANS.labels("refused").inc(refused)


def measure_exports(
    next_layer: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: count the exports, and the time that they take."""

    def answer(request: HttpRequest) -> HttpResponse:
        started = perf_counter()
        response = next_layer(request)
        if request.path.startswith(EXPORT_PATHS):
            EXPORTS.labels(response.status_code).inc()
            EXPORT_SECONDS.labels(response.status_code).observe(perf_counter() - started)
        return response

    return answer
