"""Data quality: what was assumed, and what about the data is in doubt. Shown apart, never a fault.

Most notes are tested where they arise (tree, calls, run, clock, ttft, tokens, identity). Here: that
every code fires and its twin is silent, and the doubts that only the finished report shows.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.builders import (
    Branch,
    agent,
    at,
    chat,
    guardrail,
    http,
    ns,
    numbered,
    plain,
    server,
    tool,
    workflow,
)
from tests.core.reading import Document, analyzed, notes, part
from tracebudget.core.detectors import quality
from tracebudget.core.finding import MAX_SPAN_IDS

CORE = Path(quality.__file__).parent.parent

OPENINFERENCE = {"openinference.span.kind": "LLM", "llm.token_count.completion": 50}


def first_token(at_ms: float, end: float = 171) -> Branch:
    return plain(0, end, attributes=OPENINFERENCE, events=[("First Token Stream Event", at_ms)])


def sessions(one: str, two: str) -> Branch:
    return plain(
        0,
        100,
        agent(0, 50, attributes={"session.id": one}),
        agent(50, 100, attributes={"session.id": two}),
    )


def counted(value: object) -> Branch:
    return agent(0, 100, chat(0, 90, attributes={"gen_ai.usage.input_tokens": value}))


# code -> a trace in which it fires, and its twin in which it does not
CASES: dict[str, tuple[tuple[Branch, ...], tuple[Branch, ...]]] = {
    "launcher_root": ((plain(0, 5, tool(10, 90)),), (plain(0, 95, tool(10, 90)),)),
    "outside_parent": (
        (agent(0, 100, plain(0, 50, tool(10, 60)), tool(60, 70)),),
        (agent(0, 100, plain(0, 60, tool(10, 60)), tool(60, 70)),),
    ),
    "tokens_refused": ((counted(-5),), (counted(5),)),
    "missing_root": (
        (plain(0, 60), plain(50, 100)),
        (plain(0, 100), plain(50, 100)),
    ),
    "missing_parent": (
        (plain(0, 100), tool(10, 90, parent="gone")),
        (plain(0, 100, tool(10, 90)),),
    ),
    "parent_cycle": (
        (plain(0, 100, id="root"), tool(10, 90, id="a", parent="a")),
        (plain(0, 100, tool(10, 90)),),
    ),
    "clock_skew": (
        (plain(0, 100, tool(-20, 20, host="b"), host="a"),),
        (plain(0, 100, tool(0, 20, host="b"), host="a"),),
    ),
    "ends_before_start": ((agent(0, 100, tool(50, 40)),), (agent(0, 100, tool(50, 50)),)),
    "unfinished_span": (
        (agent(0, 100, plain(10, 0, tool(20, 60), end_ns=0)),),
        (agent(0, 100, plain(10, 60, tool(20, 60))),),
    ),
    "span_conflict": (
        (agent(0, 100, id="a"), tool(10, 50, id="t", parent="a"), tool(10, 60, id="t", parent="a")),
        (agent(0, 100, id="a"), tool(10, 60, id="t", parent="a"), tool(10, 60, id="t", parent="a")),
    ),
    "twin_spans": (
        (agent(0, 100, chat(0, 90, scope="x"), chat(0, 90, scope="y")),),
        (agent(0, 100, chat(0, 90, scope="x"), chat(0, 50, scope="y")),),
    ),
    "ttft_equals_duration": ((first_token(171),), (first_token(100),)),
    "ttft_out_of_range": ((first_token(-3),), (first_token(100),)),
    "ttft_not_prefill": (
        (agent(0, 200, chat(0, 171, ttft=169, output=50)),),
        (agent(0, 200, chat(0, 171, ttft=100, output=50)),),
    ),
    "reported_exceeds_wall": (
        (agent(0, 200, chat(0, 171, server(0, 171, ttft=900), input=1, output=9)),),
        (agent(0, 200, chat(0, 171, server(0, 171, ttft=90), input=1, output=9)),),
    ),
    "late_model_end": (
        (agent(0, 300, chat(0, 205, tool(100, 200, call_id="c1"), asks={"c1": "search"})),),
        (agent(0, 300, chat(0, 100, asks={"c1": "search"}), tool(100, 200, call_id="c1")),),
    ),
    "rehung_step": (
        (agent(0, 300, plain(0, 100, tool(150, 200), tool(10, 90))),),
        (agent(0, 300, plain(0, 100, tool(10, 90)), tool(150, 200)),),
    ),
    "suspect_unit": (
        (plain(0, 100, start_ns=at(0) // 1000, end_ns=at(100) // 1000),),
        (plain(0, 100),),
    ),
    "tokens_missing": (
        (agent(0, 100, chat(0, 90, input=5)),),
        (agent(0, 100, chat(0, 90, input=5, output=5)),),
    ),
    "tools_not_traced": (
        (agent(0, 300, chat(0, 90, asks={"c1": "search"}), chat(200, 300)),),
        (agent(0, 300, chat(0, 90, asks={"c1": "search"}), tool(90, 200), chat(200, 300)),),
    ),
    "session_conflict": ((sessions("s-1", "s-2"),), (sessions("s-1", "s-1"),)),
    "turns_disagree": (
        (agent(0, 300, plain(0, 300, chat(0, 90), chat(200, 300), name="turn")),),
        (agent(0, 300, plain(0, 300, chat(0, 90), name="turn")),),
    ),
    "content_truncated": (
        (agent(0, 100, chat(0, 90, dropped_attributes=3)),),
        (agent(0, 100, chat(0, 90)),),
    ),
}

# code -> what it says of its faulty trace, beside the number of spans
NUMBERS: dict[str, dict[str, Any]] = {
    "launcher_root": {"ended_after_ns": ns(5)},
    "tokens_refused": {"keys": ["gen_ai.usage.input_tokens"]},
    "missing_parent": {"parent": "gone"},
    "clock_skew": {"offset_ns": ns(50)},
    "ends_before_start": {"by_ns": ns(10)},
    "unfinished_span": {"assumed_end_ns": at(60)},
    "ttft_equals_duration": {"from": "event:First Token Stream Event", "value_ns": ns(171)},
    "ttft_out_of_range": {"from": "event:First Token Stream Event", "value_ns": ns(-3)},
    "ttft_not_prefill": {"from": "gen_ai.response.time_to_first_chunk", "value_ns": ns(169)},
    "reported_exceeds_wall": {"ttft_ns": ns(900), "duration_ns": ns(171)},
    "late_model_end": {"by_ns": ns(105)},
    "rehung_step": {"from": numbered(2), "to": numbered(1)},
    "suspect_unit": {"start_ns": at(0) // 1000},
    "tokens_missing": {"of": 1},
    "tools_not_traced": {"unattributed_ns": ns(110)},
    "session_conflict": {"sessions": 2},
    "turns_disagree": {"spans": 1, "turns": 2},
}


@pytest.mark.parametrize("code", CASES)
def test_every_code_fires_with_its_numbers_and_its_twin_is_silent(code: str) -> None:
    faulty, twin = CASES[code]
    finding = notes(analyzed(*faulty))[code]
    count = len(finding["span_ids"])
    assert finding["evidence"] == NUMBERS.get(code, {}) | {"count": count}
    assert code not in notes(analyzed(*twin))


def test_every_note_of_the_core_has_its_case() -> None:
    source = "\n".join(path.read_text("utf-8") for path in CORE.rglob("*.py"))
    refused = re.findall(r'return "(ttft_\w+)"', (CORE / "ttft.py").read_text("utf-8"))
    assert {*re.findall(r'Note\(\s*"(\w+)"', source), *refused} == set(CASES)


@pytest.mark.parametrize("code", CASES)
def test_a_doubt_is_no_fault(code: str) -> None:
    """No step of the investigation, no saving, no turn: information."""
    finding = notes(analyzed(*CASES[code][0]))[code]
    assert (finding["step"], finding["saving_ns"], finding["turn"], finding["severity"]) == (
        None,
        None,
        None,
        "info",
    )
    assert finding["evidence"]["count"] >= 1


# --- content that was cut -------------------------------------------------------------------------


def test_content_that_was_cut_in_the_middle() -> None:
    """Gemini CLI keeps 10,000 characters: what is left is no JSON."""
    cut = '[{"role": "user", "parts": [{"text": "' + "x" * 9_950
    call = chat(0, 90, input=5, output=5, attributes={"gen_ai.input.messages": cut}, id="call")
    assert notes(analyzed(agent(0, 100, call)))["content_truncated"]["span_ids"] == ["call"]


def test_content_that_was_cut_by_the_limits_of_an_sdk() -> None:
    call = chat(0, 90, input=5, output=5, dropped_attributes=3, id="call")
    assert notes(analyzed(agent(0, 100, call)))["content_truncated"]["span_ids"] == ["call"]


# --- tools that no span shows ---------------------------------------------------------------------


@pytest.mark.parametrize(("gap", "fires"), [(1, True), (0.9, False)])
def test_an_answer_that_is_followed_at_once_hides_no_tool(gap: float, fires: bool) -> None:
    """Claude's answer of two blocks comes as two calls; its tools run after the second."""
    calls = chat(0, 100, asks={"c1": "a"}), chat(100 + gap, 200, asks={"c2": "b"})
    document = analyzed(agent(0, 300, *calls, tool(200, 290), id="a"))
    assert ("tools_not_traced" in notes(document)) is fires


