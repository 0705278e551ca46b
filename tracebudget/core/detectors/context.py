"""Step 4 of the investigation: does the context grow turn by turn, and is it computed again each
time?
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from tracebudget.core.budget import known_ttft_ns
from tracebudget.core.finding import Case, Finding, Trait, Unknown, detector, performance
from tracebudget.core.replay import Change, saving_ns
from tracebudget.core.run import Run, Turn
from tracebudget.core.tree import Node

MS = 1_000_000

MIN_TURNS = 3  # two points make no trend
GROWTH = 1.5  # input against turn 0
TTFT_RISE_NS, TTFT_RISE_SHARE = 20 * MS, 0.20  # less is noise
RISING_SHARE = 0.75  # of all pairs of turns the later one is no faster: else it is noise
SMALL_CACHED_SHARE = 0.5  # with half of the prompt from the cache, growth is being handled
MIN_PREFIX_TOKENS = 1024  # what the large providers cache at the least
JUMP_TOKENS, JUMP_SHARE = 1_000, 0.5  # one result that makes the next prompt this much longer


@detector("context_growth", step=4, needs=(Trait.SEVERAL_TURNS,))
def context_growth(case: Case) -> Iterator[Finding | Unknown]:
    """First turn fast, later turns slower: the context grows, the KV cache is not reused (T-1)."""
    for rounds in case.rounds:
        if len(rounds.calls) < MIN_TURNS:
            continue
        calls = [call for call in rounds.calls if call.facts.tokens.input is not None]
        if len(calls) < MIN_TURNS:
            yield Unknown("tokens_unknown")
            continue
        before, after = calls[0].facts.tokens, calls[-1].facts.tokens
        if (after.input or 0) < GROWTH * (before.input or 0):
            continue
        ttfts = [known_ttft_ns(call) for call in calls]
        if ttfts[0] is None or ttfts[-1] is None:
            yield Unknown("ttft_unknown")
            continue
        rise, cached = ttfts[-1] - ttfts[0], after.cached_input
        if (
            rise < TTFT_RISE_NS
            or rise < TTFT_RISE_SHARE * ttfts[0]
            or (cached or 0) >= SMALL_CACHED_SHARE * (after.input or 1)
            or not _keeps_rising([ttft for ttft in ttfts if ttft is not None])
        ):
            continue
        yield _growth(case, calls, rounds.run, ttfts[0], ttfts[-1])


def _keeps_rising(values: Sequence[int]) -> bool:
    pairs = list(itertools.combinations(values, 2))
    return sum(later >= earlier for earlier, later in pairs) >= RISING_SHARE * len(pairs)


def _growth(case: Case, calls: list[Node], run: Run, ttft_before: int, ttft_after: int) -> Finding:
    per_token = case.slope_ns
    base = calls[0].facts.tokens.uncached_input or 0
    extra = {c: max(0, (c.facts.tokens.uncached_input or 0) - base) for c in calls}
    change = Change(
        shorter={
            call: min(round((per_token or 0) * tokens), known_ttft_ns(call) or 0)
            for call, tokens in extra.items()
        }
    )
    tokens = calls[-1].facts.tokens
    return performance(
        case,
        "context_growth",
        calls,
        turn=calls[-1].turn,
        saving_ns=saving_ns(case.report, change) if per_token is not None else None,
        turns=len(calls),
        first_input_tokens=calls[0].facts.tokens.input,
        last_input_tokens=tokens.input,
        first_ttft_ns=ttft_before,
        last_ttft_ns=ttft_after,
        ns_per_1000_tokens=round(per_token * 1000) if per_token is not None else None,
        cached_input_tokens=tokens.cached_input,
        agent=run.name,
    )


@detector("prefix_cache_unused", step=4, needs=(Trait.SEVERAL_TURNS,))
def prefix_cache_unused(case: Case) -> Iterator[Finding | Unknown]:
    """The same prefix again, and the service reports that none of it came from its cache."""
    unknown = False
    for rounds in case.rounds:
        missed: list[tuple[Node, int, int]] = []
        for earlier, call in itertools.pairwise(rounds.calls):
            cached = call.facts.tokens.cached_input
            is_told = cached or (cached is None and unknown)
            repeated = 0 if is_told else repeated_tokens(earlier, call)
            if repeated and cached == 0:
                missed.append((call, repeated, call.start - earlier.end))
            unknown |= repeated > 0 and cached is None
        if missed:
            yield _cache_unused(case, rounds.run, missed)
    if unknown:
        yield Unknown("cached_tokens_unknown")


def repeated_tokens(earlier: Node, call: Node) -> int:
    """How many tokens of the earlier prompt stand at the beginning of this one: all of them, or 0
    if nothing says so, or they are too few to be cached.
    """
    one, two = earlier.facts, call.facts
    if one.tokens.input is None or one.tokens.input < MIN_PREFIX_TOKENS or one.model != two.model:
        return 0
    if two.tokens.input is None or two.tokens.input < one.tokens.input:
        return 0
    before = earlier.step.prompt if earlier.step is not None else None
    now = call.step.prompt if call.step is not None else None
    if before is not None and now is not None and len(before) > 1 and len(now) > 1:
        return one.tokens.input if before[-1] in now else 0
    return one.tokens.input


def _cache_unused(case: Case, run: Run, missed: list[tuple[Node, int, int]]) -> Finding:
    per_token = case.slope_ns
    change = Change(
        shorter={
            call: min(round((per_token or 0) * tokens), known_ttft_ns(call) or call.duration)
            for call, tokens, _ in missed
        }
    )
    return performance(
        case,
        "prefix_cache_unused",
        [call for call, _, _ in missed],
        turn=missed[0][0].turn,
        saving_ns=saving_ns(case.report, change) if per_token is not None else None,
        calls=len(missed),
        repeated_tokens=sum(tokens for _, tokens, _ in missed),
        longest_idle_ns=max(idle for _, _, idle in missed),
        agent=run.name,
    )


@detector("tool_result_inflates_context", step=4, needs=(Trait.SEVERAL_TURNS,))
def tool_result_inflates_context(case: Case) -> Iterator[Finding | Unknown]:
    """One tool's result makes the next prompt, and so the next prefill, long."""
    for rounds in case.rounds:
        pairs = itertools.pairwise(rounds.openers)
        for turn, (call, following) in zip(rounds.turns, pairs, strict=False):
            if len(turn.tools) == 1 and call is not None and following is not None:
                item = _inflated(case, turn, call, following)
                if item is not None:
                    yield item


def _inflated(case: Case, turn: Turn, call: Node, following: Node) -> Finding | Unknown | None:
    before, after = call.facts.tokens.input, following.facts.tokens.input
    if before is None or after is None:
        return Unknown("tokens_unknown")
    if after - before < JUMP_TOKENS or after - before < JUMP_SHARE * before:
        return None
    tool, per_token = turn.tools[0], case.slope_ns
    cut = min(
        round((per_token or 0) * (after - before - JUMP_TOKENS)),
        known_ttft_ns(following) or following.duration,
    )
    change = Change(shorter={following: cut})
    return performance(
        case,
        "tool_result_inflates_context",
        [tool, following],
        turn=following.turn,
        saving_ns=saving_ns(case.report, change) if per_token is not None else None,
        tool=tool.step.name if tool.step is not None else "",
        added_tokens=after - before,
        before_tokens=before,
        after_tokens=after,
    )
