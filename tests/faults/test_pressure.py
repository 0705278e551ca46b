"""A database that answers too slowly: exporters are told to come again, and memory stays flat."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from subprocess import Popen

import psutil
import psycopg
import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from tests.running import free_port
from tracebudget import keys, models, partition
from tracebudget.bench import load
from tracebudget.bench.sender import Exporter
from tracebudget.runtime import programs
from tracebudget.runtime.addresses import listens
from tracebudget.runtime.child import Command

RunProgram = Callable[[Command], "Popen[bytes]"]

CONNECTIONS = 32
REQUESTS = 48  # of 512 spans: 34 MB inflated, and several times that as Python objects
MIB = 1024 * 1024
# Four threads work at a time, each on one request; the rest waits in the kernel.
MAX_GROWTH = 120 * MIB


@pytest.fixture
def address(run_program: RunProgram, monkeypatch: pytest.MonkeyPatch) -> str:
    """A receiver that gives the database 0.3 s."""
    port = free_port()
    monkeypatch.setattr(settings, "OTLP_PORT", port)
    monkeypatch.setenv("TRACEBUDGET_STORE_TIMEOUT_MS", "300")
    run_program(programs.otlp())
    deadline = time.monotonic() + 30
    while not listens("127.0.0.1", port):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return f"127.0.0.1:{port}"


def resident_bytes() -> int:
    """Of all that we started."""
    children = psutil.Process().children(recursive=True)
    granian = [child for child in children if "granian" in " ".join(child.cmdline())]
    return sum(child.memory_info().rss for child in granian)


def export_all(address: str, key: str, requests: list[load.Request]) -> list[int]:
    """Each once, over many connections; the statuses."""

    def export(some: list[load.Request]) -> list[int]:
        with Exporter(address, key) as exporter:
            return [exporter.export(request) for request in some]

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        parts = pool.map(export, (requests[at::CONNECTIONS] for at in range(CONNECTIONS)))
        return [status for part in parts for status in part]


def test_a_slow_database_costs_patience_and_no_memory(
    address: str, project: models.Project
) -> None:
    _, key = keys.create_key(project, "test", models.IngestKey)
    requests = load.requests(REQUESTS * 512 // 12, seed=1, now_ns=time.time_ns())[:REQUESTS]
    partition.create_ahead(timezone.now())
    assert export_all(address, key, requests[:8]) == [HTTPStatus.OK] * 8
    before = resident_bytes()
    with psycopg.connect(**connection.get_connection_params()) as other:
        other.execute("LOCK TABLE tracebudget_trace IN ACCESS EXCLUSIVE MODE")
        statuses = export_all(address, key, requests)
        assert set(statuses) == {HTTPStatus.SERVICE_UNAVAILABLE}
        assert resident_bytes() - before < MAX_GROWTH
    assert set(export_all(address, key, requests)) == {HTTPStatus.OK}
    stored = sum(models.SpanBatch.objects.values_list("span_count", flat=True))
    assert stored == sum(request.spans for request in requests)
