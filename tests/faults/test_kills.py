"""Load, and SIGKILL for each part of the product in turn, several times: nothing acknowledged is
lost or doubled, and every trace is analysed.

`make faults` runs more rounds.
"""

from __future__ import annotations

import gzip
import os
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from http import HTTPStatus
from pathlib import Path

import psycopg
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.running import RunningUp
from tracebudget.bench import load
from tracebudget.bench.load import Request
from tracebudget.bench.sender import PAUSE_SECONDS, Exporter
from tracebudget.packing import decompress, unpack_spans
from tracebudget.runtime import postgres
from tracebudget.runtime.sockets import socket_directory

ROUNDS = int(os.environ.get("FAULT_ROUNDS", "2"))
VICTIMS = {
    "otlp": "tracebudget.otlp_wsgi:application",
    "web": "tracebudget.wsgi:application",
    "worker": "worker",
    "beat": "beat",
    "valkey": "valkey-server",
    "postgres": "postgres",
}
WAIT_SECONDS = 90
LEASE_SECONDS = 4  # what a killed worker had claimed is due again after that
SENDERS = 4
MS = 1_000_000

SpanIds = Counter[tuple[str, str]]


@pytest.fixture
def up() -> Iterator[RunningUp]:
    with tempfile.TemporaryDirectory(prefix="tb-faults-") as directory:
        running = RunningUp(Path(directory), TRACEBUDGET_LEASE_SECONDS=str(LEASE_SECONDS))
        try:
            running.start_and_wait()
            yield running
        finally:
            running.stop()


class Load:
    """Exporters that send for as long as the test lasts, each request until it is acknowledged."""

    def __init__(self, up: RunningUp) -> None:
        self.acknowledged: list[Request] = []
        self._key = up.credentials["ingest_key"]
        self._doors = [url.removeprefix("http://") for url in (up.otlp_url, up.url)]
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(SENDERS)

    def __enter__(self) -> Load:
        self._sending = [self._pool.submit(self._send, number) for number in range(SENDERS)]
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for one in self._sending:
            one.result()
        self._pool.shutdown()

    def _send(self, number: int) -> None:
        """Traces are torn: a request holds parts of eight, and the doors take them in turns."""
        with ExitStack() as stack:
            doors = [stack.enter_context(Exporter(door, self._key)) for door in self._doors]
            for seed in range(number, 10**9, SENDERS):
                some = load.requests(8, seed=seed, now_ns=time.time_ns(), spans_a_request=20)
                for request in some:
                    self._send_until_taken(request, doors)
                if self._stop.wait(0.2):
                    return

    def _send_until_taken(self, request: Request, doors: list[Exporter]) -> None:
        """To one door, and if that does not take it to the other, as behind a load balancer."""
        doors.reverse()
        while doors[0].export(request) != HTTPStatus.OK:
            time.sleep(PAUSE_SECONDS)
            doors.reverse()
        self.acknowledged.append(request)


def kill(up: RunningUp, victim: str, sending: Load) -> None:
    """Kill the part as soon as it is there, and wait until both doors take spans again."""
    wait_until(lambda: was_killed(up, VICTIMS[victim]))
    up.wait_for(f"{victim} ended (signal 9)")
    up.lines.clear()
    taken = len(sending.acknowledged)
    wait_until(lambda: len(sending.acknowledged) > taken + 4 * SENDERS)


def was_killed(up: RunningUp, word: str) -> bool:
    """Whether it was there to be killed: between two lives of a part there is a pause."""
    try:
        up.child(word).kill()
    except LookupError:
        return False
    return True


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def sent_spans(requests: list[Request]) -> SpanIds:
    return Counter(
        (span.trace_id.hex(), span.span_id.hex())
        for request in requests
        for sender in ExportTraceServiceRequest.FromString(
            gzip.decompress(request.body)
        ).resource_spans
        for scope in sender.scope_spans
        for span in scope.spans
    )


def stored_spans(database: psycopg.Connection) -> SpanIds:
    rows = database.execute("SELECT head || tail FROM tracebudget_spanbatch")
    return Counter(
        (span.trace_id, span.span_id)
        for (payload,) in rows
        for span in unpack_spans(decompress(payload))
    )


def test_nothing_acknowledged_is_lost_or_doubled_and_all_is_analysed(up: RunningUp) -> None:
    random.seed(1)
    url = postgres.database_url(socket_directory(up.data_dir))
    with Load(up) as sending:
        wait_until(lambda: len(sending.acknowledged) > SENDERS)
        for _ in range(ROUNDS):
            for victim in random.sample(list(VICTIMS), len(VICTIMS)):
                kill(up, victim, sending)
    with psycopg.connect(url, autocommit=True) as database:
        wait_until_analysed(database)
        assert stored_spans(database) == sent_spans(sending.acknowledged)
        traces = database.execute(
            "SELECT span_count, model_call_count, tool_call_count, failure, analysis.revision"
            " = trace.revision FROM tracebudget_trace AS trace"
            " LEFT JOIN tracebudget_analysis AS analysis ON analysis.trace_id = trace.id"
        )
        assert Counter(traces) == {(load.SPANS_A_TRACE, 3, 4, "", True): traces.rowcount}


def wait_until_analysed(database: psycopg.Connection) -> None:
    """As long as it goes on: a slow machine has much to catch up with."""
    while waiting := due_count(database):
        wait_until(partial(is_fewer, database, waiting))


def is_fewer(database: psycopg.Connection, before: int) -> bool:
    return due_count(database) < before


def due_count(database: psycopg.Connection) -> int:
    return database.execute("SELECT FROM tracebudget_due").rowcount
