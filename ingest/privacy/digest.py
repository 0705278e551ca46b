"""Keyed digests: two values are equal where theirs are, and nothing more can be told from them."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import orjson

Digest = Callable[[bytes], str]

DIGEST_BYTES = 8
PSEUDONYM = "anon-"  # how one begins


def keyed_digest(key: bytes, project_id: int) -> Digest:
    """Digests that compare inside one project only."""
    person = project_id.to_bytes(blake2b.PERSON_SIZE, "big")
    keyed = blake2b(digest_size=DIGEST_BYTES, key=key, person=person)

    def digest(data: bytes) -> str:
        one = keyed.copy()
        one.update(data)
        return one.hexdigest()

    return digest


def pseudonym(value: Any, digest: Digest) -> str:
    """Stable in its project, so that requests still join to sessions.

    Pages show pseudonyms, and no digests: a value has a digest of its own beside its pseudonym.
    """
    data = value.encode() if isinstance(value, str) else orjson.dumps(value)
    return f"{PSEUDONYM}{digest(PSEUDONYM.encode() + data)}"
