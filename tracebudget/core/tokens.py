"""Token counts, normalised: input is the whole prompt, cached input its part that was not computed
again.

A missing count is None, never 0. Negative, fractional or absurd counts are refused; `refused` names
their keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tracebudget.core.dialects.facts import SpanFacts
from tracebudget.core.record import record

INPUT: Final = "input_tokens"
OUTPUT: Final = "output_tokens"
TOTAL: Final = "total_tokens"
CACHE_READ: Final = "cache_read_tokens"
CACHE_WRITE: Final = "cache_write_tokens"
REASONING: Final = "reasoning_tokens"
COUNTS = (INPUT, OUTPUT, TOTAL, CACHE_READ, CACHE_WRITE, REASONING)
ABSURD = 100_000_000  # tokens in one call: a hundred times the longest context window on offer


@record
class Tokens:
    input: int | None = None
    cached_input: int | None = None
    output: int | None = None
    reasoning: int | None = None
    refused: tuple[str, ...] = ()

    @property
    def uncached_input(self) -> int | None:
        """What the server had to compute; the whole input where no cached count is known."""
        return None if self.input is None else max(0, self.input - (self.cached_input or 0))


def read_tokens(facts: SpanFacts) -> Tokens:
    """The counts of one call in the product's meaning."""
    counts = list(map(facts.values.get, COUNTS))
    refused: tuple[str, ...] = ()
    for told in counts:
        if told is not None and (type(told) is not int or not 0 <= told <= ABSURD):
            counts, refused = _mended(counts, facts)
            break
    prompt, output, total, read, written, reasoning = counts
    if not read and facts.dialect.zero_cache_is_unknown:
        read = None
    whole = prompt
    if prompt is not None and (read or written):
        cached = (read or 0) + (written or 0)
        is_shown = (read or 0) > prompt or total == prompt + (output or 0) + cached
        if _cache_is_outside(facts, is_shown):
            whole = prompt + cached
    if output is not None and (reasoning or 0) > output:  # it should be a part of it
        left_out = total == (prompt or 0) + output + reasoning
        output += reasoning if left_out else 0
    return Tokens(whole, read, output, reasoning, refused)


def _cache_is_outside(facts: SpanFacts, is_shown: bool) -> bool:
    """The input count leaves out what the cache served: its key says so, else the dialect does, or
    the numbers show it.
    """
    says = facts.source(INPUT).includes_cache
    if says is not None:
        return not says
    return is_shown or facts.dialect.input_includes_cache == "no"


def _mended(told: Sequence[Any], facts: SpanFacts) -> tuple[list[int | None], tuple[str, ...]]:
    """The counts as whole numbers, and the places of those that are none."""
    counts = [None if value is None else count(value) for value in told]
    refused = [
        facts.source(fact).where
        for fact, value, number in zip(COUNTS, told, counts, strict=True)
        if number is None and value is not None
    ]
    return counts, tuple(refused)


def count(value: Any) -> int | None:
    """A whole number of tokens out of 120, 120.0, "120" or "120.0"; None for anything else."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= ABSURD:
        return None
    return int(value) if value == int(value) else None