def test_a_hand_over_is_no_hidden_tool() -> None:
    """The OpenAI Agents SDK asks for `transfer_to_writer`; the writer runs beside the first."""
    first = agent(0, 150, chat(0, 100, asks={"c1": "transfer_to_writer"}), name="support")

    def then(name: str) -> Document:
        return analyzed(workflow(0, 300, first, agent(150, 300, chat(150, 300), name=name)))

    assert "tools_not_traced" not in notes(then("writer"))
    assert part(then("writer"), "unattributed") == 0
    assert "tools_not_traced" in notes(then("editor"))
    assert part(then("editor"), "unattributed") == 50


# --- reported figures against the wall clock ------------------------------------------------------


@pytest.mark.parametrize(("tpot_ms", "fires"), [(1.21, False), (1.4, True)])
def test_reported_figures_are_rounded(tpot_ms: float, fires: bool) -> None:
    """58 + 95 x 1.21 ms are 173 of 171: 5 ms, or 5 %, are rounding."""
    attributes = {"gen_ai.server.time_per_output_token": tpot_ms / 1000}
    call = chat(0, 171, ttft=58, input=9, output=96, attributes=attributes)
    assert ("reported_exceeds_wall" in notes(analyzed(agent(0, 171, call)))) is fires


@pytest.mark.parametrize(("queue", "fires"), [(105, False), (106, True)])
def test_a_queue_longer_than_the_first_token(queue: float, fires: bool) -> None:
    call = chat(0, 500, server(0, 500, queue=queue, ttft=100), input=9, output=20)
    assert ("reported_exceeds_wall" in notes(analyzed(agent(0, 500, call)))) is fires


# --- many of one kind -----------------------------------------------------------------------------


def test_one_finding_a_code_however_many_spans() -> None:
    document = analyzed(
        agent(0, 1000, *(tool(n + 1, n, id=f"t{n:03}", name=f"t{n}") for n in range(250)))
    )
    finding = notes(document)["ends_before_start"]
    assert finding["evidence"]["count"] == 250
    assert len(finding["span_ids"]) == MAX_SPAN_IDS
    assert finding["span_ids"] == sorted(finding["span_ids"])
    assert sum(f["code"] == "ends_before_start" for f in document["findings"]) == 1


def test_a_clean_trace_has_no_doubts() -> None:
    document = analyzed(
        agent(
            0,
            700,
            guardrail(0, 90),
            chat(100, 200, ttft=40, input=90, output=20, cached=0, asks={"c1": "search"}),
            tool(200, 300, http(210, 290), call_id="c1", arguments={"q": 1}, result=[]),
            chat(300, 690, ttft=60, input=120, output=90, cached=90),
        )
    )
    assert notes(document) == {}
    assert document["end_to_end_ns"] == ns(700)
