"""The real product, to be measured: `manage.py up` with a directory and ports of its own."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg

from tracebudget.runtime import child, postgres
from tracebudget.runtime.child import Command
from tracebudget.runtime.sockets import socket_directory

START_SECONDS = 120
# How the programs are told apart: a word on their command line.
PROGRAMS = {
    "otlp": "tracebudget.otlp_wsgi:application",
    "worker": "worker",
    "postgres": "postgres",
}


class Stack:
    """A running product. `database` is a connection to its tables."""

    def __init__(self, data_dir: Path, process: subprocess.Popen[bytes], otlp_port: int) -> None:
        credentials = json.loads((data_dir / "credentials.json").read_text())
        self.address = f"127.0.0.1:{otlp_port}"
        self.key: str = credentials["ingest_key"]
        self.database_url = postgres.database_url(socket_directory(data_dir))
        self.database = psycopg.connect(self.database_url, autocommit=True)
        self._process = process

    def value(self, query: str, *parameters: Any) -> Any:
        """The one value that a query answers."""
        row = self.database.execute(query, parameters).fetchone()
        assert row is not None
        return row[0]

    def cpu_seconds(self) -> dict[str, float]:
        """CPU time so far of each program, with all its processes."""
        seconds: defaultdict[str, float] = defaultdict(float)
        for process in psutil.Process(self._process.pid).children():
            seconds[_program(process)] += cpu_seconds(process)
        return seconds


def cpu_seconds(process: psutil.Process) -> float:
    """CPU time so far of a process and of all below it, those that have ended too."""
    seconds = 0.0
    for one in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # ended just now: the next look finds it at its parent
            seconds += sum(one.cpu_times()[:4])
    return seconds


def _program(process: psutil.Process) -> str:
    words = {process.name(), *process.cmdline()}
    return next((name for name, word in PROGRAMS.items() if word in words), "other")


@contextmanager
def running(settings: Mapping[str, str]) -> Iterator[Stack]:
    """The product with these settings beside the defaults, from its first start to its end."""
    with tempfile.TemporaryDirectory(prefix="tb-bench-") as directory:
        data_dir, (port, otlp_port, grpc_port) = Path(directory), free_ports(3)
        environment = {
            "TRACEBUDGET_DATA_DIR": directory,
            "TRACEBUDGET_PORT": str(port),
            "TRACEBUDGET_OTLP_PORT": str(otlp_port),
            "TRACEBUDGET_GRPC_PORT": str(grpc_port),
            **settings,
        }
        pairs = (f"{name}={value}" for name, value in environment.items())
        ours = ("env", "--unset=DATABASE_URL", "--unset=BROKER_URL", *pairs)
        command = Command("up", (*ours, sys.executable, "manage.py", "up", "--no-demo"))
        log = data_dir / "up.log"
        with child.running(command, log=log) as process:
            _wait_until_ready(process, log)
            yield Stack(data_dir, process, otlp_port)


def _wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while b"\nready:" not in log.read_bytes():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"The product did not start:\n{log.read_text()}")
        time.sleep(0.1)


def free_ports(number: int) -> list[int]:
    """Ports that nobody uses just now. All are held until the last is found: else one may come
    twice.
    """
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(number)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
