"""Step 2: model calls made twice, made again, queued, slow to begin, slow or halting to go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.builders import Branch, agent, chat, http, ns, plain, queue, server, tool
from tests.core.detectors.proof import FIRES, SILENT, UNKNOWN, proves
from tests.core.reading import (
    Document,
    analyzed,
    cannot_tell,
    diagnoses,
    difference,
    found,
    ms,
    notes,
    part,
    triage,
)
from tracebudget.core.fit import CallFit
from tracebudget.core.profile import Profile

# --- double_generation (T-3) ----------------------------------------------------------------------

SAME = ["system", "how long are you open?"]


def twice(
    gap: float = 10,
    first: dict[str, Any] | None = None,
    second: dict[str, Any] | None = None,
    *between: Branch,
) -> Branch:
    """
    agent   |--chat, streamed--|..|--chat, not streamed--|..|     400, gap, 500 and 90 ms
    """
    one: dict[str, Any] = {"stream": True, "ttft": 100, "input": 50, "output": 40, "prompt": SAME}
    two: dict[str, Any] = {"stream": False, "input": 50, "output": 40, "prompt": SAME}
    start = 400 + gap
    return agent(
        0,
        start + 590,
        chat(0, 400, id="first", **(one | (first or {}))),
        *between,
        chat(start, start + 500, id="second", **(two | (second or {}))),
        id="a",
    )


def once() -> Document:
    return analyzed(
        agent(0, 490, chat(0, 400, stream=True, ttft=100, input=50, output=40, prompt=SAME))
    )


@proves("double_generation", FIRES, SILENT)
def test_an_answer_that_was_generated_twice() -> None:
    faulty, twin = analyzed(twice()), once()
    finding = diagnoses(faulty)["double_generation"]
    assert finding["evidence"] == {
        "second_ns": ns(500),
        "gap_ns": ns(10),
        "same_by": "prompt",
        "streaming_proven": True,
    }
    assert (finding["step"], finding["span_ids"]) == (2, ["first", "second"])
    assert finding["saving_ns"] == difference(faulty, twin) == ns(510)
    assert "double_generation" not in diagnoses(twin)


def test_without_content_equal_model_and_tokens_stand_for_the_prompt() -> None:
    finding = found("double_generation", twice(10, {"prompt": None}, {"prompt": None}))
    assert finding is not None
    assert finding["evidence"]["same_by"] == "tokens"


def test_where_the_flag_is_null_streaming_is_not_proven() -> None:
    finding = found("double_generation", twice(10, {}, {"stream": None}))
    assert finding is not None
    assert finding["evidence"]["streaming_proven"] is False


@pytest.mark.parametrize(
    "request_",
    [
        twice(10, {"prompt": ["other"]}),
        twice(10, {"input": 51}),
        twice(10, {"prompt": None, "input": 51}, {"prompt": None}),
        twice(10, {"prompt": None, "model": "n"}, {"prompt": None}),
        twice(10, {"prompt": None, "input": None}, {"prompt": None, "input": None}),
        twice(2001),
        twice(10, {"stream": False, "ttft": None}),
        twice(10, {}, {"stream": True, "ttft": 100}),
        twice(10, {"asks": {"c1": "search"}}),
        twice(10, {}, {}, tool(400, 405)),
    ],
    ids=[
        "another prompt",
        "the counts contradict",
        "other tokens",
        "another model",
        "nothing to go by",
        "over two seconds later",
        "the first was not streamed",
        "the second was streamed",
        "the first asked for a tool",
        "a tool between",
    ],
)
def test_two_generations_that_are_no_double_one(request_: Branch) -> None:
    assert found("double_generation", request_) is None


def test_an_agent_that_was_asked_twice() -> None:
    """By prompt two runs can be compared, by tokens they cannot."""

    def two_runs(**more: Any) -> Branch:
        one = chat(0, 400, stream=True, ttft=100, input=50, output=40, **more)
        two = chat(410, 900, stream=False, input=50, output=40, **more)
        return plain(0, 900, agent(0, 400, one), agent(410, 900, two))

    assert found("double_generation", two_runs(prompt=SAME)) is not None
    assert found("double_generation", two_runs()) is None


@proves("double_generation", UNKNOWN)
def test_a_vote_of_three_is_no_lost_stream() -> None:
    """Self-consistency asks the same three times; without flags nothing is proven."""
    call: dict[str, Any] = {"input": 50, "output": 40, "prompt": SAME}
    document = analyzed(agent(0, 1500, *(chat(500 * n, 500 * n + 490, **call) for n in range(3))))
    assert "double_generation" not in diagnoses(document)
    assert triage(document, 2) == ("unknown", "streaming_not_proven")


@proves("double_generation", UNKNOWN)
def test_what_is_not_traced_between_two_generations_may_be_a_tool() -> None:
    """A call that does not say whether it asked for tools, and 30 ms later the same again."""
    request_ = twice(30, {"finish": "other"})
    assert found("double_generation", request_) is None
    assert cannot_tell("double_generation", request_) == ["untraced_between"]


# --- malformed_tool_arguments ---------------------------------------------------------------------

BROKEN = '{"city": "Par'


def asked_anew(*between: Branch, arguments: str = BROKEN, tail: float = 0) -> Branch:
    """
    agent  |-asks, broken-|(tool)|-asks again-|--tool--|-chat-|
    """
    at = 100 + tail
    return agent(
        0,
        at + 300,
        chat(0, 100, asks={"c1": "weather"}, arguments=arguments, id="first"),
        *between,
        chat(at, at + 100, asks={"c2": "weather"}, id="again"),
        tool(at + 100, at + 200, name="weather", call_id="c2"),
        chat(at + 200, at + 300, stream=False),
        id="a",
    )


@proves("malformed_tool_arguments", FIRES, SILENT)
def test_asked_again_since_its_json_did_not_parse() -> None:
    twin = analyzed(
        agent(
            0,
            300,
            chat(0, 100, asks={"c2": "weather"}),
            tool(100, 200, name="weather", call_id="c2"),
            chat(200, 300, stream=False),
        )
    )
    faulty = analyzed(asked_anew())
    finding = diagnoses(faulty)["malformed_tool_arguments"]
    assert finding["evidence"] == {"repeat_ns": ns(100), "tools": ["weather"]}
    assert (finding["turn"], finding["span_ids"]) == (0, ["first", "again"])
    assert finding["saving_ns"] == difference(faulty, twin) == ns(100)
    assert "malformed_tool_arguments" not in diagnoses(twin)


def refused(**fields: Any) -> Branch:
    return tool(100, 130, name="weather", call_id="c1", id="refused", **fields)


@pytest.mark.parametrize(
    "between",
    [
        refused(error="ValidationError"),
        refused(error="JSONDecodeError"),
        refused(error="Boom", arguments=BROKEN),
        refused(error="Boom", attributes={"pydantic_ai.tool.failure_stage": "validation"}),
    ],
    ids=["says so", "says so too", "arguments no JSON", "Pydantic AI"],
)
def test_a_tool_that_refused_its_arguments_tells_too(between: Branch) -> None:
    """The answer's own text is not here. Saved are the repeat and the tool that refused."""
    finding = found("malformed_tool_arguments", asked_anew(between, arguments="{}", tail=30))
    assert finding is not None
    assert finding["span_ids"] == ["first", "refused", "again"]
    assert ms(finding["saving_ns"]) == 130


