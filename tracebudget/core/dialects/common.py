"""Rules that hold whatever the dialect, read from `common.toml`."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from importlib import resources
from typing import Any

from tracebudget.core.dialects.table import Candidate, read_candidate

_TABLE: dict[str, Any] = tomllib.loads(
    (resources.files("tracebudget.core.dialects") / "common.toml").read_text("utf-8")
)
_CONTENT = _TABLE["content"]

SESSION_KEYS: tuple[str, ...] = tuple(_TABLE["session_keys"])
TTFT_FALLBACK: tuple[Candidate, ...] = tuple(map(read_candidate, _TABLE["ttft_fallback"]))
HTTP_STATUS: tuple[Candidate, ...] = tuple(map(read_candidate, _TABLE["http_status"]))
PROMPTS: tuple[Candidate, ...] = tuple(map(read_candidate, _TABLE["prompts"]))
ANSWERS: tuple[Candidate, ...] = tuple(map(read_candidate, _TABLE["answers"]))
PLAIN_KEYS = frozenset(_TABLE["plain_keys"])
RESOURCE_KEYS = frozenset(_TABLE["resource_keys"])
IDENTITY_KEYS = frozenset(_CONTENT["identity"])

_CONTENT_KEYS = frozenset(_CONTENT["exact"])
_CONTENT_PREFIXES: tuple[str, ...] = tuple(_CONTENT["prefix"])
_CONTENT_SUFFIXES: tuple[str, ...] = tuple(_CONTENT["suffix"])
_NOT_CONTENT = frozenset(_CONTENT["not_content"])
_FRAMEWORKS = frozenset(_TABLE["provider_is_framework"])
_SUFFIXES: tuple[str, ...] = tuple(_TABLE["provider_suffixes"])
_ALIASES: dict[str, str] = _TABLE["provider_aliases"]


def is_content(key: str) -> bool:
    """The attribute may hold a prompt, an answer, arguments or a result."""
    if key in _NOT_CONTENT:
        return False
    return (
        key in _CONTENT_KEYS or key.startswith(_CONTENT_PREFIXES) or key.endswith(_CONTENT_SUFFIXES)
    )


@lru_cache(maxsize=256)  # the field's values are few
def provider_name(raw: str) -> str | None:
    """One spelling per provider; None where the field names the framework instead."""
    if raw in _FRAMEWORKS:
        return None
    for suffix in _SUFFIXES:
        raw = raw.removesuffix(suffix)
    return _ALIASES.get(raw, raw) or None
