"""Time to first token: who claims it, in which unit, from when, and whether it can be true."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.builders import START_NS, Branch, agent, chat, http, plain, server
from tests.core.reading import Document, analyzed, ms, notes, part, segments, step
from tracebudget.core.fit import CallFit
from tracebudget.core.profile import Profile

FIRST_TOKEN = "First Token Stream Event"


def call_of(branch: Branch, **known: Any) -> Document:
    """The one model call of an agent."""
    document = analyzed(agent(0, 100_000, branch), **known)
    call: Document
    (call,) = [step for step in document["steps"] if step["kind"] == "model_call"]
    return call


def claimed(key: str, value: object, *, end: float = 171, **fields: Any) -> Document:
    """A call of an emitter that nobody knows, 0..171, with one attribute more."""
    attributes = {key: value, **fields.pop("attributes", {})}
    return call_of(chat(0, end, attributes=attributes, **fields))


def openinference(start: float, end: float, *children: Branch, **fields: Any) -> Branch:
    """A call whose first token is an event."""
    own = {"openinference.span.kind": "LLM", "llm.token_count.completion": fields.pop("output", 50)}
    attributes = {**own, **fields.pop("attributes", {})}
    return plain(start, end, *children, name="ChatCompletion", attributes=attributes, **fields)


# --- sources --------------------------------------------------------------------------------------


def test_measured_by_an_attribute_of_the_client() -> None:
    call = call_of(chat(0, 171, ttft=58))
    assert (ms(call["ttft_ns"]), call["ttft_source"], call["ttft_is_bound"]) == (
        58,
        "measured",
        False,
    )
    assert call["ttft_from"] == "gen_ai.response.time_to_first_chunk"
    assert call["first_visible_ns"] is None


def test_measured_by_an_event_whose_emitter_may_stamp_a_role_chunk() -> None:
    call = call_of(openinference(0, 171, events=[(FIRST_TOKEN, 58)]))
    assert (ms(call["ttft_ns"]), call["ttft_source"], call["ttft_is_bound"]) == (
        58,
        "measured",
        True,
    )
    assert call["ttft_from"] == f"event:{FIRST_TOKEN}"


def test_reported_by_the_server_and_counted_from_the_clients_start() -> None:
    call = call_of(chat(0, 500, server(20, 490, ttft=100), input=100, output=20))
    assert (ms(call["ttft_ns"]), call["ttft_source"]) == (120, "reported")


def test_reported_phases_where_the_server_tells_no_first_token() -> None:
    call = call_of(chat(0, 500, server(20, 490, queue=60, prefill=40), input=100, output=20))
    assert (ms(call["ttft_ns"]), call["ttft_from"]) == (120, "queue + prefill")


def test_measured_beats_reported() -> None:
    call = call_of(chat(0, 500, server(20, 490, ttft=100), ttft=130, input=100, output=20))
    assert (ms(call["ttft_ns"]), call["ttft_source"]) == (130, "measured")


def test_unknown_where_nothing_says() -> None:
    call = call_of(chat(0, 171))
    assert (call["ttft_ns"], call["ttft_source"], call["ttft_from"]) == (None, "unknown", None)


FIT = Profile(fits={"m": CallFit(a_ns=121e6, b_ns=0, c_ns=2e6, count=40)})


def test_inferred_from_the_apps_other_calls() -> None:
    """2 ms a token: 50 of the 171 ms are decode, the rest was prefill."""
    call = call_of(chat(0, 171, input=1000, output=26), profile=FIT)
    assert (ms(call["ttft_ns"]), call["ttft_source"], call["ttft_from"]) == (121, "inferred", "fit")
    assert call["tpot_ns"] is None  # for reading alone


def test_an_inferred_figure_has_its_interval() -> None:
    """Next to the steps, by span id: 15 % on both sides, and what was over may be prefill's."""
    request = agent(0, 181, chat(0, 181, input=1000, output=26, id="call"), chat(0, 9, ttft=5))
    document = analyzed(request, profile=FIT)
    low, high = document["ttft_intervals"]["call"]
    assert (round(low / 1e6), round(high / 1e6)) == (103, 149)
    assert list(document["ttft_intervals"]) == ["call"]