@pytest.mark.parametrize(
    ("fields", "lasts", "fires"),
    [
        ({"status_message": "Validation failed for input parameters: Field required"}, 1, True),
        ({"result": {"error": "could not parse the arguments as JSON"}}, 1, True),
        ({"status_message": "Validation failed for input parameters: Field required"}, 51, False),
        ({"status_message": "no such city"}, 1, False),
    ],
    ids=["the status blames them", "the result does", "after the work", "something else"],
)
def test_an_error_that_blames_the_arguments(
    fields: dict[str, Any], lasts: float, fires: bool
) -> None:
    """Arguments are checked before the work: a later error is the work's."""
    failed = tool(100, 100 + lasts, name="weather", call_id="c1", error="ValueError", **fields)
    request_ = asked_anew(failed, arguments="{}", tail=lasts)
    assert (found("malformed_tool_arguments", request_) is not None) is fires


def test_a_tool_that_was_over_at_once_on_arguments_that_are_no_json() -> None:
    """Its span says OK, its result is an error's text. One that worked is believed."""
    assert found("malformed_tool_arguments", asked_anew(refused(arguments=BROKEN), tail=30))
    worked = tool(100, 200, name="weather", call_id="c1", arguments=BROKEN)
    assert found("malformed_tool_arguments", asked_anew(worked, tail=100)) is None


