"""Hosts, ports and URLs: how to name an address, and whether it is free."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from tracebudget.runtime.errors import StartError

# To listen on, not to connect to.
EVERY_ADDRESS = {"0.0.0.0", "::"}  # noqa: S104


def authority(host: str, port: int) -> str:
    """`host:port` as URLs write it: IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def local_authority(host: str, port: int) -> str:
    """`host:port` as this machine can call it."""
    return authority("127.0.0.1" if host in EVERY_ADDRESS else host, port)


def url_host(url: str) -> str:
    """The host of a URL the way Django compares it: lower case, IPv6 in brackets, no port."""
    host = urlsplit(url).hostname or ""
    return f"[{host}]" if ":" in host else host


def listens(host: str, port: int) -> bool:
    """Whether somebody takes connections there."""
    address = ("127.0.0.1" if host in EVERY_ADDRESS else host, port)
    try:
        with socket.create_connection(address, timeout=1):
            return True
    except OSError:
        return False


def require_free_port(host: str, port: int, *, setting: str) -> None:
    """StartError, naming the setting, when we could not listen there."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            # as servers do: a port that was just left is free
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise StartError(
            f"Cannot listen on {host}:{port} ({setting}): {error.strerror}. "
            f"Stop the program that uses the port, or choose another: {setting}={port + 1} make run"
        ) from error
