"""Made-up inference services whose law is known, to hold the fit against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log
from random import Random

from tests.builders import MS
from tracebudget.core.fit import Sample

Tokens = tuple[int, int]  # uncached input, output


@dataclass(frozen=True)
class Call:
    """A call as a client sees it, and what it cannot see."""

    sample: Sample
    prefill_ns: int


@dataclass(frozen=True)
class Service:
    """Prefill `a_ms + b_ms * uncached`, decode `c_ms * (output - 1)`; each off by a factor of its
    own, `jitter` wide. `queued` of the calls wait, 300 ms in the mean; `known` of them tell TTFT.
    """

    a_ms: float = 80
    b_ms: float = 0.05
    c_ms: float = 8
    jitter: float = 0.1
    queued: float = 0.0
    known: float = 0.0

    def calls(self, count: int, *, seed: int, tokens: Callable[[Random], Tokens]) -> list[Call]:
        rng = Random(seed)
        return [self._call(rng, *tokens(rng)) for _ in range(count)]

    def _call(self, rng: Random, uncached: int, output: int) -> Call:
        prefill = (self.a_ms + self.b_ms * uncached) * exp(rng.gauss(0, self.jitter))
        prefill += rng.expovariate(1 / 300) if rng.random() < self.queued else 0
        decode = self.c_ms * (output - 1) * exp(rng.gauss(0, self.jitter))
        prefill_ns = round(prefill * MS)
        told = prefill_ns if rng.random() < self.known else None
        return Call(Sample(uncached, output, round((prefill + decode) * MS), told), prefill_ns)


def free(rng: Random) -> Tokens:
    """Prompts of 200 to 8,000 tokens, answers of 20 to 300, neither knowing of the other."""
    return round(exp(rng.uniform(log(200), log(8000)))), rng.randint(20, 300)


def tied(rng: Random) -> Tokens:
    """The longer the prompt, the longer the answer."""
    uncached, _ = free(rng)
    return uncached, uncached // 20


def one_answer(rng: Random) -> Tokens:
    uncached, _ = free(rng)
    return uncached, 100


def one_prompt(rng: Random) -> Tokens:
    return 1000, rng.randint(20, 300)
