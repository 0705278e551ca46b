"""One child process: how it starts, and how it ends with everything that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

TETHER = str(Path(__file__).with_name("tether.py"))
ROOT = Path(__file__).resolve().parents[2]  # where manage.py stands and modules are found


@dataclass(frozen=True, slots=True)
class Command:
    """A program of ours, and how it ends.

    `user` is the system user that runs it, "" for the one that we are. `stop_signal` ends it in
    good order; `orphan_signal` is what it gets when we are killed. Nobody is left then to try
    harder, and the signal may come several times (tether.py), so it is SIGKILL for nearly all.
    """

    name: str
    argv: tuple[str, ...]
    user: str = ""
    stop_signal: signal.Signals = signal.SIGTERM
    orphan_signal: signal.Signals = signal.SIGKILL
    restarts: bool = True  # when it ends; a program that does one thing does not


def start(
    command: Command, *, output: int | IO[bytes], inherit: Collection[int] = ()
) -> subprocess.Popen[bytes]:
    """Start the command in a process group of its own. It keeps the descriptors in `inherit` open.

    It ends when the calling *thread* does, so call from the main one.
    """
    tether = (sys.executable, "-I", "-S", TETHER, str(os.getpid()), str(int(command.orphan_signal)))
    return subprocess.Popen(
        (*tether, command.user, *command.argv),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        pass_fds=inherit,
        # a Ctrl-C in the terminal reaches us alone; we end the children in order
        start_new_session=True,
    )


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the process and of its own children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def running(command: Command, *, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Keep the command running for the length of a `with` block, its output appended to `log`."""
    with log.open("ab") as output:
        process = start(command, output=output)
    try:
        yield process
    finally:
        process.send_signal(command.stop_signal)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
        kill_group(process)