def test_an_estimate_counts_from_the_last_attempt() -> None:
    """call |-- failed attempt 100 --|--- 121 ---|--- 50 ---|: the attempt before it is prefill."""
    attempts = (http(0, 60, status=503), http(100, 271, status=200))
    document = analyzed(
        agent(0, 271, chat(0, 271, *attempts, input=1000, output=26, id="call")), profile=FIT
    )
    call = step(document, "call")
    assert (ms(call["ttft_ns"]), call["ttft_source"]) == (121, "inferred")
    assert segments(document)["prefill"] == 221


@pytest.mark.parametrize(
    "call",
    [
        chat(0, 171, model="other", output=26),
        chat(0, 171),  # no output count
        chat(0, 171, output=26, error="Boom"),
    ],
    ids=["another model", "no count", "failed"],
)
def test_nothing_is_inferred(call: Branch) -> None:
    assert call_of(call, profile=FIT)["ttft_source"] == "unknown"


def test_an_estimate_stays_within_the_call() -> None:
    """A call that is over before its usual first token."""
    call = call_of(chat(0, 110, output=2), profile=FIT)
    assert 100_000_000 < call["ttft_ns"] <= 110_000_000


def test_measured_and_reported_beat_inferred() -> None:
    assert call_of(chat(0, 171, ttft=58, output=26), profile=FIT)["ttft_source"] == "measured"


# --- units ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gen_ai.response.time_to_first_chunk", 0.058),
        ("gen_ai.response.time_to_first_chunk", "0.058"),
        ("gen_ai.client.operation.time_to_first_chunk", 0.058),
        ("gen_ai.streaming.time_to_first_token", 0.058),
        ("gen_ai.latency.time_to_first_token", 0.058),
        ("ttft_ms", 58),
        ("time_to_first_token_ms", 58.0),
        ("ai.response.msToFirstChunk", 58),
        ("langfuse.observation.completion_start_time", '"2026-01-01T00:00:00.058Z"'),
        ("langfuse.observation.completion_start_time", "2026-01-01T01:00:00.058+01:00"),
    ],
)
def test_every_unit_is_58_ms(key: str, value: object) -> None:
    call = claimed(key, value)
    assert (ms(call["ttft_ns"]), call["ttft_source"], call["ttft_from"]) == (58, "measured", key)


@pytest.mark.parametrize(
    "value",
    [
        0.058,
        58,
        58_000,
        58_000_000,
    ],
    ids=["s", "ms", "us", "ns"],
)
def test_an_unknown_emitters_unit_is_decided_by_plausibility(value: float) -> None:
    """`gen_ai.server.time_to_first_token`: one name, four units."""
    assert ms(claimed("gen_ai.server.time_to_first_token", value)["ttft_ns"]) == 58


@pytest.mark.parametrize(
    ("key", "is_bound"),
    [
        ("metrics.ttfb", True),  # Pipecat's
        ("acme.time_to_first_byte", True),
        ("acme.time_to_first_token", False),
        ("acme.llm.ttft", False),
    ],
)
def test_a_first_token_of_an_emitter_without_a_table_is_found_by_its_name(
    key: str, is_bound: bool
) -> None:
    """A first byte comes no later than a first token, and may come before."""
    call = claimed(key, 0.058)
    assert (ms(call["ttft_ns"]), call["ttft_source"], call["ttft_from"]) == (58, "measured", key)
    assert call["ttft_is_bound"] is is_bound


def test_a_first_tokens_moment_in_unix_time_is_told_from_a_duration() -> None:
    """LangWatch writes ms since 1970."""
    call = claimed("acme.time_to_first_token", START_NS / 1_000_000 + 58)
    assert ms(call["ttft_ns"]) == pytest.approx(58, abs=0.001)  # a float holds no ns of today


