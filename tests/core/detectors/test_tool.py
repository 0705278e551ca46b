"""Step 3: tools that wait for each other, come twice, fail or time out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Branch, agent, chat, ns, plain, tool
from tests.core.detectors.proof import FIRES, SILENT, UNKNOWN, proves
from tests.core.reading import (
    Document,
    analyzed,
    cannot_tell,
    diagnoses,
    difference,
    found,
    ms,
    triage,
)
from tracebudget.core.declared import Declared

NAMES = ("search", "fetch", "count")
ASKS = {"c1": "search", "c2": "fetch", "c3": "count"}


def turn(*tools: Branch, asks: dict[str, str] | None = ASKS, end: float | None = None) -> Branch:
    """
    agent  |-chat-|-- tools --|-chat-|     the tools from 100 ms on
    """
    last = end or max((t.span.end_ns - tools[0].span.start_ns) // 10**6 for t in tools) + 100
    return agent(
        0,
        last + 100,
        chat(0, 100, asks=asks, id="asks"),
        *tools,
        chat(last, last + 100, stream=False, id="answer"),
        id="a",
    )


def wave(*lengths: float, gap: float = 0, side_by_side: bool = False) -> tuple[Branch, ...]:
    """Tools of these lengths from 100 ms on, one after another or all at once."""
    at, tools = 100.0, []
    for number, length in enumerate(lengths):
        fields: dict[str, Any] = {"name": NAMES[number], "call_id": f"c{number + 1}"}
        tools.append(tool(at, at + length, id=NAMES[number], **fields))
        at += 0 if side_by_side else length + gap
    return tuple(tools)


# --- serial_tools (T-2) ---------------------------------------------------------------------------


@proves("serial_tools", FIRES, SILENT)
def test_tools_of_one_answer_that_ran_one_after_another() -> None:
    """The golden case: three tools of 300 ms in a row, 600 of 900 to save."""
    faulty = analyzed(turn(*wave(300, 300, 300)))
    twin = analyzed(turn(*wave(300, 300, 300, side_by_side=True)))
    finding = diagnoses(faulty)["serial_tools"]
    assert finding["evidence"] == {
        "calls": 3,
        "sum_ns": ns(900),
        "longest_ns": ns(300),
        "tools": ["search", "fetch", "count"],
    }
    assert (finding["step"], finding["turn"], finding["span_ids"]) == (3, 0, list(NAMES))
    assert finding["saving_ns"] == difference(faulty, twin) == ns(600)
    assert "serial_tools" not in diagnoses(twin)


def test_gaps_between_them_are_saved_too() -> None:
    faulty = analyzed(turn(*wave(300, 200, 100, gap=20), end=740))
    twin = analyzed(turn(*wave(300, 200, 100, side_by_side=True), end=400))
    assert diagnoses(faulty)["serial_tools"]["saving_ns"] == difference(faulty, twin)


@pytest.mark.parametrize(("lanes", "saves"), [(1, 0), (2, 300), (3, 600), (None, 600)], ids=str)
def test_within_the_declared_parallelism(lanes: int | None, saves: int) -> None:
    finding = found(
        "serial_tools", turn(*wave(300, 300, 300)), declared=Declared(max_parallel=lanes)
    )
    assert (0 if finding is None else ms(finding["saving_ns"])) == saves


def test_a_tool_that_needs_the_one_before_it_is_no_fault() -> None:
    declared = Declared(dependent=frozenset({"fetch"}))
    assert found("serial_tools", turn(*wave(300, 300, 300)), declared=declared) is None


@pytest.mark.parametrize(
    "request_",
    [
        turn(*wave(300)),
        turn(
            tool(100, 400, call_id="c1"),
            tool(395, 700, name="fetch", call_id="c2"),
        ),
        turn(
            tool(90, 400, call_id="c1"),
            tool(400, 700, name="fetch", call_id="c2"),
        ),
        agent(
            0,
            900,
            chat(0, 100, asks={"c1": "search"}),
            tool(100, 400, call_id="c1"),
            chat(400, 500, asks={"c2": "fetch"}),
            tool(500, 800, name="fetch", call_id="c2"),
            chat(800, 900),
        ),
        turn(
            tool(100, 400, call_id="c1"),
            tool(400, 700, name="fetch", call_id="other"),
        ),
        turn(
            tool(100, 400, call_id="c1", error="Boom"),
            tool(400, 700, call_id="c2"),
        ),
    ],
    ids=[
        "one tool",
        "they overlap",
        "started before the answer ended",
        "each asked for by its own answer",
        "one that nobody asked for",
        "a tool and its retry",
    ],
)
def test_tools_that_could_not_run_together(request_: Branch) -> None:
    assert found("serial_tools", request_) is None


@proves("serial_tools", UNKNOWN)
def test_tools_that_no_span_shows_may_have_run_one_after_another() -> None:
    request_ = agent(0, 1100, chat(0, 100, asks=ASKS), chat(1000, 1100, stream=False))
    assert cannot_tell("serial_tools", request_) == ["tools_not_traced"]
    assert triage(analyzed(request_), 3) == ("unknown", "tools_not_traced")


def test_without_ids_the_tools_of_a_turn_are_its_answers() -> None:
    tools = (tool(100, 400, name="search"), tool(400, 700, name="fetch"))
    assert found("serial_tools", turn(*tools, asks=None)) is not None


# --- repeated_tool_call ---------------------------------------------------------------------------


def repeated(
    gap: float = 100,
    first: dict[str, Any] | None = None,
    second: dict[str, Any] | None = None,
    **known: Any,
) -> Document:
    """
    agent   |-chat-|-search q-|-chat-|..|-search q-|-chat-|
    """
    arguments = {"arguments": {"q": "hours"}}
    at = 400 + gap
    return analyzed(
        agent(
            0,
            at + 300,
            chat(0, 100),
            tool(100, 300, id="first", **(arguments | (first or {}))),
            chat(300, 400),
            tool(at, at + 200, id="again", **(arguments | (second or {}))),
            chat(at + 200, at + 300, stream=False),
        ),
        **known,
    )


@proves("repeated_tool_call", FIRES, SILENT)
def test_the_same_tool_with_the_same_arguments_again() -> None:
    faulty = repeated(0)
    twin = analyzed(
        agent(
            0,
            500,
            chat(0, 100),
            tool(100, 300, arguments={"q": "hours"}),
            chat(300, 400),
            chat(400, 500, stream=False),
        )
    )
    finding = diagnoses(faulty)["repeated_tool_call"]
    assert finding["evidence"] == {
        "tool": "search",
        "calls": 2,
        "repeats": 1,
        "sum_ns": ns(200),
        "read_only": False,
    }
    assert finding["span_ids"] == ["first", "again"]
    assert finding["saving_ns"] == difference(faulty, twin) == ns(200)
    assert "repeated_tool_call" not in diagnoses(twin)


@pytest.mark.parametrize("second", [{"result": "from nine"}, {"error": "Boom"}, {}])
def test_a_repeat_whose_result_is_the_same_or_not_known(second: dict[str, Any]) -> None:
    document = repeated(first={"result": "from nine"}, second=second)
    assert "repeated_tool_call" in diagnoses(document)


def test_it_is_advice_only_for_tools_that_change_nothing() -> None:
    document = repeated(declared=Declared(read_only=frozenset({"search"})))
    assert diagnoses(document)["repeated_tool_call"]["evidence"]["read_only"] is True


@pytest.mark.parametrize(
    "document",
    [
        repeated(second={"arguments": {"q": "prices"}}),
        repeated(second={"name": "fetch"}),
        repeated(first={"error": "Boom"}),
        repeated(60_000),
        repeated(declared=Declared(result_ttl_ns=ns(100))),
        repeated(first={"result": "running"}, second={"result": "done"}),
    ],
    ids=[
        "other arguments",
        "another tool",
        "the first failed",
        "a minute later",
        "declared TTL",
        "another result",
    ],
)
def test_calls_that_no_cache_could_have_answered(document: Document) -> None:
    assert "repeated_tool_call" not in diagnoses(document)


def test_a_declared_ttl_of_nothing_means_no_cache() -> None:
    assert "repeated_tool_call" not in diagnoses(repeated(declared=Declared(result_ttl_ns=0)))


def test_a_longer_ttl_sees_further() -> None:
    declared = Declared(result_ttl_ns=ns(600_000))
    assert "repeated_tool_call" in diagnoses(repeated(60_000, declared=declared))


def test_the_order_of_arguments_does_not_matter() -> None:
    document = repeated(
        first={"arguments": '{"q": "hours", "n": 1}'}, second={"arguments": '{"n":1,"q":"hours"}'}
    )
    assert "repeated_tool_call" in diagnoses(document)


def test_parallel_calls_could_not_have_answered_each_other() -> None:
    same: dict[str, Any] = {"arguments": {"q": "hours"}}
    assert found("repeated_tool_call", turn(tool(100, 300, **same), tool(100, 300, **same))) is None


@proves("repeated_tool_call", UNKNOWN)
def test_without_arguments_it_is_unknown() -> None:
    document = repeated(first={"arguments": None}, second={"arguments": None})
    assert "repeated_tool_call" not in diagnoses(document)
    assert triage(document, 3) == ("unknown", "arguments_not_recorded")


def test_a_tool_that_was_called_once_needs_no_arguments() -> None:
    assert triage(analyzed(turn(tool(100, 300), asks={"c1": "search"})), 3) == ("clear", None)


@pytest.mark.parametrize(("lasts", "fires"), [(5, True), (4.9, False)])
def test_a_repeat_that_a_cache_would_answer_no_sooner(lasts: float, fires: bool) -> None:
    """smolagents' `final_answer` only hands the answer over."""
    same: dict[str, Any] = {"name": "final_answer", "arguments": {"answer": "yes"}}
    tools = (tool(100, 100 + lasts, **same), tool(200, 200 + lasts, **same))
    request_ = agent(0, 400, chat(0, 100), tools[0], chat(110, 200), tools[1], chat(210, 400))
    assert (found("repeated_tool_call", request_) is not None) is fires


