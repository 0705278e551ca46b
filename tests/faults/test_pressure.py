"""Pressure: a database that is slow or away, much load, bombs. Exporters are told to come again,
nothing is lost or stored twice, and the memory of those who receive stays flat.
"""

from __future__ import annotations

import gzip
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from ingest.rpc import DETAILS, TRACES
from tests.running import RunningUp
from tracebudget.bench import load
from tracebudget.bench.load import Request
from tracebudget.bench.sender import send
from tracebudget.runtime import child, postgres
from tracebudget.runtime.sockets import make_socket_directory

WAIT_SECONDS = 90
RETRY_AFTER = 5  # seconds; the default of the setting
CONNECTIONS = 32
REQUESTS = 48  # of 512 spans: 34 MB inflated, and several times that as Python objects
MIB = 1024 * 1024
# Four threads of each program work at a time, each on one request; the rest waits in the kernel.
MAX_GROWTH = 120 * MIB
LOAD_SECONDS = float(os.environ.get("LOAD_SECONDS", "10"))
MIN_ROUNDS = 6
MAX_DRIFT = 32 * MIB
# Eight threads inflate at a time, each 32 MiB at most; pieces and their sum stand side by side.
MAX_GROWTH_BY_BOMBS = 8 * 2 * 32 * MIB
RECEIVERS = ("tracebudget.otlp_wsgi:application", "tracebudget.otlp_grpc")


class Server:
    """A PostgreSQL of its own, which a test may stop and start again."""

    def __init__(self, directory: Path) -> None:
        self._cluster, self._sockets = directory / "cluster", directory / "run"
        self._log = directory / "postgres.log"
        self._running = ExitStack()
        self.url = postgres.database_url(self._sockets)
        make_socket_directory(self._sockets, owner=postgres.system_uid())
        postgres.prepare(self._cluster)

    def start(self) -> None:
        command = postgres.command(self._cluster, self._sockets)
        process = self._running.enter_context(child.running(command, log=self._log))
        postgres.create_database(self._sockets, timeout=30, is_alive=lambda: process.poll() is None)

    def stop(self) -> None:
        self._running.close()

    def value(self, query: str) -> Any:
        with psycopg.connect(self.url) as connection:
            (value,) = connection.execute(query).fetchone() or (None,)
            return value


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="tb-pressure-pg-") as directory:
        server = Server(Path(directory))
        server.start()
        yield server
        server.stop()


@pytest.fixture(scope="module")
def up(server: Server) -> Iterator[RunningUp]:
    """The product, which gives the database half a second."""
    with tempfile.TemporaryDirectory(prefix="tb-pressure-") as directory:
        settings = {"DATABASE_URL": server.url, "TRACEBUDGET_STORE_TIMEOUT_MS": "500"}
        running = RunningUp(Path(directory), **settings)
        try:
            running.start_and_wait()
            yield running
        finally:
            running.stop()


def slow(server: Server) -> Iterator[None]:
    with psycopg.connect(server.url) as other:
        other.execute("LOCK TABLE tracebudget_trace IN ACCESS EXCLUSIVE MODE")
        yield


def away(server: Server) -> Iterator[None]:
    server.stop()
    yield
    server.start()


@pytest.mark.parametrize("trouble", [slow, away])
def test_exporters_are_told_to_come_again_and_memory_stays_flat(
    up: RunningUp, server: Server, trouble: Callable[[Server], Iterator[None]]
) -> None:
    requests, others, first = new_requests(REQUESTS), new_requests(CONNECTIONS), new_requests(8)
    told = {(HTTPStatus.SERVICE_UNAVAILABLE, RETRY_AFTER)}
    told_by_grpc = {(grpc.StatusCode.UNAVAILABLE, RETRY_AFTER)}
    export_all(up, first)  # what a program allocates once
    export_all_by_grpc(up, first)
    before, stored = resident_bytes(up), server.value(STORED)
    with contextmanager(trouble)(server):
        assert set(export_all(up, requests)) == told
        assert set(export_all_by_grpc(up, others)) == told_by_grpc
        assert resident_bytes(up) - before < MAX_GROWTH
    send_until_taken(lambda: export_all(up, requests), HTTPStatus.OK)
    send_until_taken(lambda: export_all_by_grpc(up, others), grpc.StatusCode.OK)
    assert server.value(STORED) - stored == spans_of(requests) + spans_of(others)


