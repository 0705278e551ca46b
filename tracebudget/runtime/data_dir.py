"""The data directory: ours alone, one `up` at a time."""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tracebudget.runtime.errors import StartError

STOP_SECONDS = 15  # the children of a killed `up` are gone by then, a task in hand included


@contextmanager
def locked(data_dir: Path) -> Iterator[int]:
    """Hold the directory. Children inherit the yielded descriptor and hold it too, to the last.

    The kernel drops the lock with its last holder: a killed `up` leaves nothing to clean up.
    """
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (data_dir / "up.lock").open("a+") as file:
        _lock(file, data_dir)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        os.set_inheritable(file.fileno(), True)
        yield file.fileno()


def _lock(file: IO[str], data_dir: Path) -> None:
    deadline = time.monotonic() + STOP_SECONDS
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip()
            if _is_alive(holder) or time.monotonic() > deadline:
                raise StartError(
                    f"Tracebudget runs already in {data_dir} (process {holder or 'unknown'}). "
                    "Stop it first, or choose another TRACEBUDGET_DATA_DIR."
                ) from None
            time.sleep(0.1)  # its children are still stopping


def _is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:  # someone else's process, but a process
        return True
    return True


def write_private(path: Path, text: str) -> None:
    """Write a file that only we can read, whole or not at all."""
    unfinished = path.with_name(path.name + ".new")
    unfinished.unlink(missing_ok=True)
    with open(unfinished, "x", opener=_private) as file:
        file.write(text)
    unfinished.replace(path)


def make_secret(path: Path) -> str:
    """The secret in the file, made on the first call."""
    if not path.exists():
        write_private(path, secrets.token_urlsafe(50))
    return path.read_text().strip()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