def test_a_unit_that_was_guessed_is_said() -> None:
    call = chat(0, 171, attributes={"gen_ai.server.time_to_first_token": 58}, id="call")
    assert notes(analyzed(agent(0, 200, call)))["suspect_unit"]["span_ids"] == ["call"]


def test_a_known_emitters_unit_is_known() -> None:
    """Strands writes ms under the same name: 2 is 2 ms, not 2 s."""
    attributes = {
        "gen_ai.system": "strands-agents",
        "gen_ai.server.time_to_first_token": 2,
    }
    call = call_of(plain(0, 5000, name="chat", attributes=attributes))
    assert ms(call["ttft_ns"]) == 2


@pytest.mark.parametrize("value", [2, 2.0])
def test_openlit_writes_seconds_under_that_name(value: float) -> None:
    call = claimed(
        "gen_ai.server.time_to_first_token",
        value,
        end=5000,
        scope="openlit.otel.tracing",
        stream=True,
    )
    assert ms(call["ttft_ns"]) == 2000


def haystack(first_chunk: str) -> Document:
    """Haystack writes the first chunk's local time, without its zone, into its output."""
    output = {"replies": [{"meta": {"completion_start_time": first_chunk}}]}
    return call_of(
        plain(
            0,
            171,
            name="haystack.agent.step.llm",
            attributes={"haystack.agent.step.llm.output": json.dumps(output)},
        )
    )


@pytest.mark.parametrize(
    "first_chunk",
    ["2026-01-01T00:00:00.058000", "2026-01-01T05:45:00.058000", "2025-12-31T17:00:00.058000"],
    ids=["UTC", "Kathmandu", "Denver"],
)
def test_a_local_time_is_taken_in_the_zone_in_which_it_falls_inside_the_call(
    first_chunk: str,
) -> None:
    assert ms(haystack(first_chunk)["ttft_ns"]) == 58


@pytest.mark.parametrize(
    "first_chunk",
    ["2026-01-01T00:00:00.200000", "2026-01-03T00:00:00.058000", "soon", ""],
    ids=["after the call", "no zone is so far", "no time", "nothing"],
)
def test_a_local_time_that_falls_inside_in_no_zone_says_nothing(first_chunk: str) -> None:
    assert haystack(first_chunk)["ttft_source"] == "unknown"


def test_time_is_counted_from_the_span_not_from_its_wrapper() -> None:
    """An absolute time below a wrapper that started 10 ms earlier."""
    call = chat(10, 171, input=5, output=50, id="in")
    outer = openinference(0, 180, call, events=[(FIRST_TOKEN, 58)])
    document = analyzed(agent(0, 200, outer))
    assert ms(step(document, "in")["ttft_ns"]) == 48


# --- refusals -------------------------------------------------------------------------------------


def refusal(branch: Branch) -> tuple[str, Document]:
    """The one doubt about a call, and the call. It must be no TTFT."""
    document = analyzed(agent(0, 100_000, branch))
    (call,) = [step for step in document["steps"] if step["kind"] == "model_call"]
    codes = [code for code in notes(document) if code.startswith("ttft_")]
    assert (call["ttft_ns"], call["ttft_source"]) == (None, "unknown")
    assert len(codes) == 1
    return codes[0], call


@pytest.mark.parametrize("ttft", [0, -5, 173])
def test_a_first_token_outside_the_call_is_refused(ttft: float) -> None:
    assert refusal(chat(0, 171, ttft=ttft))[0] == "ttft_out_of_range"


def test_a_millisecond_past_the_end_is_rounding_and_capped() -> None:
    call = call_of(chat(0, 171, ttft=172, output=1))
    assert ms(call["ttft_ns"]) == 171


def test_a_ttft_on_a_call_known_not_to_be_streamed_is_refused() -> None:
    assert refusal(chat(0, 171, ttft=58, stream=False))[0] == "ttft_out_of_range"


