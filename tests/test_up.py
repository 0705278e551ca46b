"""`manage.py up`, the real one: what it starts, tells, survives and leaves behind."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import stat
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import grpc
import psutil
import psycopg
import pytest

from ingest.rpc import TRACES
from tests.running import RunningUp
from tracebudget.runtime import postgres
from tracebudget.runtime.addresses import listens

STOP_SECONDS = 5.0


@pytest.fixture(scope="module")
def data_dir() -> Iterator[Path]:
    """Short enough for a Unix socket, which pytest's own temporary directories may not be."""
    directory = Path(tempfile.mkdtemp(prefix="tb-up-"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def up(data_dir: Path) -> Iterator[RunningUp]:
    """A first start, running."""
    running = RunningUp(data_dir)
    try:
        running.start_and_wait()
        yield running
    finally:
        running.stop()


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: object) -> None:
        """Let the test see the redirect itself."""


def fetch(
    url: str, *, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, str, CookieJar]:
    """Status, body and cookies of one request; errors and redirects are answers too."""
    cookies = CookieJar()
    opener = urllib.request.build_opener(
        NoRedirect, urllib.request.HTTPCookieProcessor(cookies), urllib.request.ProxyHandler({})
    )
    request = urllib.request.Request(url, data=body, headers=headers or {})
    try:
        with opener.open(request, timeout=10) as response:
            return response.status, response.read().decode(), cookies
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), cookies


def still_running(processes: list[psutil.Process], *, timeout: float) -> list[psutil.Process]:
    """Those that go on after `timeout` seconds. A zombie has ended; init has yet to take note."""
    _, left = psutil.wait_procs(processes, timeout=timeout)
    return [one for one in left if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def test_first_start_tells_its_credentials(up: RunningUp) -> None:
    credentials = up.credentials
    assert set(credentials) == {
        "url",
        "otlp_url",
        "grpc_target",
        "project",
        "ingest_key",
        "api_token",
        "sign_in_url",
    }
    assert credentials["url"] == up.url
    assert credentials["otlp_url"] == up.otlp_url
    assert credentials["grpc_target"] == up.grpc_target
    assert credentials["project"] == "default"


@pytest.mark.parametrize("name", ["credentials.json", "secret.key"])
def test_secrets_are_ours_alone(up: RunningUp, name: str) -> None:
    assert stat.S_IMODE((up.data_dir / name).stat().st_mode) == 0o600


def test_probes_answer_on_both_ports(up: RunningUp) -> None:
    for url in (up.url, up.otlp_url):
        assert fetch(f"{url}/healthz")[:2] == (200, "ok\n")
        assert fetch(f"{url}/readyz")[:2] == (200, "ready\n")


def test_otlp_port_serves_no_pages(up: RunningUp) -> None:
    status, text, _ = fetch(f"{up.otlp_url}/sign-in/")
    assert status == 404
    assert json.loads(text)["message"].startswith("There is nothing here.")


def test_both_ports_take_traces_from_who_has_the_key(up: RunningUp) -> None:
    for url in (up.url, up.otlp_url):
        headers = {"Content-Type": "application/x-protobuf"}
        assert fetch(f"{url}/v1/traces", body=b"", headers=headers)[0] == 401
        headers["Authorization"] = f"Bearer {up.credentials['ingest_key']}"
        assert fetch(f"{url}/v1/traces", body=b"", headers=headers)[0] == 200


def test_the_grpc_port_takes_traces_from_who_has_the_key(up: RunningUp) -> None:
    with grpc.insecure_channel(up.credentials["grpc_target"]) as channel:
        export: Any = channel.unary_unary(f"/{TRACES}/Export")
        with pytest.raises(grpc.RpcError, match="UNAUTHENTICATED"):
            export(b"", timeout=10)
        bearer = ("authorization", f"Bearer {up.credentials['ingest_key']}")
        assert export(b"", metadata=[bearer], timeout=10) == b""


def test_sign_in_link_works_once(up: RunningUp) -> None:
    url = up.manage("sign_in_link").stdout.strip()
    status, _, cookies = fetch(url)
    assert status == 302
    assert "tracebudget_session" in {cookie.name for cookie in cookies}
    status, text, cookies = fetch(url)
    assert status == 410
    assert "sign_in_link" in text
    assert "tracebudget_session" not in {cookie.name for cookie in cookies}


def test_a_browser_that_looks_ahead_does_not_use_the_link_up(up: RunningUp) -> None:
    url = up.manage("sign_in_link").stdout.strip()
    assert fetch(url, headers={"Sec-Purpose": "prefetch;prerender"})[0] == 503
    assert fetch(url)[0] == 302


def test_nothing_listens_beyond_loopback(up: RunningUp) -> None:
    listening = [
        connection.laddr.ip.removeprefix("::ffff:")  # how gRPC's IPv6 socket spells IPv4
        for process in up.children()
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert set(listening) == {"127.0.0.1"}


def test_second_up_is_refused(up: RunningUp) -> None:
    second = up.manage("up")
    assert second.returncode == 1
    assert f"Tracebudget runs already in {up.data_dir}" in second.stderr
    assert fetch(f"{up.url}/readyz")[0] == 200


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("worker", "worker"),
        ("valkey", "valkey-server"),
        ("web", "tracebudget.wsgi:application"),
        ("grpc", "tracebudget.otlp_grpc"),
        ("postgres", "postgres"),
    ],
)
def test_crashed_child_starts_again(up: RunningUp, name: str, word: str) -> None:
    up.child(word).kill()
    up.wait_for(f"{name} ended (signal 9); it starts again in 1 s")
    wait_until_ready(up)


