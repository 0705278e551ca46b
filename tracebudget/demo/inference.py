"""An inference service: so many calls at once, prefill from what its cache does not hold, decode
token by token, a network before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heapreplace
from random import Random

from tracebudget.demo.fault import Cache, Conditions
from tracebudget.demo.prompt import Prompt
from tracebudget.demo.work import Ask, Call, Serving

MS, SECOND = 1_000_000, 1_000_000_000

CACHE_BLOCK = 16  # tokens: caches hold whole blocks
CACHE_NS = 3_600 * SECOND  # a prefix that nobody used for so long is gone
CROWD = 0.04  # each other call in the batch makes a token so much slower
JITTER = 0.12  # relative, of the time between two tokens
HALT_EVERY, HALT_FACTOR = 8, 9  # halting decode: a burst of tokens, then a pause
REFUSAL_NS = 45 * MS  # how long a rate limiter thinks


@dataclass(frozen=True, slots=True)
class Model:
    """Prefill takes `base_ns` and `per_token_ns` for each token not cached; then each token its
    `tpot_ns`.
    """

    name: str
    base_ns: int
    per_token_ns: int
    tpot_ns: int


@dataclass(frozen=True, slots=True)
class Question:
    """What an agent sends, and what it will get."""

    model: Model
    prompt: Prompt
    output_tokens: int
    text: str = ""
    asks: tuple[Ask, ...] = ()
    is_streamed: bool = True


class Inference:
    """One service, shared by all that call it. Calls must come in order of time.

    `is_traced`: its servers send spans of their own.
    """

    def __init__(self, provider: str, *, slots: int, network_ns: int, is_traced: bool) -> None:
        self.provider = provider
        self.network_ns = network_ns
        self.is_traced = is_traced
        self.free_at = [0] * slots  # a heap: when each slot falls free
        self.used_at: dict[Prompt, int] = {}
        heapify(self.free_at)

    def occupy(self, at: int, duration: int) -> None:
        """Somebody else's call, of which we only feel that it takes a slot."""
        heapreplace(self.free_at, max(at, self.free_at[0]) + duration)

    def refuse(self, at: int, question: Question, session: str) -> Call:
        """A call over the rate limit."""
        return Call(
            at, at + 2 * self.network_ns + REFUSAL_NS, self.provider, question.model.name,
            question.prompt, question.prompt, 0, 0, "", (), (), session, error="RateLimitError",
        )  # fmt: skip

    def answer(
        self, at: int, question: Question, *, session: str, rng: Random, conditions: Conditions
    ) -> Call:
        """The call that a question sent at a moment becomes."""
        model, prompt = question.model, question.prompt
        arrived = at + self.network_ns + conditions.gateway_ns
        start = max(arrived, self.free_at[0])
        cached = 0 if conditions.cache == Cache.OFF else self._cached_tokens(prompt, start)
        prefill = model.base_ns + model.per_token_ns * (prompt.tokens - cached)
        prefill *= conditions.prefill_factor
        times = self._token_times(start + prefill, question, rng, conditions)
        heapreplace(self.free_at, times[-1])
        after = prompt.plus("assistant", question.text, question.output_tokens)
        self.used_at[prompt] = self.used_at[after] = times[-1]
        chunks = [moment + self.network_ns for moment in times]
        serving = Serving(arrived, times[-1], start - arrived, prefill)
        return Call(
            start=at,
            end=chunks[-1],
            provider=self.provider,
            model=model.name,
            prompt=prompt,
            after=after,
            cached_tokens=cached,
            output_tokens=question.output_tokens,
            text=question.text,
            asks=question.asks,
            chunks=tuple(chunks) if question.is_streamed else (),
            session=session,
            serving=serving if self.is_traced else None,
        )

    def _cached_tokens(self, prompt: Prompt, at: int) -> int:
        """The longest prefix that somebody sent not long ago, in whole blocks."""
        known: Prompt | None = prompt
        while known is not None:
            used_at = self.used_at.get(known)
            if used_at is not None and at - used_at < CACHE_NS:
                self.used_at[known] = at
                return known.tokens // CACHE_BLOCK * CACHE_BLOCK
            known = known.before
        self._remember_first(prompt, at)
        return 0

    def _remember_first(self, prompt: Prompt, at: int) -> None:
        """Instructions and tool definitions are what different conversations share."""
        self.used_at[prompt.messages()[0]] = at

    def _token_times(
        self, first: int, question: Question, rng: Random, conditions: Conditions
    ) -> list[int]:
        """When each token is there. The batch that it is decoded in slows it down."""
        crowd = sum(1 for moment in self.free_at if moment > first)
        tpot = question.model.tpot_ns * conditions.tpot_factor * (1 + CROWD * crowd)
        times = [first]
        for number in range(1, question.output_tokens):
            halts = conditions.halting and number % HALT_EVERY == 0
            gap = tpot * (1 + JITTER * rng.uniform(-1, 1)) * (HALT_FACTOR if halts else 1)
            times.append(times[-1] + round(gap))
        return times
