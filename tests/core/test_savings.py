"""Savings hold: what a finding says that its fault costs is what the request takes longer with it.

Exactly, where the model of the fault is exact: tools in parallel up to a cap, a repeat served from
a cache, calls and attempts that did not happen, waits that were not. Within 2 % where a figure on
the way is rounded or fitted: time per token, the slope of TTFT over tokens.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import Branch, chat, ns, queue, server, tool
from tests.core.reading import Document, analyzed, difference, ms, report_of
from tests.core.stories import GAPS, LENGTHS, Scene, World, call, tell, tools, worlds
from tracebudget.core.declared import Declared
from tracebudget.core.fit import CallFit
from tracebudget.core.profile import Profile
from tracebudget.core.replay import Change, replay, time_without_models
from tracebudget.core.report import Report

ASKS = {f"c{number}": f"t{number}" for number in range(4)}
PER_TOKEN = Profile(fits={"m": CallFit(0, 0.04e6, 0, 40)})  # 40 ms a thousand tokens
WORTH_NS = ns(1)  # a smaller saving is no finding of its own


def saved(document: Document, code: str) -> int:
    """The savings of a code's findings, ns."""
    return sum(f["saving_ns"] or 0 for f in document["findings"] if f["code"] == code)


def costs(code: str, faulty: Branch, twin: Branch, *, share: float = 0, **known: Any) -> None:
    """What the finding saves is what the fault costs; within a share of it, where one is given."""
    with_fault, without = analyzed(faulty, **known), analyzed(twin, **known)
    cost = difference(with_fault, without)
    assert abs(saved(with_fault, code) - cost) <= max(share * cost, WORTH_NS if share else 0)
    assert saved(without, code) == 0


# --- tools ----------------------------------------------------------------------------------------


@given(
    world=worlds,
    wave=st.lists(LENGTHS, min_size=2, max_size=4),
    gap=st.integers(min_value=0, max_value=9),
    lanes=st.none() | st.integers(min_value=1, max_value=4),
)
def test_tools_in_parallel_up_to_a_cap(
    world: World, wave: list[int], gap: int, lanes: int | None
) -> None:
    ask = Scene(5, call(40, 60, input=50, output=20, asks=ASKS))
    faulty = tell(world, ask, Scene(3, tools(*wave, gap=gap)))
    twin = tell(world, ask, Scene(3, tools(*wave, lanes=lanes)))
    declared = Declared(max_parallel=lanes)
    with_fault, without = (analyzed(told, declared=declared) for told in (faulty, twin))
    cost = difference(with_fault, without)
    assert saved(with_fault, "serial_tools") == (cost if cost >= WORTH_NS else 0)


def looked_up(lasts: float) -> Scene:
    return Scene(4, tools(lasts, name="lookup", call_id="l", arguments={"q": "hours"}))


@given(world=worlds, lasts=LENGTHS, between=LENGTHS)
def test_a_repeat_served_from_a_cache(world: World, lasts: int, between: int) -> None:
    ask = Scene(5, call(40, between, input=50, output=20))
    repeat, cached = looked_up(lasts), Scene(4, None)
    first = (looked_up(lasts + 30), ask)
    costs("repeated_tool_call", tell(world, *first, repeat), tell(world, *first, cached))


@given(world=worlds, lasts=LENGTHS)
def test_a_tool_that_timed_out_in_vain(world: World, lasts: int) -> None:
    ask = Scene(5, call(40, 60, input=50, output=20))
    failed = Scene(4, tools(lasts, name="slow", call_id="s", error="TimeoutError"))
    costs("tool_timeout", tell(world, ask, failed), tell(world, ask, Scene(4, None)))


@given(world=worlds, lasts=LENGTHS, wait=LENGTHS, fails_after=LENGTHS)
def test_a_tool_that_failed_and_waited(
    world: World, lasts: int, wait: int, fails_after: int
) -> None:
    """Both attempts are one act: the second follows at once where the first did not happen."""

    def attempts(at: float) -> list[Branch]:
        start = at + fails_after + wait
        return [
            tool(at, at + fails_after, name="shaky", error="ConnectionError"),
            tool(start, start + lasts, name="shaky"),
        ]

    ask = Scene(5, call(40, 60, input=50, output=20))
    good = Scene(0, tools(lasts, name="shaky", call_id="s"))
    costs("tool_retry", tell(world, ask, Scene(0, attempts)), tell(world, ask, good))


# --- model calls ----------------------------------------------------------------------------------