STORED = "SELECT coalesce(sum(span_count), 0) FROM tracebudget_spanbatch"
seeds = iter(range(10**6))


def new_requests(count: int) -> list[Request]:
    traces = count * load.SPANS_A_REQUEST // load.SPANS_A_TRACE
    return load.requests(traces, seed=next(seeds), now_ns=time.time_ns())


def spans_of(requests: Sequence[Request]) -> int:
    return sum(request.spans for request in requests)


def resident_bytes(up: RunningUp) -> int:
    """Of all that receive."""
    receivers = [up.child(word) for word in RECEIVERS]
    processes = [one for top in receivers for one in (top, *top.children(recursive=True))]
    return sum(process.memory_info().rss for process in processes)


Answers = Counter[tuple[Any, int | None]]  # statuses, with the seconds after which to try again


def send_until_taken(send_all: Callable[[], Answers], taken: Any) -> None:
    """Send all again while any are refused, as a busy machine may: repeats change nothing."""
    deadline = time.monotonic() + WAIT_SECONDS
    while set(send_all()) != {(taken, None)}:
        assert time.monotonic() < deadline


def export_all(up: RunningUp, requests: Sequence[Request]) -> Answers:
    """Each once over HTTP, over many connections."""
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        return Counter(pool.map(lambda request: export(up, request), requests))


def export(up: RunningUp, request: Request) -> tuple[int, int | None]:
    headers = {
        "x-api-key": up.credentials["ingest_key"],
        "Content-Type": "application/x-protobuf",
        "Content-Encoding": "gzip",
    }
    address = up.otlp_url.removeprefix("http://")
    with closing(HTTPConnection(address, timeout=60)) as connection:
        connection.request("POST", "/v1/traces", request.body, headers)
        response = connection.getresponse()
        wait = response.headers["Retry-After"]
        return response.status, None if wait is None else int(wait)


def export_all_by_grpc(up: RunningUp, requests: Sequence[Request]) -> Answers:
    """Each once over gRPC, over one connection."""
    with grpc.insecure_channel(up.grpc_target) as channel, ThreadPoolExecutor(CONNECTIONS) as pool:
        call: Any = channel.unary_unary(f"/{TRACES}/Export")
        metadata = (("x-api-key", up.credentials["ingest_key"]),)
        return Counter(pool.map(lambda request: export_by_grpc(call, metadata, request), requests))


def export_by_grpc(
    call: Any, metadata: tuple[tuple[str, str], ...], request: Request
) -> tuple[grpc.StatusCode, int | None]:
    try:
        call(gzip.decompress(request.body), metadata=metadata, timeout=60)
    except grpc.RpcError as error:
        return error.code(), retry_after(error)
    return grpc.StatusCode.OK, None


def retry_after(error: Any) -> int | None:
    """The seconds in the error's details."""
    details = dict(error.trailing_metadata()).get(DETAILS)
    wait = RetryInfo()
    if details is None or not Status.FromString(details).details[0].Unpack(wait):
        return None
    return int(wait.retry_delay.seconds)


# --- memory without trouble ---


def test_memory_stays_flat_through_a_load_and_bombs(up: RunningUp) -> None:
    """`make faults` loads for three minutes."""
    address, key = up.otlp_url.removeprefix("http://"), up.credentials["ingest_key"]
    sizes: list[int] = []
    ends = time.monotonic() + LOAD_SECONDS
    while time.monotonic() < ends or len(sizes) < MIN_ROUNDS:
        assert send(new_requests(24), address, key, connections=4).spans
        sizes.append(resident_bytes(up))
    middle = len(sizes) // 2
    assert max(sizes[middle:]) - max(sizes[:middle]) < MAX_DRIFT
    bomb = Request(gzip.compress(bytes(1024 * MIB), 1), 0)
    with ThreadPoolExecutor(1) as pool:
        bombing = pool.submit(export_all, up, [bomb] * CONNECTIONS)
        peak = max(sizes)
        while not bombing.done():
            peak = max(peak, resident_bytes(up))
            time.sleep(0.05)
    assert set(bombing.result()) == {(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, None)}
    assert peak - max(sizes) < MAX_GROWTH_BY_BOMBS