def test_an_answer_that_asked_and_is_not_there() -> None:
    """Its finish reason says that it asked; another answer of the emitter holds what it asked."""
    first = chat(0, 100, finish="tool_calls", id="first")
    again = chat(110, 200, asks={"c2": "weather"}, id="again")
    ran = tool(200, 300, name="weather", call_id="c2")
    request_ = agent(0, 400, first, again, ran, chat(300, 400))
    finding = found("malformed_tool_arguments", request_)
    assert finding is not None
    assert finding["span_ids"] == ["first", "again"]


@pytest.mark.parametrize(
    "finish", ["MALFORMED_FUNCTION_CALL", "malformed_tool_call", "unexpected_tool_call"]
)
def test_an_answer_that_its_provider_calls_malformed(finish: str) -> None:
    """Gemini throws such an answer away: no tool ran, and none is missing."""
    document = analyzed(
        agent(
            0,
            400,
            chat(0, 100, finish=finish, input=50, output=9, id="first"),
            chat(150, 400, input=50, output=9, id="again"),
        )
    )
    assert set(diagnoses(document)) & {"malformed_tool_arguments", "double_generation"} == {
        "malformed_tool_arguments"
    }
    assert "tools_not_traced" not in notes(document)
    assert part(document, "unattributed") == 0


@pytest.mark.parametrize(
    "request_",
    [
        asked_anew(arguments="{}"),
        asked_anew(refused(error="TimeoutError"), arguments="{}", tail=30),
        asked_anew(refused(), tail=30),
    ],
    ids=["it parsed", "the tool failed by itself", "the tool succeeded"],
)
def test_arguments_that_are_not_the_reason(request_: Branch) -> None:
    assert found("malformed_tool_arguments", request_) is None


@proves("malformed_tool_arguments", UNKNOWN)
def test_a_tool_that_failed_at_once_and_says_nothing() -> None:
    """As an SDK writes it that records no content: what the model wrote is not known."""
    asks, answers = chat(0, 100, finish="tool_calls"), chat(130, 230, stream=False)
    request_ = agent(0, 230, asks, refused(error="tool_error"), answers)
    assert cannot_tell("malformed_tool_arguments", request_) == ["arguments_not_recorded"]


@pytest.mark.parametrize(
    "fields",
    [
        {"error": "ConnectionError"},
        {"status_message": "no such city"},
        {"arguments": {"city": "Paris"}},
        {"error": None},
    ],
    ids=["its type says", "its message says", "its arguments are known", "it succeeded"],
)
def test_a_tool_that_tells_what_happened(fields: dict[str, Any]) -> None:
    tool_ = refused(**({"error": "tool_error"} | fields))
    request_ = agent(0, 230, chat(0, 100, finish="tool_calls"), tool_, chat(130, 230))
    assert cannot_tell("malformed_tool_arguments", request_) == []


def test_nobody_asked_again() -> None:
    first = chat(0, 100, asks={"c1": "weather"}, arguments=BROKEN)
    assert found("malformed_tool_arguments", agent(0, 100, first)) is None


# --- model_retry ----------------------------------------------------------------------------------


def retried(*failed: tuple[float, float]) -> Document:
    """
    agent  |-429-|......|-503-|...........|--chat--|      the answer takes 400 ms
    """
    start = failed[-1][1] + 100 if failed else 0
    attempts = (
        chat(begin, end, error="RateLimitError", id=f"failed {n}")
        for n, (begin, end) in enumerate(failed)
    )
    answer = chat(start, start + 400, ttft=100, input=9, output=40, id="good")
    return analyzed(agent(0, start + 400, *attempts, answer, id="a"))


@proves("model_retry", FIRES, SILENT)
def test_failed_attempts_and_the_waits_between_them() -> None:
    faulty, twin = retried((0, 50), (200, 260)), retried()
    finding = diagnoses(faulty)["model_retry"]
    assert finding["evidence"] == {
        "failed": 2,
        "failed_ns": ns(110),
        "wait_ns": ns(250),
        "errors": ["RateLimitError", "RateLimitError"],
    }
    assert finding["span_ids"] == ["failed 0", "failed 1", "good"]
    assert finding["saving_ns"] == difference(faulty, twin) == ns(360)
    assert "model_retry" not in diagnoses(twin)


def test_a_call_that_failed_for_good_was_not_retried() -> None:
    assert found("model_retry", agent(0, 100, chat(0, 90, error="429"))) is None


