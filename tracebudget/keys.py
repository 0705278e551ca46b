"""Secrets: the keys that exporters and programs show, and the key of our own digests.

A key reads `<kind>_<look-up part>_<secret part>`. Its row keeps the first two, to find it by, and
SHA-256 of the whole, to compare with. A plain hash is enough: the secret part has 256 random bits,
so there is nothing to guess that a slow or keyed hash would protect, and no change of another
secret voids every key.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from tracebudget import models

KeyRow = TypeVar("KeyRow", models.IngestKey, models.ApiToken)

KINDS: dict[type[models.Key], str] = {models.IngestKey: "tbi", models.ApiToken: "tba"}
PREFIX = re.compile(r"tb[ia]_[0-9a-f]{12}(?=_)")  # fills the 16 characters of the column
LOOKUP_BYTES, SECRET_BYTES = 6, 32
USE_NOTED_EVERY = timedelta(minutes=1)  # last_used_at answers "is it in use?", not "when exactly?"
MAX_REMEMBERED = 1000  # keys in use at one time, in one process
DIGEST_KEY_BYTES = 32


class Remembered(NamedTuple):
    """A key's row, good until a moment of the monotonic clock."""

    row: models.Key
    until: float


_remembered: dict[tuple[type[models.Key], str], Remembered] = {}


def create_key(project: models.Project, name: str, kind: type[KeyRow]) -> tuple[KeyRow, str]:
    """A new key and its secret, which is shown once and stored nowhere."""
    prefix = f"{KINDS[kind]}_{secrets.token_hex(LOOKUP_BYTES)}"
    secret = f"{prefix}_{secrets.token_urlsafe(SECRET_BYTES)}"
    row = kind.objects.create(project=project, name=name, prefix=prefix, digest=_digest(secret))
    return row, secret


def find_key(kind: type[KeyRow], secret: str, *, now: datetime) -> KeyRow | None:
    """The row of a key, its project with it; None for an unknown or a revoked one.

    A process asks the database again after KEY_CACHE_SECONDS: that long a revoked key may live on
    in it.
    """
    prefix = PREFIX.match(secret)
    row = _row(kind, prefix[0], now) if prefix else None
    if row is None or not secrets.compare_digest(row.digest, _digest(secret)):
        return None
    _note_use(row, now)
    return row


def _row(kind: type[KeyRow], prefix: str, now: datetime) -> KeyRow | None:
    remembered = _remembered.get((kind, prefix))
    if remembered and isinstance(remembered.row, kind) and remembered.until > time.monotonic():
        return remembered.row
    live = kind.objects.filter(prefix=prefix, revoked_at__isnull=True)
    row = live.select_related("project").first()
    if row is None:
        _remembered.pop((kind, prefix), None)
    else:
        _remember(row, prefix)
    return row


def _remember(row: models.Key, prefix: str) -> None:
    if len(_remembered) >= MAX_REMEMBERED:
        _remembered.clear()
    until = time.monotonic() + settings.KEY_CACHE_SECONDS
    _remembered[type(row), prefix] = Remembered(row, until)


def forget_all() -> None:
    """Read keys anew, in this process: after a revocation here, which then holds at once."""
    _remembered.clear()
    _read_or_make.cache_clear()


def _note_use(row: models.Key, now: datetime) -> None:
    if row.last_used_at is None or row.last_used_at < now - USE_NOTED_EVERY:
        type(row)._default_manager.filter(pk=row.pk).update(last_used_at=now)
        row.last_used_at = now


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def digest_key() -> bytes:
    """The key of the privacy door's digests, made on first use.

    Kept in a file and not in the database: whoever steals the database alone cannot test guesses
    against it.
    """
    return _read_or_make(Path(settings.DIGEST_KEY_FILE))


@lru_cache(maxsize=1)
def _read_or_make(path: Path) -> bytes:
    if not path.exists():
        make_once(path, secrets.token_bytes(DIGEST_KEY_BYTES))
    key = path.read_bytes()
    if len(key) != DIGEST_KEY_BYTES:
        raise ImproperlyConfigured(f"{path} must hold {DIGEST_KEY_BYTES} bytes. Restore it.")
    return key


def make_once(path: Path, secret: bytes) -> None:
    """Keep a new secret in a file, which only we can read, unless there is one already.

    A draft is written, then linked to its name: only the first of several processes succeeds.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(secret)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass  # another process was first, and its key is the one
    finally:
        draft.unlink()