@given(world=worlds, decode=LENGTHS, gap=GAPS)
def test_an_answer_that_was_generated_twice(world: World, decode: int, gap: int) -> None:
    facts: dict[str, Any] = {"input": 77, "output": 40, "prompt": ["hours?"]}
    first = Scene(5, call(60, decode, stream=True, **facts))

    def again(at: float) -> list[Branch]:
        return [chat(at, at + 60 + decode, stream=False, **facts)]

    costs(
        "double_generation",
        tell(world, first, Scene(gap, again)),
        tell(world, first, Scene(gap, None)),
    )


@given(world=worlds, fails_after=LENGTHS, wait=LENGTHS, prefill=LENGTHS, decode=LENGTHS)
def test_attempts_that_failed_and_the_waits_between(
    world: World, fails_after: int, wait: int, prefill: int, decode: int
) -> None:
    def attempts(at: float) -> list[Branch]:
        start = at + fails_after + wait
        good = chat(start, start + prefill + decode, ttft=prefill, input=50, output=20)
        return [chat(at, at + fails_after, error="RateLimitError"), good]

    good = Scene(0, call(prefill, decode, input=50, output=20))
    costs("model_retry", tell(world, Scene(0, attempts)), tell(world, good))


@given(world=worlds, repeat=LENGTHS, gap=GAPS)
def test_a_question_asked_again_since_its_json_did_not_parse(
    world: World, repeat: int, gap: int
) -> None:
    facts: dict[str, Any] = {"input": 50, "output": 20, "asks": {"c0": "t0"}}
    broken = Scene(5, call(40, 60, arguments='{"city": "Par', **facts))
    again = Scene(gap, call(40, repeat, **facts))
    ran = Scene(3, tools(50))
    costs(
        "malformed_tool_arguments",
        tell(world, broken, again, ran),
        tell(world, Scene(5, call(40, 60, **facts)), Scene(gap, None), ran),
    )


@given(world=worlds, waited=st.integers(min_value=60, max_value=900), prefill=GAPS)
def test_time_in_a_queue_at_the_service(world: World, waited: int, prefill: int) -> None:
    def served(queued: int) -> Scene:
        def begin(at: float) -> list[Branch]:
            end, ttft = at + queued + prefill + 100, queued + prefill
            engine = server(at, end, queue=queued, ttft=ttft, input=50, output=20)
            return [chat(at, end, engine, input=50, output=20)]

        return Scene(5, begin)

    costs("queueing", tell(world, served(waited)), tell(world, served(0)))


@given(world=worlds, waited=st.integers(min_value=60, max_value=900))
def test_time_in_a_queue_at_the_client(world: World, waited: int) -> None:
    answer = Scene(0, call(40, 60, input=50, output=20))
    slot = Scene(2, lambda at: [queue(at, at + waited)])
    costs("queueing", tell(world, slot, answer), tell(world, Scene(2, None), answer))


@given(world=worlds, late=LENGTHS)
def test_prefill_that_is_brought_to_its_limit(world: World, late: int) -> None:
    """The other calls' first tokens come within 900 ms."""
    slow, good = (Scene(5, call(900 + by, 60, input=50, output=20)) for by in (late, 0))
    known: dict[str, Any] = {
        "budgets": {"ttft": ns(900)},
        "profile": Profile(median_input_tokens=900),
    }
    costs("slow_first_token", tell(world, slow), tell(world, good), **known)


@given(world=worlds, tokens=st.integers(min_value=50, max_value=500), slower=GAPS)
def test_decode_that_is_brought_to_its_limit(world: World, tokens: int, slower: int) -> None:
    """50 ms a token are in order; the other calls write faster."""
    slow, good = (
        Scene(5, call(40, (50 + by) * (tokens - 1), input=50, output=tokens)) for by in (slower, 0)
    )
    known = {"budgets": {"tpot": ns(50)}}
    costs("slow_decode", tell(world, slow), tell(world, good), share=0.02, **known)


# --- the framework, and the network ---------------------------------------------------------------


@given(world=worlds, excess=LENGTHS, limit=GAPS)
def test_framework_time_beyond_its_limit(world: World, excess: int, limit: int) -> None:
    """In a world without a tool beside it all of the framework's time is on the path."""
    alone = World(world.before, world.after, world.tail, world.wrapped, beside=None)
    answer = call(40, 60, input=50, output=20)
    plain_own = analyzed(tell(alone, Scene(limit, answer)))["segments"]["framework"]["critical_ns"]
    faulty, twin = tell(alone, Scene(limit + excess, answer)), tell(alone, Scene(limit, answer))
    costs("framework_overhead", faulty, twin, budgets={"framework": plain_own})


