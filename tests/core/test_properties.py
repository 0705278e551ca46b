"""What holds for every trace, however broken; and for every agent whose truth is known."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pytest_django import Settings

from ingest.privacy import pass_door
from tests.builders import agent, chat, make_span, make_trace, ns, tool
from tests.core.forests import SHAPES, Conversation, conversations, forests, shifted
from tests.core.reading import (
    FIXTURES,
    Document,
    diagnoses,
    document_of,
    fixture_traces,
    ms,
    part,
    segments,
)
from tracebudget import models
from tracebudget.core.analysis import Analysis, analyze
from tracebudget.core.app import App
from tracebudget.core.budget import METRICS, Budget
from tracebudget.core.dialects import DIALECTS, Recogniser, recognise
from tracebudget.core.replay import Change, replay
from tracebudget.core.report import Report, build_report
from tracebudget.core.span import Span
from tracebudget.core.tree import build_tree
from tracebudget.document import dumps

# --- everything closes ----------------------------------------------------------------------------


def assert_closes(analysis: Analysis) -> None:
    """Everything that has to partition something does, in integer nanoseconds."""
    document = analysis.document()
    total = document["end_to_end_ns"]
    assert sum(s["critical_ns"] for s in document["segments"].values()) == total
    _assert_path_tiles(document["path"], total)
    _assert_segments_are_the_path(document)
    _assert_turns_close(document["turns"])
    _assert_turns_tile(analysis.report)
    on_path = sum(turn["on_path_ns"] for turn in document["turns"])
    assert on_path + document["outside_turns_ns"] == total


def _assert_path_tiles(path: list[Document], total: int) -> None:
    at = 0
    for piece in path:
        assert piece["start_ns"] == at
        assert piece["duration_ns"] > 0
        at += piece["duration_ns"]
    assert at == total


def _assert_segments_are_the_path(document: Document) -> None:
    for name, segment in document["segments"].items():
        pieces = [piece for piece in document["path"] if piece["segment"] == name]
        assert 0 <= segment["critical_ns"] <= segment["busy_ns"]
        assert segment["critical_ns"] == sum(piece["duration_ns"] for piece in pieces)
        for part_name, value in segment["parts"].items():
            length = sum(p["duration_ns"] for p in pieces if p["part"] == part_name)
            assert value == length or (value is None and length == 0)


def _assert_turns_close(turns: list[Document]) -> None:
    for turn in turns:
        assert turn["duration_ns"] == sum(turn["segments"].values())
        assert min(turn["segments"].values()) >= 0
        assert 0 <= turn["on_path_ns"] <= turn["duration_ns"]
        assert 0 <= turn["delegated_ns"] <= turn["duration_ns"]


def _assert_turns_tile(report: Report) -> None:
    """Asked of the runs themselves: two halves of a span share its id."""
    for run in report.runs:
        turns = report.turns_of[run]
        assert (turns[0].start, turns[-1].end) == (run.top.start, run.top.end)
        assert all(earlier.end == later.start for earlier, later in pairwise(turns))


@given(forests())
def test_everything_closes(trace: list[Span]) -> None:
    assert_closes(analyze(trace))


@given(forests())
def test_it_is_json_and_refers_to_what_is_there(trace: list[Span]) -> None:
    document = document_of(trace)
    assert json.loads(dumps(document)) == document
    turns = range(len(document["turns"]))
    for row in [*document["steps"], *document["path"], *document["findings"]]:
        assert row["turn"] is None or row["turn"] in turns
    for turn in document["turns"]:
        assert turn["parent_turn"] is None or turn["parent_turn"] in turns
        assert turn["parent_turn"] != turn["index"]
    ids = {span.span_id for span in trace} | {span.parent_id for span in trace}
    assert {row["span_id"] for row in document["steps"]} <= ids


@given(forests())
def test_no_first_token_is_measured_on_a_call_known_not_to_be_streamed(trace: list[Span]) -> None:
    for row in document_of(trace)["steps"]:
        if row["kind"] == "model_call":
            assert row["streamed"] is not False or row["ttft_source"] != "measured"
            assert (row["ttft_ns"] is None) is (row["ttft_source"] == "unknown")
            assert row["ttft_ns"] is None or 0 < row["ttft_ns"] <= row["duration_ns"]


@given(forests())
def test_budgets_of_every_metric_can_be_judged(trace: list[Span]) -> None:
    limits = tuple(Budget(metric, 100) for metric in [*METRICS, "tool_call:t"])
    apps = {name: App(limits) for name in ("a", "b", "unknown")}
    for row in analyze(trace, apps=apps).document()["budgets"]:
        assert (row["state"] == "over") is (row["value"] is not None and row["value"] > 100)


@given(forests())
def test_savings_are_never_more_than_the_request(trace: list[Span]) -> None:
    document = document_of(trace)
    for finding in document["findings"]:
        assert 0 <= (finding["saving_ns"] or 0) <= document["end_to_end_ns"]
    assert [row["step"] for row in document["triage"]] == [1, 2, 3, 4, 5, 6]


# --- the result depends on the set of spans -------------------------------------------------------


@given(forests(), st.randoms(use_true_random=False))
def test_order_repetition_and_batching_change_no_byte(
    trace: list[Span], shuffler: random.Random
) -> None:
    arrived = trace + shuffler.sample(trace, len(trace) // 2)
    shuffler.shuffle(arrived)
    assert dumps(document_of(arrived)) == dumps(document_of(trace))


@given(forests())
def test_analysing_twice_equals_once(trace: list[Span]) -> None:
    assert dumps(document_of(trace)) == dumps(document_of(trace))


@given(conversations(), st.integers(1, 10**9))
def test_when_it_happened_changes_nothing_but_the_start(
    conversation: Conversation, later: int
) -> None:
    one = document_of(make_trace(conversation.top))
    two = document_of(shifted(conversation, later))
    assert one.pop("started_at") != two.pop("started_at")
    assert one == two


# --- replay ---------------------------------------------------------------------------------------


@given(forests())
def test_played_without_a_change_every_request_comes_out_as_it_was(trace: list[Span]) -> None:
    report = build_report(build_tree(trace))
    assert replay(report, Change()) == report.end_to_end
    nothing = Change(shorter=dict.fromkeys(report.tree.nodes, 0))  # but every span is played
    assert replay(report, nothing) == report.end_to_end


@given(conversations())
def test_a_faster_step_never_makes_a_request_slower(conversation: Conversation) -> None:
    report = build_report(build_tree(make_trace(conversation.top)))
    for node in report.steps:
        for change in (
            Change(shorter={node: node.duration // 2}),
            Change(removed=frozenset({node})),
        ):
            assert 0 <= replay(report, change) <= report.end_to_end


# --- against the truth ----------------------------------------------------------------------------


@given(conversations())
def test_segments_are_what_the_time_was_spent_on(conversation: Conversation) -> None:
    """Framework too: a remainder closes by itself, so it is compared with the gaps put in."""
    document = document_of(make_trace(conversation.top))
    truth = {
        "prefill": conversation.prefill,
        "decode": conversation.decode,
        "tool": conversation.tool,
        "framework": conversation.framework,
    }
    assert segments(document) == {name: value for name, value in truth.items() if value}
    assert len(document["turns"]) == conversation.turns
    assert part(document, "unattributed") == 0


@given(st.lists(st.integers(20, 2000), min_size=2, max_size=3), st.integers(0, 100))
def test_serial_tools_save_what_the_parallel_twin_is_faster(lengths: list[int], gap: int) -> None:
    """
    faulty  |-chat-|--x--|.|--y--|.|--z--|-chat-|
    twin    |-chat-|--x--|-chat-|                     as long as the longest
    """
    asks = {f"c{n}": f"t{n}" for n in range(len(lengths))}

    def request(starts: list[int], end: int) -> Document:
        tools = (
            tool(start, start + length, name=f"t{n}", call_id=f"c{n}")
            for n, (start, length) in enumerate(zip(starts, lengths, strict=True))
        )
        first, last = chat(0, 100, asks=asks), chat(end, end + 100, stream=False)
        return document_of(make_trace(agent(0, end + 100, first, *tools, last)))

    serial = [100 + sum(lengths[:n]) + gap * n for n in range(len(lengths))]
    faulty = request(serial, serial[-1] + lengths[-1])
    twin = request([100] * len(lengths), 100 + max(lengths))
    saving = diagnoses(faulty)["serial_tools"]["saving_ns"]
    assert saving == faulty["end_to_end_ns"] - twin["end_to_end_ns"]
    assert "serial_tools" not in diagnoses(twin)


@given(st.integers(1, 500), st.integers(0, 3000), st.integers(50, 2000))
def test_retries_save_what_the_twin_is_faster(failed: int, wait: int, good: int) -> None:
    start = failed + wait
    retry = (chat(0, failed, error="429"), chat(start, start + good, ttft=good // 2))
    faulty = document_of(make_trace(agent(0, start + good, *retry)))
    twin = document_of(make_trace(agent(0, good, chat(0, good, ttft=good // 2))))
    saving = diagnoses(faulty)["model_retry"]["saving_ns"]
    assert saving == faulty["end_to_end_ns"] - twin["end_to_end_ns"]


@given(conversations(), st.integers(0, 4))
def test_a_repeated_call_saves_what_the_twin_is_faster(
    conversation: Conversation, at_turn: int
) -> None:
    """A tool that is asked the same again, after the last answer of a good conversation."""
    end = ms(conversation.top.span.end_ns - conversation.top.span.start_ns)
    twice: dict[str, Any] = {"name": "again", "arguments": {"q": at_turn}}
    first, again = tool(end, end + 50, **twice), tool(end + 150, end + 200, **twice)
    calls = (chat(end + 50, end + 150), chat(end + 200, end + 300))
    children = conversation.top.children
    faulty = document_of(
        make_trace(agent(0, end + 300, *children, first, calls[0], again, calls[1]))
    )
    assert diagnoses(faulty)["repeated_tool_call"]["saving_ns"] == ns(50)


# --- content --------------------------------------------------------------------------------------

# What the door replaces: a session becomes a pseudonym.
PSEUDONYMS = ("session_id",)


def assert_equal_but_for_pseudonyms(one: Document, two: Document) -> None:
    for key in one:
        assert key in PSEUDONYMS or one[key] == two[key]


def timings_only(trace: list[Span]) -> list[Span]:
    return passed(trace, models.Privacy.TIMINGS_ONLY)


def passed(trace: list[Span], privacy: models.Privacy) -> list[Span]:
    return pass_door(trace, models.Project(pk=1, privacy=privacy), b"k" * 32)


@given(conversations())
def test_without_content_the_result_is_the_same(conversation: Conversation) -> None:
    trace = make_trace(conversation.top)
    assert_equal_but_for_pseudonyms(document_of(trace), document_of(timings_only(trace)))


@given(forests())
def test_without_content_the_result_is_the_same_for_any_forest(trace: list[Span]) -> None:
    assert_equal_but_for_pseudonyms(document_of(trace), document_of(timings_only(trace)))


RECORDED = sorted(path.name for path in (FIXTURES / "recorded").glob("[!t]*.json"))


@pytest.mark.parametrize("privacy", [models.Privacy.TIMINGS_ONLY, models.Privacy.MASKED])
@pytest.mark.parametrize("name", RECORDED)
def test_behind_the_privacy_door_recorded_traces_come_out_the_same(
    name: str, privacy: models.Privacy
) -> None:
    for trace in fixture_traces(f"recorded/{name}"):
        assert_equal_but_for_pseudonyms(document_of(trace), document_of(passed(trace, privacy)))


@pytest.mark.parametrize("name", RECORDED)
def test_with_long_values_cut_recorded_traces_come_out_the_same(
    name: str, settings: Settings
) -> None:
    """*Full* cuts monstrous values, here those of more than 60 characters."""
    settings.MAX_VALUE_CHARS = 60
    for trace in fixture_traces(f"recorded/{name}"):
        cut = passed(trace, models.Privacy.FULL)
        assert_equal_but_for_pseudonyms(document_of(trace), document_of(cut))


# --- dialects -------------------------------------------------------------------------------------


@given(forests())
def test_what_is_remembered_of_a_shape_is_what_the_rules_say(trace: list[Span]) -> None:
    """The memory of shapes is a memory, nothing more."""
    fresh = Recogniser(DIALECTS)
    for span in trace:
        assert recognise(span)[:2] == fresh.recognise(span)


INT64 = st.integers(-(2**63), 2**63 - 1)  # what OTLP can say


@given(
    st.dictionaries(
        st.sampled_from(sorted({key for _, attributes in SHAPES for key in attributes})),
        st.none() | st.booleans() | INT64 | st.floats() | st.text() | st.lists(st.text()),
    ),
    st.sampled_from([name for name, _ in SHAPES]),
)
@example({"gen_ai.operation.name": ["chat"]}, "chat m")
def test_values_of_any_type_raise_nothing(attributes: dict[str, Any], name: str) -> None:
    span = make_span(name, attributes=attributes, id="x")
    assert_closes(analyze([span]))
    document_of(timings_only([span]))


def test_fixtures_are_small() -> None:
    """They are read by people, too."""
    files = [path for path in FIXTURES.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 700_000
    assert all(isinstance(path, Path) for path in files)