def wait_until_ready(up: RunningUp) -> None:
    deadline = time.monotonic() + 20
    while not is_ready(up):
        assert time.monotonic() < deadline, "".join(up.lines)
        time.sleep(0.1)


def is_ready(up: RunningUp) -> bool:
    try:
        return fetch(f"{up.url}/readyz")[0] == 200 and listens(
            "127.0.0.1", up.ports["TRACEBUDGET_GRPC_PORT"]
        )
    except OSError:  # nobody listens, or not any more
        return False


def test_sigterm_stops_everything_within_5_seconds_and_data_survive(data_dir: Path) -> None:
    directory = data_dir / "restart"
    up = RunningUp(directory)
    try:
        up.start_and_wait()
        first, below = up.credentials, up.children()
        began = time.monotonic()
        up.running.send_signal(signal.SIGTERM)
        assert up.running.wait(timeout=10) == 0
        assert time.monotonic() - began < STOP_SECONDS
        assert not still_running(below, timeout=0.5)

        up.start_and_wait()
        assert up.credentials == first
        headers = {
            "Content-Type": "application/x-protobuf",
            "Authorization": f"Bearer {first['ingest_key']}",
        }
        assert fetch(f"{up.otlp_url}/v1/traces", body=b"", headers=headers)[0] == 200
    finally:
        up.stop()


def test_killed_up_leaves_no_orphan_and_starts_again(data_dir: Path) -> None:
    up = RunningUp(data_dir / "killed")
    try:
        up.start_and_wait()
        below = up.children()
        up.running.kill()
        up.running.wait()
        up.start_and_wait()  # at once: it waits for the old children, and finds nothing in its way
        assert not still_running(below, timeout=STOP_SECONDS)
    finally:
        up.stop()


def test_servers_that_are_named_are_used(
    data_dir: Path, socket_dir: Path, postgres_server: None, broker: str
) -> None:
    url = postgres.database_url(socket_dir)
    up = RunningUp(data_dir / "named", DATABASE_URL=url, BROKER_URL=broker)
    try:
        up.start_and_wait()
        names = {process.name() for process in psutil.Process(up.running.pid).children()}
        assert not {"postgres", "valkey-server"} & names
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT slug FROM tracebudget_project").fetchall() == [
                ("default",)
            ]
    finally:
        up.stop()


def test_database_that_does_not_answer_is_told(data_dir: Path) -> None:
    up = RunningUp(data_dir / "away", DATABASE_URL="postgresql://127.0.0.1:1/none")
    result = up.manage("up")
    assert result.returncode == 1
    assert "The database of DATABASE_URL does not answer" in result.stderr


@pytest.mark.parametrize(
    "name", ["TRACEBUDGET_PORT", "TRACEBUDGET_OTLP_PORT", "TRACEBUDGET_GRPC_PORT"]
)
def test_taken_port_is_told_before_anything_starts(data_dir: Path, name: str) -> None:
    up = RunningUp(data_dir / "taken")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", up.ports[name]))
        taken.listen()
        result = up.manage("up")
    assert result.returncode == 1
    assert f"127.0.0.1:{up.ports[name]}" in result.stderr
    assert f"{name}=" in result.stderr
    assert not (up.data_dir / "postgres").exists()
