"""Hosts, ports and URLs: how to name an address, and whether it is free."""

from __future__ import annotations

from urllib.parse import urlsplit

EVERY_ADDRESS = {"0.0.0.0", "::"}  # to listen on, not to connect to


def local_authority(host: str, port: int) -> str:
    """`host:port` as this machine can call it."""
    host = "127.0.0.1" if host in EVERY_ADDRESS else host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def url_host(url: str) -> str:
    """The host of a URL the way Django compares it: lower case, IPv6 in brackets, no port."""
    host = urlsplit(url).hostname or ""
    return f"[{host}]" if ":" in host else host
