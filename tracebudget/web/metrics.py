"""`/metrics` for Prometheus: counters of all processes, and the state that is in the database."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from ipaddress import ip_address

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from tracebudget.queries.disk import disk_forecast
from tracebudget.queries.status import arrivals, failed_count, queue, telling

NS_PER_SECOND = 10**9
# Signs of a proxy: then the address that calls us is the proxy's, and says nothing.
FORWARDED = ("X-Forwarded-For", "Forwarded", "X-Real-IP", "Via")


@login_not_required
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """For whoever shows TRACEBUDGET_METRICS_TOKEN; without one, for this machine alone."""
    _require_reader(request)
    registry = CollectorRegistry()
    MultiProcessCollector(registry, str(settings.METRICS_DIR))  # type: ignore[no-untyped-call]
    registry.register(State())
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def _require_reader(request: HttpRequest) -> None:
    """Raises PermissionDenied."""
    token = settings.METRICS_TOKEN
    if token:
        shown = request.headers.get("Authorization", "")
        may = secrets.compare_digest(shown.encode(), f"Bearer {token}".encode())
    else:
        is_forwarded = any(name in request.headers for name in FORWARDED)
        may = not is_forwarded and ip_address(request.META["REMOTE_ADDR"]).is_loopback
    if not may:
        raise PermissionDenied


class State(Collector):
    """What the database says: asked at each scrape, so that no process has to remember it."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        now = timezone.now()
        waits, arrival, told, disk = (
            queue(now=now), arrivals(now=now), telling(now=now), disk_forecast(now=now),
        )  # fmt: skip
        yield _gauge("queue_traces", "Traces that wait for their analysis", waits.waiting)
        yield _gauge("queue_due_traces", "Traces that could be analysed now", waits.due)
        yield _gauge("queue_oldest_due_seconds", "Age of the oldest of them",
                     (waits.oldest_due_ns or 0) / NS_PER_SECOND)  # fmt: skip
        yield _gauge("failed_traces", "Traces whose last analysis failed", failed_count())
        yield _gauge("lag_p95_seconds", "From a trace's last span to its analysis",
                     (arrival.lag_p95_ns or 0) / NS_PER_SECOND)  # fmt: skip
        yield _gauge("open_alerts", "Alerts that fire", told.firing)
        yield _gauge("deliveries_waiting", "Messages in the outbox", told.waiting)
        yield _gauge("deliveries_failed", "Messages given up in the last day", told.failed)
        yield _gauge("database_bytes", "Size of the database", disk.database_bytes)


def _gauge(name: str, help_: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"tracebudget_{name}", help_, value=value)
