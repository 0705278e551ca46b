"""Long-lived connections are spread over the processes of the OTLP port."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from subprocess import Popen
from typing import Any

import pytest
from django.conf import settings

from tests.running import free_port
from tracebudget.runtime import programs
from tracebudget.runtime.addresses import listens
from tracebudget.runtime.child import Command
from tracebudget.runtime.spread import ANSWERS_BETWEEN, spread

RunProgram = Callable[[Command], "Popen[bytes]"]


@pytest.mark.parametrize(("processes", "closed"), [(1, 0), (2, 3)], ids=["one", "two"])
def test_each_process_asks_for_new_connections(
    run_program: RunProgram, monkeypatch: pytest.MonkeyPatch, processes: int, closed: int
) -> None:
    """With one process there is nothing to spread."""
    port = free_port()
    monkeypatch.setattr(settings, "OTLP_PORT", port)
    monkeypatch.setattr(settings, "OTLP_PROCESSES", processes)
    monkeypatch.setenv("TRACEBUDGET_OTLP_PROCESSES", str(processes))
    run_program(programs.otlp())
    deadline = time.monotonic() + 30
    while not listens("127.0.0.1", port):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    with closing(HTTPConnection("127.0.0.1", port)) as connection:
        answers = [asks_to_close(connection) for _ in range(4 * ANSWERS_BETWEEN)]
    assert sum(answers) >= closed  # each process counts its own, and stops short of the next
    assert sum(answers) <= 4 * (processes - 1)


def asks_to_close(connection: HTTPConnection) -> bool:
    connection.request("GET", "/healthz")
    response = connection.getresponse()
    response.read()
    return response.headers["Connection"] == "close"


@pytest.mark.parametrize(("protocol", "closed"), [("HTTP/1.1", 2), ("HTTP/2", 0)])
def test_one_of_so_many_answers_closes_where_the_protocol_has_that(
    protocol: str, closed: int
) -> None:
    headers: list[tuple[str, str]] = []

    def answer(_: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
        start("200 OK", headers)
        return []

    application = spread(answer)
    for _ in range(2 * ANSWERS_BETWEEN):
        application({"SERVER_PROTOCOL": protocol}, lambda *_: None)
    assert headers == [("Connection", "close")] * closed
