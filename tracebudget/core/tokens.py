"""Token counts, normalised: input is the whole prompt, cached input its part that was not computed
again.

A missing count is None, never 0. Negative, fractional or absurd counts are refused; `refused` names
their keys.
"""

from __future__ import annotations

from typing import Any, Final

from tracebudget.core.dialects.facts import SpanFacts
from tracebudget.core.dialects.table import Dialect
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
    refused: list[str] = []
    counts = NO_COUNTS.copy()
    for fact in NO_COUNTS:
        if fact in facts.values:
            counts[fact] = count(facts.values[fact])
            if counts[fact] is None:
                refused.append(facts.sources[fact].where)
    source = facts.sources.get(INPUT)
    includes_cache = source.includes_cache if source is not None else None
    if facts.dialect.zero_cache_is_unknown and not counts[CACHE_READ]:
        counts[CACHE_READ] = None
    output = _output(counts)
    return Tokens(
        input=_input(counts, output, _cache_is_outside(counts, includes_cache, facts.dialect)),
        cached_input=counts[CACHE_READ],
        output=output,
        reasoning=counts[REASONING],
        refused=tuple(refused),
    )


def count(value: Any) -> int | None:
    """A whole number of tokens out of 120, 120.0, "120" or "120.0"; None for anything else."""
    if type(value) is int:
        return value if 0 <= value <= ABSURD else None
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= ABSURD:
        return None
    return int(value) if value == int(value) else None


def _cache_is_outside(counts: dict[str, int | None], says: bool | None, dialect: Dialect) -> bool:
    """The input count leaves out what the cache served: the key says so, or the numbers do."""
    if says is not None:
        return not says
    if dialect.input_includes_cache == "no":
        return True
    read, write = counts[CACHE_READ] or 0, counts[CACHE_WRITE] or 0
    if counts[INPUT] is None or not read + write:
        return False
    adds_up = counts[TOTAL] == counts[INPUT] + (counts[OUTPUT] or 0) + read + write
    return read > counts[INPUT] or adds_up


def _input(counts: dict[str, int | None], output: int | None, cache_is_outside: bool) -> int | None:
    if counts[INPUT] is None:
        return None
    if not cache_is_outside:
        return counts[INPUT]
    return counts[INPUT] + (counts[CACHE_READ] or 0) + (counts[CACHE_WRITE] or 0)


def _output(counts: dict[str, int | None]) -> int | None:
    """Reasoning tokens are a part of output; where they were left out, the total shows it."""
    output, reasoning = counts[OUTPUT], counts[REASONING]
    if output is None or reasoning is None or reasoning <= output:
        return output
    left_out = counts[TOTAL] == (counts[INPUT] or 0) + output + reasoning
    return output + reasoning if left_out else output
