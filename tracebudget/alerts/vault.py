"""Seals what channels must keep secret: addresses with tokens in them, signing secrets.

The key is in a file outside the database, so a stolen database or backup gives no channel away. The
file holds one Fernet key a line: the first seals, all of them open. A new key goes on top, every
channel is sealed anew, and the old line stays until no backup is left that needs it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction

from tracebudget import models
from tracebudget.keys import make_once

Config = Mapping[str, Any]


class VaultError(Exception):
    """The key that sealed a channel is not in the key file."""


def seal(config: Config) -> bytes:
    return _fernet().encrypt(json.dumps(config, sort_keys=True).encode())


def unseal(channel: models.Channel) -> dict[str, Any]:
    """The config of a channel. Raises VaultError without its key."""
    try:
        config: dict[str, Any] = json.loads(_fernet().decrypt(bytes(channel.config)))
    except InvalidToken:
        raise VaultError(
            f"No key in {settings.CHANNEL_KEY_FILE} opens the channel {channel.name!r}. "
            "Restore the file, or enter the channel anew."
        ) from None
    return config


def rotate(*, keep_old: bool) -> int:
    """Seal every channel under a new key. How many. Safe to repeat when it was cut off.

    The new key is on top of the file before the first channel needs it. Raises VaultError, and
    changes no channel, when one cannot be opened.
    """
    new = Fernet.generate_key()
    _write([new, *_keys()])
    count = _seal_all_anew()
    if not keep_old:
        _write([new])
    return count


@transaction.atomic
def _seal_all_anew() -> int:
    channels = models.Channel.objects.filter(removed_at=None).select_for_update()
    for channel in channels:
        channel.config = seal(unseal(channel))
        channel.save(update_fields=["config"])
    return len(channels)


def _fernet() -> MultiFernet:
    """Read anew each time: deliveries are rare, and a rotation needs no restart."""
    try:
        return MultiFernet([Fernet(key) for key in _keys()])
    except ValueError as error:
        raise ImproperlyConfigured(
            f"{settings.CHANNEL_KEY_FILE} must hold one Fernet key a line: {error}. Restore it."
        ) from None


def _keys() -> list[bytes]:
    path = Path(settings.CHANNEL_KEY_FILE)
    if not path.exists():
        make_once(path, Fernet.generate_key() + b"\n")
    return path.read_bytes().split()


def _write(keys: list[bytes]) -> None:
    """Replace the file, whole or not at all."""
    path = Path(settings.CHANNEL_KEY_FILE)
    unfinished = path.with_name(f"{path.name}.new")
    unfinished.unlink(missing_ok=True)
    with open(unfinished, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(b"\n".join(keys) + b"\n")
        os.fsync(file.fileno())
    unfinished.replace(path)