@pytest.mark.parametrize("output", [None, 2, 50])
@pytest.mark.parametrize("ttft", [170, 171, 171.5])
def test_a_first_token_at_the_end_of_many_is_the_end_itself(
    output: int | None, ttft: float
) -> None:
    assert refusal(chat(0, 171, ttft=ttft, output=output))[0] == "ttft_equals_duration"


def test_the_only_token_may_come_at_the_end() -> None:
    assert ms(call_of(chat(0, 171, ttft=171, output=1))["ttft_ns"]) == 171


@pytest.mark.parametrize(
    ("end", "event", "believed"),
    [
        (171, 166, False),  # 5 ms before the end
        (171, 165.9, True),
        (2000, 1980, False),  # 1 % before the end
        (2000, 1979, True),
    ],
)
def test_an_event_so_close_to_the_end_was_stamped_when_the_span_closed(
    end: float, event: float, believed: bool
) -> None:
    document = analyzed(agent(0, 5000, openinference(0, end, events=[(FIRST_TOKEN, event)])))
    assert ("ttft_equals_duration" in notes(document)) is not believed


def test_ttft_is_not_always_prefill() -> None:
    """Seen: 11,157 of 11,236 ms, 856 tokens out. The provider thought, then sent all at once."""
    code, call = refusal(chat(0, 11_236, ttft=11_157, output=856, stream=True))
    assert code == "ttft_not_prefill"
    assert ms(call["first_visible_ns"]) == 11_157  # what the user felt


@pytest.mark.parametrize(("rest", "believed"), [(20, True), (19.9, False)])
def test_5000_tokens_a_second_is_as_fast_as_one_stream_goes(rest: float, believed: bool) -> None:
    """A hundred tokens after the first in 20 ms: 0.2 ms a token."""
    call = call_of(chat(0, 171, ttft=171 - rest, output=101))
    assert (call["ttft_ns"] is not None) is believed
    assert (call["first_visible_ns"] is None) is believed


def test_what_was_not_prefill_may_be_inferred() -> None:
    call = call_of(chat(0, 171, ttft=170, output=26), profile=FIT)
    assert (call["ttft_source"], ms(call["ttft_ns"])) == ("inferred", 121)
    thinking = call_of(chat(0, 171, ttft=168, output=26), profile=FIT)
    assert (thinking["ttft_source"], ms(thinking["first_visible_ns"])) == ("inferred", 168)


def test_after_a_refused_claim_the_next_source_is_used() -> None:
    """The event was stamped at the end, the attribute was not."""
    branch = openinference(
        0, 171, events=[(FIRST_TOKEN, 171)], attributes={"ttft_ms": 58}, id="call"
    )
    document = analyzed(agent(0, 200, branch))
    assert (ms(step(document, "call")["ttft_ns"]), step(document, "call")["ttft_from"]) == (
        58,
        "ttft_ms",
    )
    assert notes(document)["ttft_equals_duration"]["evidence"]["from"] == f"event:{FIRST_TOKEN}"


def test_after_refused_claims_the_server_reports() -> None:
    call = call_of(
        chat(0, 500, server(0, 500, ttft=100), ttft=0, stream=False, input=10, output=20)
    )
    assert (ms(call["ttft_ns"]), call["ttft_source"]) == (100, "reported")


@pytest.mark.parametrize("ttft", [0, 600])
def test_a_server_that_reports_more_than_the_wall_clock_is_not_believed(ttft: float) -> None:
    document = analyzed(
        agent(0, 500, chat(0, 500, server(0, 500, ttft=ttft), input=10, output=20, id="call"))
    )
    assert step(document, "call")["ttft_source"] == "unknown"
    assert notes(document)["reported_exceeds_wall"]["span_ids"] == ["call"]