def test_attempts_inside_one_span() -> None:
    """
    call   |----------------------------|   0..1000
      http |-429-|                          0..100
      http           |------------------|   400..1000
    """
    faulty = agent(
        0, 1000, chat(0, 1000, http(0, 100, status=429), http(400, 1000), ttft=500, id="c")
    )
    twin = agent(0, 600, chat(0, 600, http(0, 600), ttft=100))
    finding = found("model_retry", faulty)
    assert finding is not None
    assert finding["evidence"] == {"failed": 1, "failed_ns": ns(100), "wait_ns": ns(300)}
    assert finding["saving_ns"] == difference(analyzed(faulty), analyzed(twin)) == ns(400)
    assert found("model_retry", twin) is None


def test_attempts_that_the_emitter_only_counts() -> None:
    """One span, two resends: how long they took, nobody knows."""
    call = chat(0, 900, attributes={"http.request.resend_count": 2}, id="c")
    finding = found("model_retry", agent(0, 900, call))
    assert finding is not None
    assert (finding["evidence"], finding["saving_ns"]) == ({"failed": 2}, None)


def test_attempts_whose_last_start_the_emitter_tells() -> None:
    call = plain(
        0,
        3000,
        name="claude_code.llm_request",
        events=[("gen_ai.request.attempt", 0), ("gen_ai.request.attempt", 2000)],
        attributes={"attempt": 2},
    )
    finding = found("model_retry", agent(0, 3000, call))
    assert finding is not None
    assert (finding["evidence"], ms(finding["saving_ns"])) == ({"failed": 1}, 2000)


@pytest.mark.parametrize(
    "attributes", [{"http.request.resend_count": 0}, {"http.request.resend_count": "many"}]
)
def test_a_first_attempt_is_no_retry(attributes: dict[str, Any]) -> None:
    assert found("model_retry", agent(0, 900, chat(0, 900, attributes=attributes))) is None


# --- queueing (T-4) -------------------------------------------------------------------------------


def queued(waited: float, ttft: float, end: float = 500) -> Document:
    served = server(0, end, queue=waited, ttft=ttft, input=100, output=20)
    return analyzed(agent(0, end, chat(0, end, served, input=100, output=20, id="call")))


@proves("queueing", FIRES, SILENT)
def test_a_call_that_waited_for_its_turn_at_the_service() -> None:
    faulty, twin = queued(200, 300, 500), queued(0, 100, 300)
    finding = diagnoses(faulty)["queueing"]
    assert finding["evidence"] == {"queue_ns": ns(200), "ttft_ns": ns(300)}
    assert finding["saving_ns"] == difference(faulty, twin) == ns(200)
    assert "queueing" not in diagnoses(twin)


@pytest.mark.parametrize(
    ("waited", "ttft"), [(50, 60), (90, 300)], ids=["50 ms", "30 % of the TTFT"]
)
def test_a_queue_that_is_scheduling(waited: float, ttft: float) -> None:
    assert "queueing" not in diagnoses(queued(waited, ttft))


def test_a_call_that_waited_for_a_slot_at_the_client() -> None:
    def request(waited: float) -> Document:
        return analyzed(
            agent(
                0,
                waited + 200,
                queue(0, waited, id="q"),
                chat(waited, waited + 200, ttft=50, input=9, output=20),
            )
        )

    faulty, twin = request(80), request(0)
    finding = diagnoses(faulty)["queueing"]
    assert (finding["evidence"], finding["span_ids"]) == (
        {"queue_ns": ns(80), "ttft_ns": None},
        ["q"],
    )
    assert finding["saving_ns"] == difference(faulty, twin) == ns(80)
    assert "queueing" not in diagnoses(request(50))


@proves("queueing", UNKNOWN)
def test_a_late_first_token_whose_queue_nobody_reports() -> None:
    """Within its budget nobody asks."""
    late, early = begins(80, 1000), begins(50, 1000)
    known: dict[str, Any] = {"budgets": SOON, "profile": USUAL}
    assert cannot_tell("queueing", late, **known) == ["queue_not_reported"]
    assert triage(analyzed(late, **known), 2) == ("unknown", "queue_not_reported")
    assert cannot_tell("queueing", early, **known) == []
    assert cannot_tell("queueing", late, profile=USUAL) == []


# --- slow_first_token -----------------------------------------------------------------------------

USUAL = Profile(median_input_tokens=1000)


SOON = {"ttft": ns(50)}  # promised


def begins(ttft: float | None, tokens: int | None = 400) -> Branch:
    """A call of 100 ms after its first token."""
    end = (ttft or 0) + 100
    return agent(0, end, chat(0, end, ttft=ttft, input=tokens, output=20, id="call"))


