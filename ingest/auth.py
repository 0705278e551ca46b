"""Which project an export belongs to: the ingest key in its headers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from ingest.errors import OtlpError
from tracebudget import keys, models

HOW = "Send `Authorization: Bearer <ingest key>` or `x-api-key: <ingest key>`."


Headers = Mapping[str, str]  # named in lower case, or whatever their case


class Caller(NamedTuple):
    """Who sends an export, and by which way."""

    headers: Headers
    way: models.Way


def authenticate(caller: Caller, *, now: datetime) -> models.IngestKey:
    """The key's row, its project with it. OtlpError 401 without a known, unrevoked key."""
    secret = sent_key(caller.headers)
    if not secret:
        raise OtlpError(401, f"No ingest key. {HOW}")
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