# --- tool_timeout ---------------------------------------------------------------------------------


def timed_out(error: str | None, *, lasts: float = 500, **known: Any) -> Document:
    """
    agent  |-chat-|--tool, fails--|-tool-|-chat-|
    """
    return analyzed(
        agent(
            0,
            lasts + 400,
            chat(0, 100),
            tool(100, 100 + lasts, error=error, id="slow"),
            tool(100 + lasts, 300 + lasts, id="good"),
            chat(300 + lasts, 400 + lasts, stream=False),
        ),
        **known,
    )


def without_it() -> Document:
    return analyzed(agent(0, 400, chat(0, 100), tool(100, 300), chat(300, 400, stream=False)))


@pytest.mark.parametrize(
    "error", ["TimeoutError", "httpx.ReadTimeout", "deadline_exceeded", "Timed out"]
)
@proves("tool_timeout", FIRES, SILENT)
def test_a_tool_whose_error_says_that_it_timed_out(error: str) -> None:
    faulty = timed_out(error)
    finding = diagnoses(faulty)["tool_timeout"]
    assert finding["evidence"] == {"tool": "search", "duration_ns": ns(500), "limit_ns": None}
    assert finding["span_ids"] == ["slow"]
    assert finding["saving_ns"] == difference(faulty, without_it()) == ns(500)
    assert "tool_timeout" not in diagnoses(without_it())