def begun(ttft: float | None, tokens: int | None = 400) -> Document:
    return analyzed(begins(ttft, tokens), budgets=SOON, profile=USUAL)


@proves("slow_first_token", FIRES, SILENT)
def test_a_late_first_token_though_the_prompt_is_short() -> None:
    faulty, twin = begun(80), begun(50)
    finding = diagnoses(faulty)["slow_first_token"]
    assert finding["evidence"] == {
        "ttft_ns": ns(80),
        "limit_ns": ns(50),
        "uncached_tokens": 400,
        "usual_tokens": 1000,
    }
    assert finding["saving_ns"] == difference(faulty, twin) == ns(30)
    assert "slow_first_token" not in diagnoses(twin)


def test_a_late_first_token_of_a_long_prompt_has_its_reason() -> None:
    assert "slow_first_token" not in diagnoses(begun(80, 1000))


@pytest.mark.parametrize(
    ("request_", "profile", "why"),
    [
        (begins(80), None, "no_usual_prompt"),
        (begins(80, None), USUAL, "no_usual_prompt"),
        (begins(None), USUAL, "ttft_unknown"),
    ],
    ids=["the app's prompts are unknown", "this prompt is not counted", "no first token"],
)
@proves("slow_first_token", UNKNOWN)
def test_what_cannot_be_said_of_first_tokens(
    request_: Branch, profile: Profile | None, why: str
) -> None:
    known: dict[str, Any] = {"budgets": SOON, "profile": profile}
    assert found("slow_first_token", request_, **known) is None
    assert cannot_tell("slow_first_token", request_, **known) == [why]
    assert triage(analyzed(request_, **known), 2)[0] == "unknown"


@pytest.mark.parametrize(("known", "state"), [(1, "clear"), (0, "unknown")])
def test_half_of_the_first_tokens_must_be_known(known: int, state: str) -> None:
    calls = (
        chat(100 * n, 100 * n + 100, ttft=20 if n < known else None, input=n, output=9)
        for n in range(2)
    )
    assert triage(analyzed(agent(0, 200, *calls)), 2)[0] == state


# --- slow_decode ----------------------------------------------------------------------------------


def speaks(tpot: float, **facts: Any) -> Branch:
    """A hundred tokens after the first."""
    end = 50 + 100 * tpot
    facts = {"ttft": 50, "input": 9, "output": 101, **facts}
    return agent(0, end, chat(0, end, id="call", **facts))


def spoken(tpot: float, **known: Any) -> Document:
    return analyzed(speaks(tpot), **known)


@proves("slow_decode", FIRES, SILENT)
def test_text_that_is_slower_than_promised() -> None:
    budgets = {"budgets": {"tpot": ns(20)}}
    faulty, twin = spoken(30, **budgets), spoken(20, **budgets)
    finding = diagnoses(faulty)["slow_decode"]
    assert finding["evidence"] == {
        "tpot_ns": ns(30),
        "limit_ns": ns(20),
        "output_tokens": 101,
    }
    assert finding["saving_ns"] == difference(faulty, twin) == ns(1000)
    assert "slow_decode" not in diagnoses(twin)


def test_without_a_budget_no_text_is_slow() -> None:
    assert "slow_decode" not in diagnoses(spoken(300))


@proves("slow_decode", UNKNOWN)
@pytest.mark.parametrize("facts", [{"ttft": None}, {"output": None}], ids=["TTFT", "tokens"])
def test_text_whose_pace_nothing_tells(facts: dict[str, Any]) -> None:
    budgets = {"tpot": ns(20)}
    assert cannot_tell("slow_decode", speaks(30, **facts), budgets=budgets) == ["tpot_unknown"]
    assert cannot_tell("slow_decode", speaks(30, **facts)) == []


def test_one_token_has_no_pace() -> None:
    assert cannot_tell("slow_decode", speaks(30, output=1), budgets={"tpot": ns(20)}) == []


# --- decode_stutter -------------------------------------------------------------------------------


def streamed(gaps: Sequence[float]) -> Document:
    return analyzed(stream(gaps))


def stream(gaps: Sequence[float], **fields: Any) -> Branch:
    """A call with an event a chunk, `gaps` ms apart, the first at 100 ms."""
    moments = [100.0]
    for gap in gaps:
        moments.append(moments[-1] + gap)
    end = moments[-1] + 10
    call = chat(
        0,
        end,
        events=[("llm.content.completion.chunk", at) for at in moments],
        attributes={"llm.is_streaming": True},
        input=9,
        output=len(moments),
        id="call",
        **fields,
    )
    return agent(0, end, call)


