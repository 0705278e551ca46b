"""What an app's owner declares about it: the gateway's settings and the nature of its tools."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Declared:
    """Declared settings; None where nothing is declared. Tools go by the names of their spans."""

    max_parallel: int | None = None
    tool_timeout_ns: int | None = None
    result_ttl_ns: int | None = None
    read_only: frozenset[str] = frozenset()  # results may be cached
    dependent: frozenset[str] = frozenset()  # need the result of the tool before them


NOTHING_DECLARED = Declared()
