"""Keeps child processes running: starts, merges logs, restarts what ends, stops in time."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import IO

from tracebudget.runtime.child import Command, kill_group, start
from tracebudget.runtime.log import MergedLog

POLL_SECONDS = 0.2  # how late a death may be noticed
FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 1.0, 30.0
HEALTHY_SECONDS = 60.0  # a child that lived this long starts again from the first back-off


class Child:
    """A command and the process that runs it. Between two of them, `process` is the dead one."""

    def __init__(self, command: Command, *, log: MergedLog, inherit: Iterable[int]) -> None:
        self.command = command
        self._log = log
        self._inherit = tuple(inherit)
        self._backoff = FIRST_BACKOFF_SECONDS
        self._due: float | None = None  # when the next process starts, while there is none
        self._start()

    def _start(self) -> None:
        self._started = time.monotonic()
        self._due = None
        self.process = start(self.command, output=subprocess.PIPE, inherit=self._inherit)
        assert self.process.stdout is not None
        pump = threading.Thread(target=self._pump, args=(self.process.stdout,), daemon=True)
        pump.start()

    def _pump(self, output: IO[bytes]) -> None:
        with output:
            for line in output:
                self._log.write(self.command.name, line.decode(errors="replace").rstrip())

    def is_done(self) -> bool:
        """It has ended, and that was all it had to do."""
        if self.command.restarts or self.process.poll() is None:
            return False
        kill_group(self.process)
        return True

    def revive(self) -> None:
        """Start the process again if it ended: not at once, and ever later if it keeps ending."""
        now = time.monotonic()
        if self._due is not None:
            if now >= self._due:
                self._start()
        elif self.process.poll() is not None:
            self._bury(now)

    def _bury(self, now: float) -> None:
        kill_group(self.process)  # its own children would hold ports and locks
        if now - self._started >= HEALTHY_SECONDS:
            self._backoff = FIRST_BACKOFF_SECONDS
        self._due = now + self._backoff
        self._log.write(
            "up",
            f"{self.command.name} ended ({_describe(self.process.returncode)});"
            f" it starts again in {self._backoff:.0f} s",
        )
        self._backoff = min(2 * self._backoff, MAX_BACKOFF_SECONDS)


class Supervisor:
    """The child processes of one `up`. For the main thread only: they end with it (tether.py)."""

    def __init__(self, log: MergedLog, *, inherit: Iterable[int] = ()) -> None:
        self._log = log
        self._inherit = tuple(inherit)
        self._layers: list[tuple[list[Child], float]] = []

    def start(self, *commands: Command, grace: float) -> None:
        """Start a layer: commands that may need those started before.

        To end, they have `grace` seconds; then they are killed.
        """
        layer: list[Child] = []
        self._layers.append((layer, grace))
        for command in commands:
            layer.append(Child(command, log=self._log, inherit=self._inherit))

    def all_alive(self) -> bool:
        return all(child.process.poll() is None for child in self._children())

    def _children(self) -> Iterator[Child]:
        return chain.from_iterable(layer for layer, _ in self._layers)

    def watch(self, *, until: Callable[[], bool] = lambda: False) -> None:
        """Restart what ends until `until` is true; without it, until an exception (Ctrl-C)."""
        while not until():
            for layer, _ in self._layers:
                layer[:] = [child for child in layer if not child.is_done()]
            for child in self._children():
                child.revive()
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """End the layers, the last one first."""
        while self._layers:
            layer, grace = self._layers.pop()
            _stop_layer(layer, deadline=time.monotonic() + grace)


def _stop_layer(layer: list[Child], *, deadline: float) -> None:
    for child in layer:
        child.process.send_signal(child.command.stop_signal)
    for child in layer:
        with suppress(subprocess.TimeoutExpired):
            child.process.wait(max(0.0, deadline - time.monotonic()))
        kill_group(child.process)


def _describe(returncode: int) -> str:
    return f"signal {-returncode}" if returncode < 0 else f"exit code {returncode}"
