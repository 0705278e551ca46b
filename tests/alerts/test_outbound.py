"""The way out to addresses that people type in: which are called, and what may come back."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address

import pytest
from pytest_django import Settings

from tests.alerts.readers import Receiver, say
from tracebudget.alerts.errors import DeliveryError
from tracebudget.alerts.outbound import MAX_ANSWER_BYTES, is_public, post


def why_not(url: str) -> DeliveryError:
    with pytest.raises(DeliveryError) as failed:
        post(url, b"{}", {})
    return failed.value


# --- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",  # metadata, nearly everywhere
        "100.100.100.200",  # metadata
        "192.0.0.192",  # metadata
        "168.63.129.16",  # metadata
        "0.0.0.0",  # noqa: S104 (not to listen on)
        "0.1.2.3",
        "100.64.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fd00:ec2::254",  # metadata
        "fec0::1",
        "ff02::1",
        "::ffff:127.0.0.1",  # IPv4, mapped
        "::ffff:169.254.169.254",
        "::ffff:0:127.0.0.1",
        "::127.0.0.1",  # IPv4, compatible
        "2002:7f00:1::",  # 6to4 of 127.0.0.1
        "2002:808:808::",  # 6to4 of a public one: no longer in use
        "2001:0:7f00:1::",  # Teredo
        "64:ff9b::7f00:1",  # NAT64 of 127.0.0.1
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "2001:db8::1",
    ],
)
def test_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"]
)
def test_public(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "127.1",
        "2130706433",
        "0x7f000001",
        "017700000001",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[0:0:0:0:0:ffff:7f00:1]",
        "127。0。0。1",
    ],
)
def test_this_machine_is_refused_however_it_is_written(receiver: Receiver, host: str) -> None:
    error = why_not(f"https://{host}:{receiver.port}/")
    assert receiver.calls == []
    assert error.is_permanent or "no address" in str(error)


def test_refusal_says_which_setting_would_allow_it(receiver: Receiver) -> None:
    assert "TRACEBUDGET_WEBHOOK_NETWORKS" in str(why_not(receiver.url))


@pytest.mark.parametrize("url", ["ftp://shop.example/", "file:///etc/passwd", "https://", "x"])
def test_what_is_no_web_address_is_refused(url: str) -> None:
    assert why_not(url).is_permanent


def test_plain_http_only_goes_where_the_operator_opened_a_network() -> None:
    assert "https" in str(why_not("http://8.8.8.8/"))


@pytest.mark.usefixtures("open_loopback")
def test_name_is_looked_up_once_and_the_checked_address_is_called(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that changes its mind after the check, as in DNS rebinding, is not asked again."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def rebinding(host: str, *args: object, **options: object) -> object:
        asked.append(host)
        return real("127.0.0.1" if len(asked) == 1 else "127.0.0.2", *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    answer = post(f"http://hooks.example:{receiver.port}/", b"{}", {})
    assert answer.status == 204
    assert asked == ["hooks.example"]
    assert receiver.calls[0].headers["host"] == f"hooks.example:{receiver.port}"


def test_one_private_address_among_public_ones_is_enough_to_refuse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, 443)) for a in ("8.8.8.8", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: both)
    assert why_not("https://hooks.example/").is_permanent


# --- answers --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("open_loopback")
def test_redirect_is_an_answer_and_not_followed(receiver: Receiver) -> None:
    receiver.answer = say(302, Location=f"http://127.0.0.1:{receiver.port}/elsewhere")
    assert post(receiver.url, b"{}", {}).status == 302
    assert [call.path for call in receiver.calls] == ["/hook/secret-path"]


@pytest.mark.usefixtures("open_loopback")
def test_long_answer_is_read_to_its_beginning(receiver: Receiver) -> None:
    receiver.answer = say(500, "no " * 1_000_000)
    assert len(post(receiver.url, b"{}", {}).text) <= MAX_ANSWER_BYTES


@pytest.mark.usefixtures("open_loopback")
def test_answer_is_made_readable(receiver: Receiver) -> None:
    receiver.answer = say(400, "bad\r\n\x00\x1b[31m request")
    assert post(receiver.url, b"{}", {}).text == "bad [31m request"


@pytest.mark.usefixtures("open_loopback")
@pytest.mark.parametrize(("asked", "heard"), [("120", 120), ("999999", 3600), ("soon", None)])
def test_wish_to_be_asked_later_is_heard_within_reason(
    receiver: Receiver, asked: str, heard: int | None
) -> None:
    receiver.answer = say(503, Retry__After=asked)
    assert post(receiver.url, b"{}", {}).retry_after == heard


def drip_headers(handler: BaseHTTPRequestHandler) -> None:
    """One byte a while, for ever: each read is quick, all of them are not."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    drip(handler)


def drip_body(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    drip(handler)


def drip(handler: BaseHTTPRequestHandler) -> None:
    for _ in range(100):
        handler.wfile.write(b"x")
        handler.wfile.flush()
        time.sleep(0.1)


@pytest.mark.usefixtures("open_loopback")
@pytest.mark.parametrize("answer", [drip_headers, drip_body, lambda _: time.sleep(5)])
def test_slow_drip_ends_with_the_time_limit(
    receiver: Receiver, settings: Settings, answer: Callable[[BaseHTTPRequestHandler], None]
) -> None:
    settings.DELIVERY_SECONDS = 1
    receiver.answer = answer
    started = time.monotonic()
    error = why_not(receiver.url)
    assert time.monotonic() - started < 3
    assert not error.is_permanent


@pytest.mark.usefixtures("open_loopback")
def test_nobody_there_may_be_tried_again() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        error = why_not(f"http://127.0.0.1:{taken.getsockname()[1]}/")
    assert not error.is_permanent


# --- TLS ------------------------------------------------------------------------------------------


@contextmanager
def tls_listener() -> Iterator[tuple[int, list[str | None]]]:
    """A TLS server without a certificate; the port, and the names it was asked for (SNI)."""
    names: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def note_name(_socket: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> int:
        names.append(name)
        return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME

    context.sni_callback = note_name
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            with pytest.raises(ssl.SSLError), client:
                context.wrap_socket(client, server_side=True)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1], names
        thread.join(timeout=5)


@pytest.mark.usefixtures("open_loopback")
def test_tls_asks_for_the_name_at_the_address_that_was_checked() -> None:
    with tls_listener() as (port, names):
        error = why_not(f"https://localhost:{port}/")
    assert names == ["localhost"]
    assert not error.is_permanent
