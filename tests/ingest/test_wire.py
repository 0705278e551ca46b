"""OTLP/HTTP byte by byte, at the real server of the OTLP port."""

from __future__ import annotations

import gzip
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from subprocess import Popen

import pytest
from django.conf import settings

from tests import otlp
from tests.running import free_port
from tracebudget import keys, models
from tracebudget.runtime import programs
from tracebudget.runtime.addresses import listens
from tracebudget.runtime.child import Command

BODY = otlp.recorded(otlp.two_turns)
LENGTH = f"Content-Length: {len(BODY)}"
CHUNKED = "Transfer-Encoding: chunked"

RunProgram = Callable[[Command], "Popen[bytes]"]


@dataclass(frozen=True)
class Wire:
    port: int
    secret: str

    def head(self, *lines: str, method: str = "POST", version: str = "1.1") -> bytes:
        first = f"{method} /v1/traces HTTP/{version}"
        always = (
            "Host: tracebudget",
            f"x-api-key: {self.secret}",
            f"Content-Type: {otlp.PROTOBUF}",
        )
        return "\r\n".join([first, *always, *lines, "", ""]).encode()

    def answer(self, *parts: bytes, ends: bool = False) -> str:
        """The status line that comes back, and others before it, once each part was sent."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            lines = []
            for part in parts:
                connection.sendall(part)
                if part is parts[-1] and ends:
                    connection.shutdown(socket.SHUT_WR)
                if part is parts[-1] or b"Expect" in part:
                    lines.append(connection.recv(65536).partition(b"\r\n")[0].decode())
            return " ".join(line.split(" ", 1)[1] for line in lines)


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture
def wire(run_program: RunProgram, monkeypatch: pytest.MonkeyPatch, port: int) -> Wire:
    monkeypatch.setattr(settings, "OTLP_PORT", port)
    monkeypatch.setattr(settings, "OTLP_PROCESSES", 1)
    shop = models.Project.objects.create(slug="shop", name="Shop")
    _, secret = keys.create_key(shop, "tests", models.IngestKey)
    run_program(programs.otlp())
    deadline = time.monotonic() + 30
    while not listens("127.0.0.1", port):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return Wire(port, secret)


def chunks(body: bytes, size: int = 100, end: bytes = b"0\r\n\r\n") -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + end


def stored() -> int:
    return sum(models.SpanBatch.objects.values_list("span_count", flat=True))


def test_bodies_come_whole_in_chunks_or_when_asked_for(wire: Wire) -> None:
    compressed = gzip.compress(BODY)
    ways: dict[str, tuple[tuple[bytes, ...], str]] = {
        "with a length": ((wire.head(LENGTH) + BODY,), "200 OK"),
        "in pieces": ((wire.head(LENGTH), BODY[:99], BODY[99:]), "200 OK"),
        "HTTP/1.0": ((wire.head(LENGTH, version="1.0") + BODY,), "200 OK"),
        "in chunks": ((wire.head(CHUNKED) + chunks(BODY),), "200 OK"),
        "with a trailer": (
            (wire.head(CHUNKED) + chunks(BODY, end=b"0\r\nx: y\r\n\r\n"),),
            "200 OK",
        ),
        "gzip in chunks": (
            (wire.head(CHUNKED, "Content-Encoding: gzip") + chunks(compressed),),
            "200 OK",
        ),
        "asked for": ((wire.head(LENGTH, "Expect: 100-continue"), BODY), "100 Continue 200 OK"),
        "chunks beside a length": ((wire.head(CHUNKED, LENGTH) + chunks(BODY),), "200 OK"),
    }
    for way, (parts, expected) in ways.items():
        models.Trace.objects.all().delete()
        models.SpanBatch.objects.all().delete()
        assert wire.answer(*parts) == expected, way
        assert stored() == 5, way


def test_lengths_that_lie_are_400_and_harm_no_other(wire: Wire) -> None:
    lies = {
        "too short": wire.head(f"Content-Length: {len(BODY) - 9}") + BODY,
        "too long": wire.head(f"Content-Length: {len(BODY) + 9}") + BODY,
        "two": wire.head(LENGTH, "Content-Length: 5") + BODY,
        "negative": wire.head("Content-Length: -5") + BODY,
        "signed": wire.head(f"Content-Length: +{len(BODY)}") + BODY,
        "endless": wire.head(f"Content-Length: {10**30}") + BODY,
        "no number": wire.head("Content-Length: many") + BODY,
        "cut in a chunk": wire.head(CHUNKED) + chunks(BODY)[:200],
    }
    for lie, request in lies.items():
        assert wire.answer(request, ends=True) == "400 Bad Request", lie
        assert stored() == 0, lie
    assert wire.answer(wire.head(LENGTH) + BODY) == "200 OK"


def test_nobody_is_asked_for_a_body_that_is_refused_anyway(wire: Wire) -> None:
    asks = "Expect: 100-continue"
    large = wire.head(f"Content-Length: {settings.MAX_BODY_BYTES + 1}", asks)
    stranger = wire.head(LENGTH, asks).replace(wire.secret.encode(), b"stranger")
    assert wire.answer(large) == "413 Payload Too Large"
    assert wire.answer(stranger) == "401 Unauthorized"
    assert wire.answer(wire.head(method="HEAD")) == "405 Method Not Allowed"
