"""The product itself: `manage.py up` in a data directory and on ports of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import psutil

from tracebudget.bench.stack import free_ports

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 60  # a first start takes 4 s; CI machines are slow and busy
PORTS = ("TRACEBUDGET_PORT", "TRACEBUDGET_OTLP_PORT", "TRACEBUDGET_GRPC_PORT")
OURS = ("TRACEBUDGET_", "DATABASE_URL", "BROKER_URL", "DJANGO_")


def free_port() -> int:
    (port,) = free_ports(1)
    return port


class RunningUp:
    """One data directory and its ports; `start` and `stop` as often as a test likes."""

    def __init__(self, data_dir: Path, **settings: str) -> None:
        self.data_dir = data_dir
        self.settings = {"TRACEBUDGET_DATA_DIR": str(data_dir), **settings}
        self.ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        self.lines: list[str] = []
        self.process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports['TRACEBUDGET_PORT']}"

    @property
    def otlp_url(self) -> str:
        return f"http://127.0.0.1:{self.ports['TRACEBUDGET_OTLP_PORT']}"

    @property
    def grpc_target(self) -> str:
        return f"127.0.0.1:{self.ports['TRACEBUDGET_GRPC_PORT']}"

    @property
    def credentials(self) -> dict[str, str]:
        told: dict[str, str] = json.loads((self.data_dir / "credentials.json").read_text())
        return told

    def environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        ports = {name: str(port) for name, port in self.ports.items()}
        return inherited | ports | self.settings

    def start(self, *options: str) -> None:
        """Start, and return at once."""
        self.lines.clear()
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "up", *options],
            cwd=ROOT,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True).start()

    def start_and_wait(self) -> None:
        """Start without demo data, and wait until it is ready."""
        self.start("--no-demo")
        self.wait_for(f"ready: {self.url}")

    def wait_for(self, text: str, *, seconds: float = START_SECONDS) -> None:
        """Until a line contains `text`. AssertionError with the whole log if none does in time."""
        deadline = time.monotonic() + seconds
        while not any(text in line for line in self.lines):
            log = "".join(self.lines)
            assert self.running.poll() is None, f"ended without saying {text!r}:\n{log}"
            assert time.monotonic() < deadline, f"never said {text!r}:\n{log}"
            time.sleep(0.05)

    @property
    def running(self) -> subprocess.Popen[str]:
        assert self.process is not None
        return self.process

    def children(self) -> list[psutil.Process]:
        """Every process below `up`."""
        return psutil.Process(self.running.pid).children(recursive=True)

    def child(self, word: str) -> psutil.Process:
        """The direct child that is called `word`, or has it on its command line. LookupError when
        there is none just now.
        """
        for child in psutil.Process(self.running.pid).children():
            with suppress(psutil.NoSuchProcess):
                if word in {child.name(), *child.cmdline()}:
                    return child
        raise LookupError(word)

    def manage(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Another command of manage.py in the same environment."""
        return subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=ROOT,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )

    def stop(self) -> None:
        """End it, however it is; nothing to do when it has ended."""
        if self.running.poll() is None:
            self.running.send_signal(signal.SIGTERM)
        self.running.wait(timeout=10)

    def _read(self, output: IO[Any]) -> None:
        with output:
            for line in output:
                self.lines.append(line)