@given(world=worlds, before=st.integers(min_value=300, max_value=900))
def test_a_gap_between_client_and_server(world: World, before: int) -> None:
    def served(by: int) -> Scene:
        def begin(at: float) -> list[Branch]:
            engine = server(at + by, at + by + 200, ttft=50, input=50, output=20)
            return [chat(at, at + by + 200, engine, input=50, output=20)]

        return Scene(5, begin)

    costs("network_gap", tell(world, served(before)), tell(world, served(0)))


# --- tokens ---------------------------------------------------------------------------------------


def prompts(*tokens: int, cached: int | None = None, own: int | None = None) -> list[Scene]:
    """Calls whose TTFT is 20 ms and 40 ms a thousand tokens that the service computes."""
    scenes = []
    for count in tokens:
        computed = count if own is None else min(own, count)
        facts: dict[str, Any] = {"input": count, "output": 20, "cached": cached}
        scenes.append(Scene(5, call(20 + 0.04 * computed, 100, **facts)))
    return scenes


ALONE = World((), (), tail=5, wrapped=False, beside=None)


@given(
    grows=st.lists(st.integers(min_value=600, max_value=3000), min_size=2, max_size=5),
    wrapped=st.booleans(),
)
def test_tokens_that_the_context_need_not_grow_by(grows: list[int], wrapped: bool) -> None:
    tokens = [1000]
    for more in grows:
        tokens.append(tokens[-1] + more)
    world = World((), (), 5, wrapped, None)
    grown, level = prompts(*tokens), prompts(*[1000] * len(tokens))
    faulty, twin = tell(world, *grown, answer=None), tell(world, *level, answer=None)
    costs("context_growth", faulty, twin, share=0.02)


@given(first=st.integers(min_value=1024, max_value=9000), more=LENGTHS)
def test_tokens_that_a_prefix_cache_would_know(first: int, more: int) -> None:
    """The twin computes what is new alone, and reports the rest as cached."""
    begin = prompts(first, cached=0)
    again = prompts(first + more, cached=0)
    known = prompts(first + more, cached=first, own=more)
    costs(
        "prefix_cache_unused",
        tell(ALONE, *begin, *again),
        tell(ALONE, *begin, *known),
        share=0.02,
        profile=PER_TOKEN,
    )


@given(before=st.integers(min_value=500, max_value=2000), more=st.integers(1200, 20_000))
def test_tokens_that_a_tool_result_need_not_add(before: int, more: int) -> None:
    """A thousand are in order: half of the prompt at most, here."""
    ran = Scene(3, tools(80, name="search", call_id="s"))
    (ask,), (faulty,), (lean,) = (prompts(n) for n in (before, before + more, before + 1000))
    with_fault = analyzed(tell(ALONE, ask, ran, faulty), profile=PER_TOKEN)
    without = analyzed(tell(ALONE, ask, ran, lean), profile=PER_TOKEN)
    cost = difference(with_fault, without)
    assert saved(with_fault, "tool_result_inflates_context") == pytest.approx(cost, rel=0.02)


# --- what-if --------------------------------------------------------------------------------------


def paced(world: World, prefill: float, decode: float) -> Branch:
    return tell(world, Scene(5, call(prefill, decode, input=50, output=20, id="call")))


@given(
    world=worlds,
    factor=st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9]),
    part=st.sampled_from(["prefill", "decode"]),
    lasts=LENGTHS,
)
def test_prefill_or_decode_times_a_factor(
    world: World, factor: float, part: str, lasts: int
) -> None:
    own = {"prefill": 1000.0, "decode": 2000.0, part: 1000.0 * lasts / 100}
    report = report_of(paced(world, own["prefill"], own["decode"]))
    twin = report_of(paced(world, **(own | {part: own[part] * factor})))
    target = next(node for node in report.calls if node.id == "call")
    change = Change(shorter={target: ns(own[part] * (1 - factor))})
    assert ms(replay(report, change)) == pytest.approx(ms(twin.end_to_end))


@given(world=worlds, prefill=LENGTHS, decode=LENGTHS)
def test_the_ceiling_is_the_request_with_model_time_at_zero(
    world: World, prefill: int, decode: int
) -> None:
    """Told with calls of no length: what is left is tools and framework."""
    alone = World((), (), world.tail, world.wrapped, None)

    def told(prefill: float, decode: float) -> Report:
        thinks = Scene(5, call(prefill, decode, input=50, output=20))
        return report_of(tell(alone, thinks, Scene(3, tools(300)), thinks, answer=None))

    assert time_without_models(told(prefill, decode)) == told(0, 0).end_to_end
