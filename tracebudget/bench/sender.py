"""Sends export requests over a few connections, as exporters do, and notes how long each took."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from math import ceil
from typing import NamedTuple

from tracebudget.bench.load import Request

TIMEOUT_SECONDS = 30
PAUSE_SECONDS = 0.2  # before a request goes out again that got no answer, or a 503
UNANSWERED = 0  # stands for a status
RETRIED = {UNANSWERED, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}


class Try(NamedTuple):
    """One request and its answer. `spans` are those that it stored: none, unless it was a 200."""

    status: int
    seconds: float
    spans: int


@dataclass(frozen=True, slots=True)
class Sent:
    """What came of it."""

    seconds: float
    tries: list[Try]

    @property
    def spans(self) -> int:
        return sum(one.spans for one in self.tries)

    @property
    def statuses(self) -> Counter[int]:
        return Counter(one.status for one in self.tries)

    def percentile_ms(self, percent: float) -> float:
        ordered = sorted(one.seconds for one in self.tries)
        return 1000 * ordered[max(0, ceil(len(ordered) * percent / 100) - 1)]


class Exporter:
    """One connection to a receiver, opened again when it breaks."""

    def __init__(self, address: str, key: str) -> None:
        self._connection = HTTPConnection(address, timeout=TIMEOUT_SECONDS)
        self._headers = {
            "x-api-key": key,
            "Content-Type": "application/x-protobuf",
            "Content-Encoding": "gzip",
        }

    def export(self, request: Request) -> int:
        """The status of the answer, or UNANSWERED."""
        try:
            self._connection.request("POST", "/v1/traces", request.body, self._headers)
            response = self._connection.getresponse()
            response.read()
        except (OSError, HTTPException):
            self._connection.close()
            return UNANSWERED
        return response.status

    def __enter__(self) -> Exporter:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def send(
    requests: Sequence[Request],
    address: str,
    key: str,
    *,
    connections: int,
    spans_a_second: float | None = None,
) -> Sent:
    """Send all, each until it is answered 200: at a steady rate, or as fast as answers come."""
    queue = _Queue(requests, spans_a_second)
    started = time.perf_counter()
    with ThreadPoolExecutor(connections) as pool:
        done = [pool.submit(_send_from, queue, address, key) for _ in range(connections)]
        tries = [one for future in done for one in future.result()]
    return Sent(time.perf_counter() - started, tries)


class _Queue:
    """Hands out requests, each when it is its turn."""

    def __init__(self, requests: Sequence[Request], spans_a_second: float | None) -> None:
        self._requests = iter(requests)
        self._seconds_a_span = 1 / spans_a_second if spans_a_second else 0.0
        self._next_at = time.perf_counter()
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[Request]:
        while (turn := self._take()) is not None:
            request, at = turn
            time.sleep(max(0.0, at - time.perf_counter()))
            yield request

    def _take(self) -> tuple[Request, float] | None:
        with self._lock:
            request, at = next(self._requests, None), self._next_at
            if request is None:
                return None
            self._next_at += request.spans * self._seconds_a_span
        return request, at


def _send_from(queue: _Queue, address: str, key: str) -> list[Try]:
    with Exporter(address, key) as exporter:
        return [one for request in queue for one in _send_one(exporter, request)]


def _send_one(exporter: Exporter, request: Request) -> Iterator[Try]:
    while True:
        started = time.perf_counter()
        status = exporter.export(request)
        is_stored = status == HTTPStatus.OK
        yield Try(status, time.perf_counter() - started, request.spans if is_stored else 0)
        if is_stored:
            return
        if status not in RETRIED:
            raise RuntimeError(f"The receiver answered {status}")
        time.sleep(PAUSE_SECONDS)