@pytest.mark.parametrize(
    "fields",
    [
        {"status_message": "Request timed out after 0.5 s"},
        {"result": {"error": "deadline exceeded"}},
    ],
    ids=["in its status", "in its result"],
)
def test_a_tool_whose_message_says_that_it_timed_out(fields: dict[str, Any]) -> None:
    slow = tool(100, 600, error="RuntimeError", id="slow", **fields)
    finding = found("tool_timeout", agent(0, 700, chat(0, 100), slow, chat(600, 700)))
    assert finding is not None
    assert finding["span_ids"] == ["slow"]


@pytest.mark.parametrize(
    ("lasts", "fires"), [(500, True), (505, True), (495, True), (506, False), (494, False)]
)
def test_a_failed_tool_that_lasted_as_long_as_declared(lasts: float, fires: bool) -> None:
    document = timed_out("Boom", lasts=lasts, declared=Declared(tool_timeout_ns=ns(500)))
    assert ("tool_timeout" in diagnoses(document)) is fires


def test_a_tool_that_succeeded_at_its_limit_did_not_run_into_it() -> None:
    document = timed_out(None, declared=Declared(tool_timeout_ns=ns(500)))
    assert "tool_timeout" not in diagnoses(document)


@proves("tool_timeout", UNKNOWN)
@pytest.mark.parametrize("error", ["_OTHER", "ToolException", "tool_error", "Error"])
def test_a_tool_that_failed_without_a_word_may_have_timed_out(error: str) -> None:
    request_ = turn(tool(100, 900, error=error))
    assert cannot_tell("tool_timeout", request_) == ["tool_error_not_recorded"]
    assert triage(analyzed(request_), 3) == ("unknown", "tool_error_not_recorded")