@proves("decode_stutter", FIRES, SILENT)
def test_text_that_halts() -> None:
    """Twenty gaps of 20 ms and three of 100: 80 too much each."""
    faulty, twin = streamed([20] * 20 + [100] * 3), streamed([20] * 23)
    finding = diagnoses(faulty)["decode_stutter"]
    assert finding["evidence"] == {
        "median_gap_ns": ns(20),
        "p95_gap_ns": ns(100),
        "gaps": 23,
    }
    assert finding["saving_ns"] == difference(faulty, twin) == ns(240)
    assert "decode_stutter" not in diagnoses(twin)


@pytest.mark.parametrize(
    "gaps",
    [[20] * 16 + [100] * 3, [20] * 20 + [80] * 3, [20] * 40 + [500], [10] * 20 + [50] * 3],
    ids=["too few", "four times as long", "one long gap is no halting", "too short to be seen"],
)
def test_text_that_flows(gaps: Sequence[float]) -> None:
    assert "decode_stutter" not in diagnoses(streamed(gaps))


def test_text_that_waits_and_then_comes_at_once_may_be_in_time() -> None:
    """A proxy that buffers: nobody knows how much sooner the last chunk would have come."""
    finding = diagnoses(streamed([1, 1, 1, 1, 100] * 6))["decode_stutter"]
    assert (finding["saving_ns"], finding["severity"]) == (None, "warning")


@proves("decode_stutter", UNKNOWN)
def test_of_a_stream_whose_events_were_dropped_nothing_is_said() -> None:
    halting = stream([20] * 20 + [100] * 3, dropped_events=5)
    assert found("decode_stutter", halting) is None
    assert cannot_tell("decode_stutter", halting) == ["chunks_dropped"]
    assert triage(analyzed(halting), 2) == ("unknown", "chunks_dropped")


# --- oversized_model ------------------------------------------------------------------------------

SIMPLE = Profile(fits={"m": CallFit(0, 0, 1e6, 40)}, simple_ns={"m": ns(900), "s": ns(300)})


def asked(*more: Branch, lasts: float = 900, **facts: Any) -> Branch:
    facts = {"input": 500, "output": 150, "ttft": 100, **facts}
    return agent(0, lasts + 100, chat(0, lasts, id="call", **facts), *more)


def simple(*more: Branch, profile: Profile | None = SIMPLE, **facts: Any) -> Document:
    return analyzed(asked(*more, **facts), profile=profile)


def medians(own: float, other: float) -> Profile:
    return Profile(simple_ns={"m": ns(own), "s": ns(other)})


@proves("oversized_model", FIRES)
def test_a_simple_request_on_a_large_model() -> None:
    finding = diagnoses(simple())["oversized_model"]
    assert finding["evidence"] == {
        "model": "m",
        "other": "s",
        "median_ns": ns(900),
        "other_median_ns": ns(300),
    }
    assert finding["saving_ns"] == ns(600)


@proves("oversized_model", UNKNOWN)
@pytest.mark.parametrize("facts", [{"input": None}, {"output": None}], ids=str)
def test_a_request_of_unknown_length_may_be_simple(facts: dict[str, Any]) -> None:
    assert cannot_tell("oversized_model", asked(**facts), profile=SIMPLE) == ["tokens_unknown"]
    assert cannot_tell("oversized_model", asked(**facts, model="s"), profile=SIMPLE) == []


def test_no_more_is_saved_than_the_request_took() -> None:
    """600 ms where the model's median is 900, and the other's 300."""
    finding = found("oversized_model", asked(lasts=500), profile=SIMPLE)
    assert finding is not None
    assert ms(finding["saving_ns"]) == 300


@pytest.mark.parametrize(
    "document",
    [
        simple(input=501),
        simple(output=151),
        simple(model="s"),
        simple(profile=None),
        simple(tool(900, 950)),
        simple(chat(900, 990, input=9, output=9)),
        simple(profile=medians(900, 721)),
        simple(lasts=200),
    ],
    ids=[
        "long in",
        "long out",
        "the fastest already",
        "no profile",
        "a tool",
        "two turns",
        "less than a fifth faster",
        "as fast as the other",
    ],
)
@proves("oversized_model", SILENT)
def test_requests_that_are_not_simple_or_have_no_faster_model(document: Document) -> None:
    assert "oversized_model" not in diagnoses(document)
