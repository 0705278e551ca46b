"""The one door into the core: spans in, the contract's object out, always the same bytes."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest

from tests.builders import (
    START_NS,
    agent,
    chat,
    make_span,
    make_trace,
    ns,
    plain,
    tool,
)
from tests.core.reading import (
    FIXTURES,
    analysis_of,
    document_of,
    fixture_spans,
    segments,
    step,
)
from tracebudget.core.analysis import analyze, iso_time
from tracebudget.core.fit import CallFit
from tracebudget.core.profile import Profile
from tracebudget.core.span import KIND_CLIENT, Span
from tracebudget.document import dumps

# The contract's keys, in its order.
KEYS = [
    "schema", "trace_id", "project", "app", "name", "environment", "version", "session_id",
    "agents", "state", "state_reason", "started_at", "end_to_end_ns", "segments",
    "outside_turns_ns", "turns", "steps", "step_parents", "background_steps", "path", "io_names",
    "ttft_intervals", "findings", "triage", "budgets", "profile",
]  # fmt: skip
SEGMENTS = {
    "prefill": ["queue", "network", "engine_other"],
    "decode": ["unsplit"],
    "tool": [],
    "framework": ["unattributed", "io", "retry_wait", "handoff"],
    "wait": [],
}
TURN = [
    "index", "agent", "agent_span_id", "parent_turn", "start_ns", "duration_ns", "on_path_ns",
    "delegated_ns", "segments",
]  # fmt: skip
STEP = [
    "span_id", "kind", "turn", "name", "dialect", "start_ns", "duration_ns", "critical_ns",
    "status", "error_type", "attempt",
]  # fmt: skip
MODEL_CALL = [
    *STEP, "model", "provider", "streamed", "ttft_ns", "ttft_source", "ttft_is_bound", "ttft_from",
    "first_visible_ns", "queue_ns", "tpot_ns", "input_tokens", "cached_input_tokens",
    "output_tokens", "reasoning_tokens", "finish_reason",
]  # fmt: skip
TOOL_CALL = [*STEP[:4], "call_id", *STEP[4:]]
FINDING = [
    "code", "kind", "step", "severity", "turn", "span_ids", "saving_ns", "evidence",
]  # fmt: skip


@pytest.fixture
def example() -> list[Span]:
    return fixture_spans("worked_example.json")


@pytest.fixture
def expected() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FIXTURES / "worked_example.expected.json").read_text())
    return found


# --- the worked example ---------------------------------------------------------------------------


def test_the_worked_example_comes_out_exactly(
    example: list[Span], expected: dict[str, Any]
) -> None:
    document = document_of(example)
    investigated = document.pop("triage")
    assert {key: document.pop(key) for key in expected} == expected
    assert document == {
        "step_parents": [None, 0, 0, 0, 0],
        "background_steps": [],
        "io_names": {},
        "ttft_intervals": {},
    }
    assert [(row["state"], row["why"]) for row in investigated] == [
        ("clear", None),
        ("clear", None),
        ("clear", None),
        ("unknown", "cached_tokens_unknown"),
        ("unknown", "no_server_spans"),
        ("clear", None),
    ]


def test_the_worked_examples_numbers_as_the_contract_says_them(example: list[Span]) -> None:
    """
    agent  |----------------------------------------------| 461 ms
    chat   |--------|171            360|-------------|461
    tools           |171--------|355
                    |171----|290
    """
    document = document_of(example)
    assert segments(document) == {"prefill": 120, "decode": 152, "tool": 184, "framework": 5}
    assert [turn["duration_ns"] for turn in document["turns"]] == [ns(360), ns(101)]
    assert document["segments"]["tool"]["busy_ns"] == ns(303)
    calls = [row for row in document["steps"] if row["kind"] == "model_call"]
    assert [call["tpot_ns"] for call in calls] == [1_189_474, 684_211]
    assert max(call["ttft_ns"] for call in calls) == ns(62)


# --- shape ----------------------------------------------------------------------------------------


def test_keys_stand_in_the_contracts_order(example: list[Span]) -> None:
    document = document_of(example)
    assert list(document) == KEYS
    assert {k: list(v["parts"]) for k, v in document["segments"].items()} == SEGMENTS
    assert list(document["segments"]) == list(SEGMENTS)
    assert all(list(turn) == TURN for turn in document["turns"])
    assert all(list(turn["segments"]) == list(SEGMENTS) for turn in document["turns"])


def test_each_kind_of_step_has_its_keys(example: list[Span]) -> None:
    keys = {"model_call": MODEL_CALL, "tool_call": TOOL_CALL, "agent": STEP}
    for row in document_of(example)["steps"]:
        assert list(row) == keys[row["kind"]]


def test_findings_have_their_keys() -> None:
    document = analysis_of(agent(0, 900, tool(0, 600), chat(600, 900))).document()
    assert document["findings"]
    assert all(list(finding) == FINDING for finding in document["findings"])


def test_steps_stand_by_start_then_later_end_then_id() -> None:
    document = document_of(
        make_trace(
            agent(
                0,
                900,
                tool(0, 100, id="b"),
                tool(0, 100, name="x", id="a"),
                tool(0, 50, name="y", id="c"),
                chat(300, 400, id="d"),
                id="z",
            )
        )
    )
    assert [row["span_id"] for row in document["steps"]] == ["z", "a", "b", "c", "d"]


def test_a_steps_critical_time_includes_what_lies_below_it() -> None:
    document = document_of(
        make_trace(agent(0, 100, tool(0, 100, chat(20, 90, id="call"), id="tool"), id="top"))
    )
    critical = {row["span_id"]: row["critical_ns"] for row in document["steps"]}
    assert critical == {"top": ns(100), "tool": ns(100), "call": ns(70)}


def test_it_is_json_without_nan(example: list[Span]) -> None:
    text = dumps(document_of(example))
    assert json.loads(text) == document_of(example)
    assert b": " not in text
    assert b"NaN" not in dumps({"x": float("nan")})


def test_text_stays_readable() -> None:
    assert dumps({"name": "查询订单"}) == '{"name":"查询订单"}'.encode()


def test_steps_name_the_step_that_they_lie_in_and_those_that_nobody_waited_for() -> None:
    """
    agent  |-----------------------|
    tool     |---------------|
    agent      |-----------|             below the tool
    chat         |---|
    chat                             |---|    begun when the request was over
    """
    inner = agent(20, 80, plain(25, 60, chat(30, 50)))
    document = document_of(make_trace(agent(0, 100, tool(10, 90, inner), chat(110, 120))))
    assert [row["kind"] for row in document["steps"]] == [
        "agent", "tool_call", "agent", "model_call", "model_call",
    ]  # fmt: skip
    assert document["step_parents"] == [None, 0, 1, 2, 0]
    assert document["background_steps"] == [4]


def test_io_on_the_path_has_its_name() -> None:
    fetch = plain(10, 90, name="GET", kind=KIND_CLIENT, id="fetch")
    document = document_of(make_trace(agent(0, 200, fetch, chat(100, 200))))
    assert document["io_names"] == {"fetch": "GET"}


def test_a_project_and_a_profile_are_shown(example: list[Span]) -> None:
    assert analyze(example, project="blue").document()["project"] == "blue"
    profile = Profile(fits={"m": CallFit(1, 2, 3, 40)}, median_input_tokens=7)
    shown = analysis_of(agent(0, 100), profile=profile).document()["profile"]
    assert shown["median_input_tokens"] == 7
    assert shown["fits"]["m"]["count"] == 40


def test_no_spans_are_no_request() -> None:
    with pytest.raises(ValueError, match="at least one span"):
        analyze([])


# --- moments --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unix_ns", "text"),
    [
        (START_NS, "2026-01-01T00:00:00.000000000Z"),
        (START_NS + 1, "2026-01-01T00:00:00.000000001Z"),
        (START_NS + 123_456_789, "2026-01-01T00:00:00.123456789Z"),
        (0, "1970-01-01T00:00:00.000000000Z"),
        (4_102_444_800_000_000_000, "2100-01-01T00:00:00.000000000Z"),
    ],
)
def test_a_moment_is_exact_to_the_nanosecond(unix_ns: int, text: str) -> None:
    assert iso_time(unix_ns) == text


# --- the same set, the same bytes -----------------------------------------------------------------


def test_every_order_of_arrival_gives_the_same_bytes(example: list[Span]) -> None:
    bytes_seen = {dumps(document_of(list(order))) for order in itertools.permutations(example)}
    assert len(bytes_seen) == 1


def test_repetition_changes_nothing(example: list[Span]) -> None:
    assert dumps(document_of(example * 3)) == dumps(document_of(example))


def test_batches_change_nothing() -> None:
    """Spans of one trace over several requests, children first, one of them resent."""
    spans = fixture_spans("worked_example.json")
    batches = [spans[3:], spans[1:2], spans[:1], spans[2:4]]
    joined = [span for batch in batches for span in batch]
    assert dumps(document_of(joined)) == dumps(document_of(spans))


def test_analysing_twice_equals_once(example: list[Span]) -> None:
    """The first analysis leaves nothing behind, in the spans or anywhere else."""
    first = dumps(document_of(example))
    document_of(make_trace(agent(0, 10, chat(0, 5))))
    assert dumps(document_of(example)) == first


def test_ties_have_one_answer() -> None:
    """A millisecond clock: many spans of one start, one end, no length."""
    spans = [
        make_span("root", 0, 10, id="root"),
        *(make_span("x", 5, 5, id=f"x{n}", parent="root") for n in range(5)),
        *make_trace(*(tool(0, 10, id=f"t{n}", parent="root") for n in range(5))),
    ]
    shuffler = random.Random(7)
    seen = set()
    for _ in range(20):
        shuffler.shuffle(spans)
        seen.add(dumps(document_of(spans)))
    assert len(seen) == 1


def test_a_partial_trace_grows_into_the_whole_one() -> None:
    """Root last: each view is sane, and the last one is that of all spans at once."""
    spans = fixture_spans("worked_example.json")
    children, root = spans[1:], spans[0]
    partial = document_of(children)
    assert partial["state"] == "incomplete"
    assert step(partial, children[0].span_id)["kind"] == "model_call"
    assert document_of([*children, root])["state"] == "complete"
