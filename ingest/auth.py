"""Which project an export belongs to: the ingest key in its headers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

from django.conf import settings

from ingest.errors import OtlpError
from tracebudget import keys, models

Headers = Mapping[str, str]  # named in lower case, or whatever their case

HOW = "Send `Authorization: Bearer <ingest key>` or `x-api-key: <ingest key>`."
# What a proxy or a browser adds: the program behind the connection is not the sender.
SENT_FOR_ANOTHER = ("forwarded", "x-forwarded-for", "x-real-ip", "via", "origin", "sec-fetch-site")


class Caller(NamedTuple):
    """Who sends an export, from which IP address, and by which way."""

    headers: Headers
    address: str
    way: models.Way


def authenticate(caller: Caller, *, now: datetime) -> models.IngestKey:
    """The key's row, its project with it. OtlpError 401 without a known, unrevoked key."""
    secret = sent_key(caller.headers)
    if not secret:
        return _keyless(caller)
    key = keys.find_key(models.IngestKey, secret, now=now)
    if key is None:
        raise OtlpError(401, f"The ingest key is unknown or revoked. {HOW}")
    return key


def sent_key(headers: Headers) -> str:
    """The key as sent, "" for none. `x-api-key` is for exporters that cannot set Authorization."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    return headers.get("x-api-key", "").strip()


def _keyless(caller: Caller) -> models.IngestKey:
    """A key without a row, for programs on this machine where the setting wants that."""
    if not settings.KEYLESS_PROJECT or not is_local(caller):
        raise OtlpError(401, f"No ingest key. {HOW}")
    project = models.Project.objects.filter(slug=settings.KEYLESS_PROJECT).first()
    if project is None:
        raise OtlpError(401, "TRACEBUDGET_KEYLESS_PROJECT names no project.")
    return models.IngestKey(project=project)


def is_local(caller: Caller) -> bool:
    """A program on this machine is the sender itself."""
    try:
        address = ip_address(caller.address)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return address.is_loopback and not any(name in caller.headers for name in SENT_FOR_ANOTHER)
