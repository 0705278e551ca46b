"""The fit on a simulated day: its queues, caches and faults, with the first tokens hidden."""

from __future__ import annotations

from collections import defaultdict
from statistics import median

import pytest

from tests.demo.conftest import Seen
from tracebudget.core.fit import SHARE, Sample, fit_calls
from tracebudget.core.tokens import Tokens
from tracebudget.demo.day import calls_of
from tracebudget.demo.work import Call

MIN_CALLS = 30


def calls_by_model(day: list[Seen]) -> dict[tuple[str, str], list[Call]]:
    """The calls that succeeded, by app and model."""
    found: defaultdict[tuple[str, str], list[Call]] = defaultdict(list)
    for seen in day:
        for call in calls_of(seen.request.root):
            if not call.error:
                found[seen.request.app, call.model].append(call)
    return found


@pytest.mark.parametrize("known", [0, 4], ids=["all hidden", "a quarter known"])
def test_hidden_first_tokens_are_inferred(day: list[Seen], known: int) -> None:
    """On each app and model with 30 calls: within 12 % in the median, and the interval holds."""
    tried = 0
    for calls in calls_by_model(day).values():
        told = [call.ttft_ns if known and n % known == 0 else None for n, call in enumerate(calls)]
        fit = fit_calls([sample_of(c, ttft) for c, ttft in zip(calls, told, strict=True)])
        if len(calls) < MIN_CALLS:
            continue
        assert fit is not None
        hidden = [c for c, t in zip(calls, told, strict=True) if t is None and c.ttft_ns]
        made = [(fit.estimate(tokens_of(c), c.end - c.start), c.ttft_ns or 0) for c in hidden]
        answers = [(e, truth) for e, truth in made if e is not None]
        assert len(answers) > 0.8 * len(hidden)
        assert median(abs(e.prefill_ns - truth) / truth for e, truth in answers) <= 0.12
        assert sum(e.low_ns <= t <= e.high_ns for e, t in answers) >= SHARE * len(answers)
        tried += 1
    assert tried == 4


def sample_of(call: Call, ttft_ns: int | None) -> Sample:
    uncached = call.prompt.tokens - call.cached_tokens
    return Sample(uncached, call.output_tokens, call.end - call.start, ttft_ns)


def tokens_of(call: Call) -> Tokens:
    return Tokens(call.prompt.tokens, call.cached_tokens, call.output_tokens)