def strands(ttft: float, *, asks: bool, output: int = 22) -> Document:
    """Strands stamps the first block of content. Some models send that of a tool request when the
    answer is complete.
    """
    answer = json.dumps([{"toolUse": {"toolUseId": "c1", "name": "search", "input": {}}}])
    attributes = {
        "gen_ai.system": "strands-agents",
        "gen_ai.server.time_to_first_token": ttft,
        "gen_ai.usage.output_tokens": output,
        "gen_ai.output.messages": answer if asks else "[]",
    }
    return call_of(plain(0, 400, name="chat", attributes=attributes))


@pytest.mark.parametrize(
    ("ttft", "asks", "believed"),
    [
        (379, True, True),  # 21 ms before the end: it was streamed
        (381, True, False),  # 19 ms: the end itself
        (381, False, True),  # an answer in words
    ],
)
def test_the_end_of_an_answer_that_asks_for_tools_is_no_first_token(
    ttft: float, asks: bool, believed: bool
) -> None:
    assert (strands(ttft, asks=asks)["ttft_source"] == "measured") is believed


def test_an_event_is_no_first_one_when_events_were_dropped() -> None:
    """SDKs keep 128 events and drop the oldest: the first chunk goes first."""
    branch = openinference(0, 171, events=[(FIRST_TOKEN, 58)], dropped_events=3)
    assert call_of(branch)["ttft_source"] == "unknown"


@pytest.mark.parametrize("value", ["soon", None, True, float("nan"), float("inf"), [1]])
def test_what_is_no_figure_says_nothing(value: object) -> None:
    call = claimed("gen_ai.response.time_to_first_chunk", value)
    assert call["ttft_source"] == "unknown"


# --- attempts -------------------------------------------------------------------------------------


def claude_code(**attributes: object) -> Document:
    """
    llm_request  |------------------------------|  0..3000
      attempt    * 0, failed      * 2000
    """
    branch = plain(
        0,
        3000,
        name="claude_code.llm_request",
        events=[("gen_ai.request.attempt", 0), ("gen_ai.request.attempt", 2000)],
        attributes={"attempt": 2, **attributes},
        id="call",
    )
    return analyzed(agent(0, 3000, branch))


def test_ttft_counts_from_the_last_attempt_and_prefill_lasts_until_it() -> None:
    document = claude_code(ttft_ms=300)
    assert ms(step(document, "call")["ttft_ns"]) == 300
    assert segments(document) == {"prefill": 2300, "decode": 700}


def test_first_content_is_no_bound_and_message_start_is_one() -> None:
    early, exact = claude_code(ttft_ms=300), claude_code(ttft_ms=300, first_content_ms=350)
    assert step(early, "call")["ttft_is_bound"] is True
    assert (ms(step(exact, "call")["ttft_ns"]), step(exact, "call")["ttft_is_bound"]) == (
        350,
        False,
    )


def test_http_attempts_show_where_the_last_one_began() -> None:
    """
    call   |----------------------------------|   0..1000
      http |-503-|
      http               |--------------------|   400..1000
    """
    branch = chat(0, 1000, http(0, 100, status=503), http(400, 1000), ttft=450)
    assert ms(call_of(branch)["ttft_ns"]) == 50


def test_http_requests_that_all_succeed_are_no_attempts() -> None:
    """An upload, then the call."""
    branch = chat(0, 1000, http(0, 100), http(400, 1000), ttft=450)
    assert ms(call_of(branch)["ttft_ns"]) == 450


def test_a_first_token_before_the_last_attempt_counts_from_the_start() -> None:
    """The events contradict each other: the claim stands as it is."""
    branch = chat(0, 1000, http(0, 100, status=503), http(400, 1000), ttft=300)
    assert ms(call_of(branch)["ttft_ns"]) == 300


# --- streams --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "streamed"),
    [
        (chat(0, 171, stream=True), True),
        (chat(0, 171, stream=False), False),
        (chat(0, 171), None),
        (chat(0, 171, ttft=58), True),  # a first chunk proves a stream
        (chat(0, 171, attributes={"gen_ai.request.stream": "true"}), True),
        (chat(0, 171, attributes={"gen_ai.server.time_to_first_token": 0.058}), None),
    ],
)
def test_streamed_is_true_false_or_null(call: Branch, streamed: bool | None) -> None:
    assert call_of(call)["streamed"] is streamed