@pytest.mark.parametrize(
    ("fields", "known"),
    [
        ({"error": "ConnectionError"}, {}),
        ({"error": "Error", "status_message": "no such order"}, {}),
        ({"error": "Error"}, {"declared": Declared(tool_timeout_ns=ns(3000))}),
        ({"error": None}, {}),
    ],
    ids=["its type says", "its message says", "its limit is declared", "it succeeded"],
)
def test_a_tool_that_did_not_time_out(fields: dict[str, Any], known: dict[str, Any]) -> None:
    assert cannot_tell("tool_timeout", turn(tool(100, 900, **fields)), **known) == []


def test_what_timed_out_is_reported_as_that_alone() -> None:
    assert "tool_retry" not in diagnoses(timed_out("TimeoutError"))


# --- tool_retry -----------------------------------------------------------------------------------


@proves("tool_retry", FIRES, SILENT)
def test_a_tool_that_failed_and_was_called_again() -> None:
    """With its wait: 500 ms and nothing between."""
    faulty = timed_out("ConnectionError")
    finding = diagnoses(faulty)["tool_retry"]
    assert finding["evidence"] == {
        "tool": "search",
        "failed_ns": ns(500),
        "recovered": True,
    }
    assert finding["span_ids"] == ["slow", "good"]
    assert finding["saving_ns"] == difference(faulty, without_it()) == ns(500)
    assert "tool_retry" not in diagnoses(without_it())


def failing(
    first: dict[str, Any] | None = None, second: dict[str, Any] | None = None, *between: Branch
) -> Branch:
    """
    agent  |-chat-|-tool, fails-|..200 ms..|-tool-|-chat-|
    """
    return agent(
        0,
        600,
        chat(0, 100),
        tool(100, 150, id="bad", **({"error": "Boom"} | (first or {}))),
        *between,
        tool(350, 500, id="good", **(second or {})),
        chat(500, 600, stream=False),
    )


def test_the_wait_before_the_retry_is_saved_too() -> None:
    finding = found("tool_retry", failing())
    assert finding is not None
    assert ms(finding["saving_ns"]) == 50 + 200


def test_a_retry_that_the_model_asked_for_keeps_the_model() -> None:
    """
    agent  |-chat-|-tool, fails-|-chat-|-tool-|-chat-|    saved is the failed attempt alone
    """
    finding = found("tool_retry", failing({}, {}, chat(150, 350)))
    assert finding is not None
    assert ms(finding["saving_ns"]) == 50


def test_a_retry_that_fails_again() -> None:
    finding = found("tool_retry", failing({}, {"error": "Boom"}))
    assert finding is not None
    assert finding["evidence"]["recovered"] is False


def test_a_failure_inside_the_result_counts() -> None:
    assert found("tool_retry", failing({"error": None, "result": {"error": "no"}})) is not None


@pytest.mark.parametrize(
    "request_",
    [
        failing({"arguments": {"q": 1}}, {"arguments": {"q": 2}}),
        failing({}, {"name": "fetch"}),
        failing({"error": None}),
        failing({"error": "ValidationError"}),
        failing({"arguments": '{"q": '}, {"arguments": "{}"}),
        agent(0, 200, chat(0, 100), tool(100, 150, error="Boom")),
    ],
    ids=[
        "other arguments",
        "another tool",
        "the first succeeded",
        "its arguments were refused",
        "its arguments were no JSON",
        "nobody tried again",
    ],
)
def test_failures_that_were_not_retried(request_: Branch) -> None:
    assert found("tool_retry", request_) is None


def test_of_tools_in_the_background_nothing_is_said() -> None:
    document = analyzed(
        agent(0, 100, chat(0, 90), tool(110, 200, error="TimeoutError"), tool(210, 300)),
    )
    assert not {"tool_timeout", "tool_retry"} & set(diagnoses(document))


def test_step_3_is_clear_without_tools() -> None:
    assert triage(analyzed(plain(0, 100, chat(0, 90))), 3) == ("clear", None)
