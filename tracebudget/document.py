"""The analysis object as text: one canonical form for row, API and command line."""

from __future__ import annotations

import json
from typing import Any

import orjson


def dumps(document: dict[str, Any]) -> bytes:
    """UTF-8 JSON without blanks, keys as they stand; equal for equal documents.

    What only the standard library can write takes that way: names with half a surrogate pair, and
    sums of absurd times beyond 64 bits.
    """
    try:
        return orjson.dumps(document)
    except TypeError:
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")


def loads(text: bytes) -> dict[str, Any]:
    """The object again."""
    try:
        document: dict[str, Any] = orjson.loads(text)
    except orjson.JSONDecodeError:
        document = json.loads(text)
    return document
