"""Short digests: they show that two texts are equal, nothing more."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import blake2b

Fingerprint = Callable[[bytes], str]

canonical = json.JSONEncoder(sort_keys=True, default=str).encode


def fingerprint(data: bytes) -> str:
    """The unkeyed fingerprint, for content that is here anyway."""
    return blake2b(data, digest_size=8).hexdigest()