def invocation(scope: str, parameters: str | None) -> bool | None:
    attributes = {} if parameters is None else {"llm.invocation_parameters": parameters}
    branch = openinference(
        0, 171, scope=f"openinference.instrumentation.{scope}", attributes=attributes
    )
    streamed: bool | None = call_of(branch)["streamed"]
    return streamed


@pytest.mark.parametrize(
    ("scope", "parameters", "streamed"),
    [
        ("openai", '{"stream": true}', True),
        ("openai", '{"temperature": 0}', False),  # the request as sent: no flag means false
        ("openai", None, None),
        ("langchain", '{"stream": true}', True),
        ("langchain", '{"stream": false}', None),  # a default that says nothing
        ("mistralai", '{"temperature": 0}', None),
    ],
)
def test_a_missing_flag_means_what_its_emitter_means(
    scope: str, parameters: str | None, streamed: bool | None
) -> None:
    assert invocation(scope, parameters) is streamed


def test_an_emitter_that_writes_the_flag_for_streams_only() -> None:
    branch = chat(0, 171, scope="opentelemetry.instrumentation.genai.openai")
    assert call_of(branch)["streamed"] is False


def test_openlit_writes_a_first_token_on_calls_that_were_not_streamed() -> None:
    """TTFT = duration, TPOT = 0."""
    attributes = {"gen_ai.server.time_to_first_token": 0.1}
    branch = chat(0, 171, stream=False, scope="openlit.otel.tracing", attributes=attributes)
    assert call_of(branch)["ttft_source"] == "unknown"


# --- TPOT -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "tpot"),
    [(96, 1_189_474), (2, 113_000_000), (1, None), (0, None), (None, None)],
)
def test_time_per_output_token_after_the_first(output: int | None, tpot: int | None) -> None:
    """(171 - 58) / (96 - 1) ms, rounded half up."""
    assert call_of(chat(0, 171, ttft=58, output=output))["tpot_ns"] == tpot


def test_no_tpot_without_a_first_token() -> None:
    assert call_of(chat(0, 171, output=96))["tpot_ns"] is None


def test_tpot_after_hidden_attempts_counts_from_the_first_token() -> None:
    branch = chat(0, 1000, http(0, 100, status=503), http(400, 1000), ttft=500, output=101)
    assert ms(call_of(branch)["tpot_ns"]) == 5


def test_reported_tokens_that_take_longer_than_the_call_are_noted() -> None:
    """171 ms that report TTFT 58 ms and 21 ms a token, 96 tokens: the wall clock wins."""
    attributes = {"gen_ai.server.time_per_output_token": 0.021}
    document = analyzed(
        agent(0, 171, chat(0, 171, ttft=58, output=96, attributes=attributes, id="call"))
    )
    assert notes(document)["reported_exceeds_wall"]["evidence"] == {
        "reported_ns": 2_053_000_000,
        "duration_ns": 171_000_000,
        "count": 1,
    }
    assert step(document, "call")["tpot_ns"] == 1_189_474


# --- phases that add nothing ----------------------------------------------------------------------


def test_phases_of_a_call_that_is_not_split_are_unknown() -> None:
    """The server tells its queue and where it began, but no first token: nothing is prefill, and
    nothing in the parts of prefill is known to be 0.
    """
    document = analyzed(
        agent(0, 500, chat(0, 500, server(20, 490, queue=60), input=100, output=20))
    )
    assert segments(document) == {"decode": 500}
    assert (part(document, "queue"), part(document, "network")) == (None, None)


def test_the_earliest_event_is_the_first_whatever_their_order() -> None:
    chunks = [("llm.content.completion.chunk", ms) for ms in (120, 100, 140)]
    call = call_of(chat(0, 171, events=chunks, attributes={"llm.is_streaming": True}))
    assert ms(call["ttft_ns"]) == 100
