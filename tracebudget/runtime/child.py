"""One child process: how it is started, and how it is ended together with everything that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

TETHER = str(Path(__file__).with_name("tether.py"))


@dataclass(frozen=True, slots=True)
class Command:
    """A program of ours. `user` is the system user that runs it, "" for our own; `stop_signal` ends it in good order."""

    name: str
    argv: tuple[str, ...]
    user: str = ""
    stop_signal: signal.Signals = signal.SIGTERM


def start(command: Command, *, output: int | IO[bytes]) -> subprocess.Popen[bytes]:
    """Start the command in a process group of its own; it ends when the calling *thread* does, so call from the main one."""
    tether = (sys.executable, "-I", "-S", TETHER, str(os.getpid()), str(int(command.stop_signal)))
    return subprocess.Popen(
        (*tether, command.user, *command.argv),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # a Ctrl-C in the terminal reaches us alone; we end the children in order
    )


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the process and of its own children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def stop(process: subprocess.Popen[bytes], command: Command, *, timeout: float) -> None:
    """Ask the process to end, then make it."""
    with suppress(ProcessLookupError, subprocess.TimeoutExpired):
        process.send_signal(command.stop_signal)
        process.wait(timeout)
    kill_group(process)


@contextmanager
def running(command: Command, *, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Keep the command running for the length of a `with` block, its output appended to `log`."""
    with log.open("ab") as output:
        process = start(command, output=output)
    try:
        yield process
    finally:
        stop(process, command, timeout=5)
