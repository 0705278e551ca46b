"""Token counts, normalised: input is the whole prompt, cached input its part that was not computed
again.

A missing count is None, never 0. Negative, fractional or absurd counts are refused; `refused` names
their keys.
"""

from __future__ import annotations

from typing import Any, Final

from tracebudget.core.dialects.facts import SpanFacts
from tracebudget.core.record import record

INPUT: Final = "input_tokens"
OUTPUT: Final = "output_tokens"
TOTAL: Final = "total_tokens"
CACHE_READ: Final = "cache_read_tokens"
CACHE_WRITE: Final = "cache_write_tokens"
REASONING: Final = "reasoning_tokens"
NO_COUNTS: dict[str, int | None] = dict.fromkeys(
    (INPUT, OUTPUT, TOTAL, CACHE_READ, CACHE_WRITE, REASONING)
)
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
    values, counts = facts.values, NO_COUNTS.copy()
    refused: tuple[str, ...] = ()
    for fact in NO_COUNTS:
        if fact in values:
            told = values[fact]
            if type(told) is not int or not 0 <= told <= ABSURD:
                told = count(told)
                if told is None:
                    refused += (facts.source(fact).where,)
            counts[fact] = told
    if facts.dialect.zero_cache_is_unknown and not counts[CACHE_READ]:
        counts[CACHE_READ] = None
    return Tokens(
        input=_input(counts, facts),
        cached_input=counts[CACHE_READ],
        output=_output(counts) if counts[REASONING] else counts[OUTPUT],
        reasoning=counts[REASONING],
        refused=refused,
    )


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


def _input(counts: dict[str, int | None], facts: SpanFacts) -> int | None:
    """The whole prompt: with what the cache served, where the count leaves that out."""
    told, cached = counts[INPUT], (counts[CACHE_READ] or 0) + (counts[CACHE_WRITE] or 0)
    if told is None or not cached:
        return told
    return told + cached if _cache_is_outside(counts, facts) else told


def _cache_is_outside(counts: dict[str, int | None], facts: SpanFacts) -> bool:
    """The key of the input count says so, the dialect does, or the numbers."""
    says = facts.source(INPUT).includes_cache
    if says is not None:
        return not says
    if facts.dialect.input_includes_cache == "no":
        return True
    told, read = counts[INPUT] or 0, counts[CACHE_READ] or 0
    cached = read + (counts[CACHE_WRITE] or 0)
    return read > told or counts[TOTAL] == told + (counts[OUTPUT] or 0) + cached


def _output(counts: dict[str, int | None]) -> int | None:
    """Reasoning tokens are a part of output; where they were left out, the total shows it."""
    output, reasoning = counts[OUTPUT], counts[REASONING]
    if output is None or reasoning is None or reasoning <= output:
        return output
    left_out = counts[TOTAL] == (counts[INPUT] or 0) + output + reasoning
    return output + reasoning if left_out else output
