"""Step 4: does the context grow turn by turn, and is it computed again each time?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.builders import Branch, agent, chat, ns, tool
from tests.core.detectors.proof import FIRES, SILENT, UNKNOWN, proves
from tests.core.reading import analyzed, cannot_tell, diagnoses, difference, found, ms, triage
from tracebudget.core.fit import CallFit
from tracebudget.core.profile import Profile

DECODE = 100  # ms of every answer below
PER_TOKEN = Profile(fits={"m": CallFit(0, 0.04e6, 0, 40)})  # 40 ms a thousand tokens


def conversation(*calls: tuple[int, float | None], **facts: Sequence[Any]) -> Branch:
    """An agent that does nothing but ask: (input tokens, TTFT) of each call, one after another.
    `facts`: more of each call.
    """
    at, branches = 0.0, []
    for index, (tokens, ttft) in enumerate(calls):
        until = at + (ttft or 0) + DECODE
        more = {name: values[index] for name, values in facts.items()}
        branches.append(
            chat(at, until, input=tokens, output=20, ttft=ttft, id=f"call {index}", **more)
        )
        at = until
    return agent(0, at, *branches, id="a")


# --- context_growth (T-1) -------------------------------------------------------------------------

GROWING = ((1000, 60), (2250, 112.5), (3500, 165), (4750, 217.5), (6000, 270))


@proves("context_growth", FIRES, SILENT)
def test_growth_of_the_golden_case() -> None:
    """Input 1,000 -> 6,000 over five turns with TTFT 60 -> 270 ms: 42 ms a thousand tokens."""
    faulty, twin = analyzed(conversation(*GROWING)), analyzed(conversation(*[(1000, 60)] * 5))
    finding = diagnoses(faulty)["context_growth"]
    assert finding["evidence"] == {
        "turns": 5,
        "first_input_tokens": 1000,
        "last_input_tokens": 6000,
        "first_ttft_ns": ns(60),
        "last_ttft_ns": ns(270),
        "ns_per_1000_tokens": ns(42),
        "cached_input_tokens": None,
        "agent": "support",
    }
    assert (finding["step"], finding["turn"]) == (4, 4)
    assert finding["span_ids"] == [f"call {n}" for n in range(5)]
    assert finding["saving_ns"] == difference(faulty, twin) == ns(525)
    assert "context_growth" not in diagnoses(twin)


@pytest.mark.parametrize(
    "calls",
    [
        GROWING[::4],
        ((1000, 60), (1200, 150), (1499, 270)),
        ((1000, 60), (3000, 70), (6000, 79)),
        ((1000, 200), (3000, 220), (6000, 239)),
        ((1000, 183), (2400, 294), (3800, 206), (5200, 282), (6600, 234)),
    ],
    ids=["two turns", "input grows less", "less than 20 ms", "less than 20 %", "to and fro"],
)
def test_growth_is_silent(calls: tuple[tuple[int, float], ...]) -> None:
    assert found("context_growth", conversation(*calls)) is None


def test_growth_bears_one_turn_that_is_out_of_line() -> None:
    """In nine of ten pairs of turns the later one is slower."""
    calls = ((1000, 60), (2250, 170), (3500, 165), (4750, 217), (6000, 270))
    assert found("context_growth", conversation(*calls)) is not None


def test_half_as_much_again_is_growth() -> None:
    assert found("context_growth", conversation((1000, 60), (1200, 150), (1500, 270))) is not None


@pytest.mark.parametrize(("cached", "fires"), [(2999, True), (3000, False)])
def test_growth_that_a_cache_carries_is_none(cached: int, fires: bool) -> None:
    calls = conversation(*GROWING[::2], cached=[0, 0, cached])
    assert (found("context_growth", calls) is not None) is fires


def test_growth_saves_uncached_tokens_alone() -> None:
    """The slope is the same for both requests; 2,000 of the last prompt came from the cache."""
    calls = ((1000, 100), (3000, 180), (5000, 180))
    finding = found("context_growth", conversation(*calls, cached=[0, 0, 2000]), profile=PER_TOKEN)
    assert finding is not None
    assert finding["evidence"]["ns_per_1000_tokens"] == ns(40)
    assert finding["saving_ns"] == ns(80 + 80)


@pytest.mark.parametrize("known", [{}, {"profile": Profile({"m": CallFit(0, 0, 1e6, 40)})}])
@proves("context_growth", UNKNOWN)
def test_growth_is_unknown_without_first_tokens(known: dict[str, Any]) -> None:
    """An inferred one is for reading."""
    document = analyzed(conversation(*[(tokens, None) for tokens, _ in GROWING]), **known)
    assert "context_growth" not in diagnoses(document)
    assert triage(document, 4) == ("unknown", "ttft_unknown")


@proves("context_growth", UNKNOWN)
def test_growth_is_unknown_without_counts() -> None:
    request_ = agent(
        0, 600, *(chat(200 * n, 200 * n + 200, ttft=50 + 40 * n, output=20) for n in range(3))
    )
    assert cannot_tell("context_growth", request_) == ["tokens_unknown"]
    assert triage(analyzed(request_), 4) == ("unknown", "tokens_unknown")


def test_growth_without_a_slope_saves_nobody_knows_how_much() -> None:
    """The first token of the middle calls is unknown: two points make no slope."""
    finding = found("context_growth", conversation(GROWING[0], (3500, None), GROWING[4]))
    assert finding is not None
    assert finding["saving_ns"] is None


def test_growth_is_judged_within_one_run() -> None:
    """Two agents of two turns each are no trend."""
    one = conversation(*GROWING[:2])
    document = analyzed(
        agent(0, 1000, one, agent(500, 900, chat(500, 700, ttft=170, input=3500, output=20),
                                  chat(700, 900, ttft=190, input=4750, output=20), id="b"))
    )  # fmt: skip
    assert "context_growth" not in diagnoses(document)


def test_failed_attempts_are_no_rounds() -> None:
    """A 429 has no TTFT; the attempt that came through opened the turn."""
    tried = (chat(-20, -10, error="429"), *conversation(*GROWING).children)
    finding = found("context_growth", agent(-20, 2000, *tried))
    assert finding is not None
    assert finding["evidence"]["turns"] == 5


# --- prefix_cache_unused --------------------------------------------------------------------------

PROMPTS = [["system", "one"], ["system", "one", "two"]]


def asked_again(
    cached: Sequence[int | None] = (0, 0),
    prompts: Sequence[Sequence[str] | None] = PROMPTS,
    *,
    tokens: tuple[int, int] = (2000, 3000),
    ttfts: tuple[float, float] = (80, 120),
    **facts: Sequence[Any],
) -> Branch:
    return conversation(*zip(tokens, ttfts, strict=True), cached=cached, prompt=prompts, **facts)


@proves("prefix_cache_unused", FIRES, SILENT)
def test_a_prefix_that_was_sent_before_and_not_cached() -> None:
    """2,000 tokens again, at 40 ms a thousand."""
    faulty = analyzed(asked_again(), profile=PER_TOKEN)
    twin = analyzed(asked_again((0, 2000), ttfts=(80, 40)), profile=PER_TOKEN)
    finding = diagnoses(faulty)["prefix_cache_unused"]
    assert finding["evidence"] == {
        "calls": 1,
        "repeated_tokens": 2000,
        "longest_idle_ns": 0,
        "agent": "support",
    }
    assert finding["saving_ns"] == difference(faulty, twin) == ns(80)
    assert "prefix_cache_unused" not in diagnoses(twin)


@pytest.mark.parametrize(
    "request_",
    [
        asked_again((0, 1)),
        asked_again(tokens=(1023, 2000)),
        asked_again(prompts=[["system", "one"], ["other", "one", "two"]]),
        asked_again(tokens=(2000, 1999)),
        asked_again(model=["m", "n"]),
    ],
    ids=["some was cached", "too short to cache", "another prefix", "shorter", "another model"],
)
def test_the_prefix_cache_is_used_or_could_not_be(request_: Branch) -> None:
    assert found("prefix_cache_unused", request_) is None


def test_the_shortest_prefix_that_is_cached() -> None:
    assert found("prefix_cache_unused", asked_again(tokens=(1024, 2000))) is not None


def test_without_a_slope_the_cache_saves_nobody_knows_how_much() -> None:
    finding = found("prefix_cache_unused", asked_again())
    assert finding is not None
    assert (finding["saving_ns"], finding["severity"]) == (None, "warning")


def test_an_idle_gap_before_it_is_said() -> None:
    """Five minutes later the cache may have forgotten."""
    first = chat(0, 200, input=2000, output=20, cached=0, prompt=PROMPTS[0])
    second = chat(300_200, 300_400, input=3000, output=20, cached=0, prompt=PROMPTS[1])
    finding = found("prefix_cache_unused", agent(0, 300_400, first, second))
    assert finding is not None
    assert ms(finding["evidence"]["longest_idle_ns"]) == 300_000


@proves("prefix_cache_unused", UNKNOWN)
def test_a_service_that_reports_no_cached_tokens_leaves_it_unknown() -> None:
    document = analyzed(asked_again((None, None)))
    assert "prefix_cache_unused" not in diagnoses(document)
    assert triage(document, 4) == ("unknown", "cached_tokens_unknown")


# --- tool_result_inflates_context -----------------------------------------------------------------


def answered(before: int, after: int, *tools: str, ttft: float = 100) -> Branch:
    """
    agent  |-chat-|-- tools --|-chat-|    tokens before, and after
    """
    names = tools or ("search",)
    return agent(
        0,
        400 + ttft,
        chat(0, 100, input=before, output=20, ttft=40),
        *(tool(100, 300, name=name, id=name) for name in names),
        chat(300, 400 + ttft, input=after, output=20, ttft=ttft, id="next"),
    )


@proves("tool_result_inflates_context", FIRES, SILENT)
def test_one_result_that_makes_the_next_prompt_long() -> None:
    """3,500 tokens more: 2,500 beyond what is in order, at 40 ms a thousand."""
    faulty = analyzed(answered(500, 4000, ttft=200), profile=PER_TOKEN)
    twin = analyzed(answered(500, 1500, ttft=100), profile=PER_TOKEN)
    finding = diagnoses(faulty)["tool_result_inflates_context"]
    assert finding["evidence"] == {
        "tool": "search",
        "added_tokens": 3500,
        "before_tokens": 500,
        "after_tokens": 4000,
    }
    assert (finding["span_ids"], finding["turn"]) == (["search", "next"], 1)
    assert finding["saving_ns"] == difference(faulty, twin) == ns(100)
    assert "tool_result_inflates_context" not in diagnoses(analyzed(answered(500, 1499)))


@pytest.mark.parametrize(
    "request_",
    [
        answered(500, 1499),
        answered(4000, 5999),
        answered(500, 4000, "search", "fetch"),
    ],
    ids=["less than 1,000 tokens", "less than 50 %", "two tools answered"],
)
def test_a_result_of_ordinary_size(request_: Branch) -> None:
    assert found("tool_result_inflates_context", request_) is None


@proves("tool_result_inflates_context", UNKNOWN)
def test_without_counts_a_result_may_be_of_any_size() -> None:
    request_ = agent(0, 500, chat(0, 100, output=9), tool(100, 300), chat(300, 500, output=9))
    assert cannot_tell("tool_result_inflates_context", request_) == ["tokens_unknown"]


def test_without_a_slope_a_result_costs_nobody_knows_how_much() -> None:
    finding = found("tool_result_inflates_context", answered(500, 4000))
    assert finding is not None
    assert finding["saving_ns"] is None
