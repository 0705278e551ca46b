"""The privacy door: what passes, what leaves a digest, and that nothing slips by."""

from __future__ import annotations

import gc
import json
from dataclasses import replace
from typing import Any

import pytest
from pytest_django import Settings

from ingest.decode import MARKS_KEY
from ingest.otlp import read_export
from ingest.privacy import pass_door
from ingest.privacy.facts import NAME_REDACTED
from tests import otlp
from tests.builders import chat, make_trace, ns
from tests.otlp import START_NS
from tracebudget import models
from tracebudget.core.analysis import analyze
from tracebudget.core.content.fingerprint import fingerprint
from tracebudget.core.content.lifting import lift
from tracebudget.core.dialects import FACT_KEYS, common
from tracebudget.core.dialects.facts import LIFTED
from tracebudget.core.span import Event, Link, Span
from tracebudget.models import Privacy
from tracebudget.packing import pack_spans

KEY = b"k" * 32
SECRET = "jane's order 4711"

MASKED = models.Project(pk=4, privacy=models.Privacy.MASKED)
TIMINGS = models.Project(pk=1, privacy=models.Privacy.TIMINGS_ONLY)
OTHER = models.Project(pk=2, privacy=models.Privacy.TIMINGS_ONLY)
FULL = models.Project(pk=3, privacy=models.Privacy.FULL)

PLAIN = Span(
    trace_id=otlp.TRACE_ID,
    span_id=otlp.SPAN_ID,
    parent_id="",
    name="chat gpt-5",
    kind=3,
    start_ns=START_NS,
    end_ns=START_NS + 100,
    attributes={},
)


def through(span: Span, project: models.Project = TIMINGS, key: bytes = KEY) -> Span:
    (passed,) = pass_door([span], project, key)
    return passed


def value_of(name: str, value: Any, **door: Any) -> Any:
    return through(replace(PLAIN, attributes={name: value}), **door).attributes[name]


# --- timings only ---


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gen_ai.request.model", "gpt-5"),
        ("gen_ai.usage.input_tokens", 1240),
        ("gen_ai.response.time_to_first_chunk", 0.058),
        ("gen_ai.request.stream", True),
        ("gen_ai.response.finish_reasons", ["stop", "tool_calls"]),
        ("gen_ai.usage.output_tokens", None),
    ],
)
def test_facts_pass_unchanged(key: str, value: Any) -> None:
    assert key in FACT_KEYS
    assert value_of(key, value) == value


@pytest.mark.parametrize("key", ["acme.span.kind", "acme.span_type", "run_type"])
def test_a_spans_kind_passes_whatever_sdk_declares_it(key: str) -> None:
    assert key not in FACT_KEYS
    assert value_of(key, "LLM") == "LLM"


@pytest.mark.parametrize(
    ("key", "value"),
    [("metrics.ttfb", 0.058), ("acme.time_to_first_token", 58), ("acme.llm.model_name", "lpx")],
)
def test_a_fact_passes_whose_key_a_table_names_by_its_pattern(key: str, value: Any) -> None:
    assert key not in FACT_KEYS
    assert value_of(key, value) == value


def test_a_first_byte_is_read_behind_the_door_as_before_it() -> None:
    spans = make_trace(chat(0, 100, stream=True, attributes={"metrics.ttfb": 0.04}))
    steps = analyze(spans).document()["steps"]
    assert steps[0]["ttft_ns"] == ns(40)
    assert analyze(list(map(through, spans))).document()["steps"] == steps


@pytest.mark.parametrize(
    ("value", "length", "parsed"),
    [
        (SECRET, len(SECRET), None),
        ('{"order": 4711}', 15, True),
        ('{"order": 47', 12, False),
        ("  [1, 2]", 8, True),
        (4711, 4, None),
        (["a", "b"], 9, None),
        ({"a": 1}, 7, None),
        ("\u00e9\u00e9", 2, None),
    ],
)
def test_everything_else_leaves_length_digest_and_whether_it_parsed(
    value: Any, length: int, parsed: bool | None
) -> None:
    redacted = value_of("app.notes", value)
    assert redacted.keys() == {"redacted", "digest", "parsed"}
    assert (redacted["redacted"], redacted["parsed"]) == (length, parsed)
    assert len(bytes.fromhex(redacted["digest"])) == 8


@pytest.mark.parametrize("nothing", [None, ""])
@pytest.mark.parametrize("key", ["app.notes", "session.id"])
def test_nothing_stays_nothing(key: str, nothing: str | None) -> None:
    assert value_of(key, nothing) == nothing


@pytest.mark.parametrize("value", ["x" * 201, ["x" * 201], ["x"] * 33, {"a": "b"}, [["a"] * 33]])
def test_a_fact_key_is_no_way_around(value: Any) -> None:
    assert "redacted" in value_of("gen_ai.request.model", value)


@pytest.mark.parametrize(
    ("value", "passes"),
    [
        ("claude-3-5-sonnet@20240620", True),
        ("jane.doe@example.com", False),
        ("use sk-" + "a1b2c3d4e5f6g7h8i9j0", False),
        ("eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.sig", False),
        (["gpt-5", "jane.doe@example.com"], False),
    ],
)
def test_a_fact_with_a_secret_in_it_is_none(value: Any, passes: bool) -> None:
    assert (value_of("gen_ai.request.model", value) == value) is passes


@pytest.mark.parametrize(
    "name",
    [
        "order of jane@example.com",
        "jane@example.com",
        "Where is my order?",
        "n" * 201,
        "4111111111111111",
    ],
)
def test_a_name_that_is_none_is_left_out_and_counted(name: str) -> None:
    span = through(replace(PLAIN, attributes={name: 1, "app.notes": 2}, dropped_attributes=3))
    assert span.attributes.keys() == {"app.notes"}
    assert span.dropped_attributes == 4


def test_equal_values_have_equal_digests_in_one_project_only() -> None:
    def digest(project: models.Project, key: bytes = KEY) -> str:
        return str(value_of("app.notes", SECRET, project=project, key=key)["digest"])

    assert digest(TIMINGS) == digest(TIMINGS)
    assert digest(TIMINGS) != digest(OTHER)
    assert digest(TIMINGS) != digest(TIMINGS, b"other" * 4)


@pytest.mark.parametrize("key", [*common.SESSION_KEYS, *sorted(common.IDENTITY_KEYS)])
def test_people_and_sessions_become_pseudonyms_that_still_join(key: str) -> None:
    first, again, other = (value_of(key, value) for value in ("s-1", "s-1", "s-2"))
    assert first == again != other
    assert first.startswith("anon-")
    assert "s-1" not in first


SECRETIVE = Span(
    trace_id=otlp.TRACE_ID,
    span_id=otlp.SPAN_ID,
    parent_id="",
    name=f"Agent run\n{SECRET}",
    kind=3,
    start_ns=START_NS,
    end_ns=START_NS + 100,
    attributes={
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.input.messages": f'[{{"role": "user", "content": "{SECRET}"}}]',
        "gen_ai.output.messages": f'[{{"role": "assistant", "content": "{SECRET}"}}]',
        "gen_ai.prompt.0.content": SECRET,
        "llm.invocation_parameters": f'{{"stream": true, "user": "{SECRET}"}}',
        "gen_ai.conversation.id": SECRET,
        "gen_ai.agent.name": SECRET * 20,
        "url.full": f"https://shop.example/?q={SECRET}",
        "app.nested": {"deep": [{"er": SECRET}]},
        "user.id": SECRET,
    },
    status=2,
    status_message=f"could not find {SECRET}",
    events=(
        Event("exception", START_NS, {"exception.message": SECRET, "exception.type": "KeyError"}),
        Event("gen_ai.user.message", START_NS, {"content": SECRET}),
        Event(f"user asked for {SECRET}", START_NS),
    ),
    links=(Link(otlp.TRACE_ID, otlp.SPAN_ID, {"note": SECRET}),),
    trace_state=f"vendor={SECRET}",
    scope="agent",
    scope_attributes={"owner": SECRET},
    resource={
        "service.name": "shop",
        "process.command_args": ["run", SECRET],
        "process.owner": SECRET,
        "user.email": SECRET,
    },
)


def test_no_secret_passes_by_any_way() -> None:
    stored = pack_spans([through(SECRETIVE)]).decode()
    assert "4711" not in stored
    assert "jane" not in stored
    assert "gpt-5" in stored
    assert "KeyError" in stored


@pytest.mark.parametrize("key", ["content", "message", "exception.message", "gen_ai.prompt"])
def test_plain_names_of_content_do_not_pass(key: str) -> None:
    (event,) = through(replace(PLAIN, events=(Event("note", 1, {key: SECRET}),))).events
    assert SECRET not in str(event.attributes)


def test_facts_hidden_in_content_are_lifted_out_first() -> None:
    lifted = through(SECRETIVE).attributes[LIFTED]
    assert lifted["prompt"]


@pytest.mark.parametrize("project", [TIMINGS, MASKED])
def test_what_is_lifted_is_no_way_around(project: models.Project) -> None:
    answer = [{"type": "function", "name": SECRET * 20, "id": "jane@example.com", "arguments": "1"}]
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.output.messages": json.dumps(answer),
    }
    lifted = through(replace(PLAIN, attributes=attributes), project).attributes[LIFTED]
    assert lifted["tool_requests"][0][:2] == [NAME_REDACTED, NAME_REDACTED]


def test_a_forged_lift_is_not_believed() -> None:
    forged = replace(PLAIN, attributes={LIFTED: {"prompt": [SECRET]}})
    assert SECRET not in pack_spans([through(forged)]).decode()


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("chat gpt-4o", "chat gpt-4o"),
        ("execute_tool search orders", "execute_tool search orders"),
        ("GET /orders?user=jane&token=1", "GET /orders?"),
        ("GET https://jane:pw1@shop.example/x", "GET https://[secret]@shop.example/x"),
        ("mail to jane@example.com", "mail to [mail]"),
        ("What is it? I ask", "What is it? I ask"),
        ("two\nlines", NAME_REDACTED),
        ("n" * 201, NAME_REDACTED),
    ],
)
def test_span_names_stay_where_they_are_names(name: str, stored: str) -> None:
    assert through(replace(PLAIN, name=name)).name == stored


def test_a_redacted_name_and_message_leave_their_digests() -> None:
    marks = through(replace(PLAIN, name="two\nlines", status_message="no")).attributes[MARKS_KEY]
    assert marks["name"]["redacted"] == len("two\nlines")
    assert marks["status_message"]["redacted"] == len("no")


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("gen_ai.first_token", "gen_ai.first_token"),
        ("First Token Stream Event", "First Token Stream Event"),
        ("mlflow.chunk.item.3", "mlflow.chunk.item.3"),
        ("new_token (backend.chat.new_token)", "new_token (backend.chat.new_token)"),
        ("said (by the user)", NAME_REDACTED),
        ("user said hello", NAME_REDACTED),
        ("order.4111111111111111", NAME_REDACTED),
    ],
)
def test_event_names_stay_where_they_are_identifiers(name: str, stored: str) -> None:
    (event,) = through(replace(PLAIN, events=(Event(name, 1),))).events
    assert event.name == stored


@pytest.mark.parametrize(
    ("key", "passes"),
    [
        ("service.name", True),
        ("service.version", True),
        ("deployment.environment.name", True),
        ("telemetry.sdk.language", True),
        ("k8s.pod.name", True),
        ("host.name", True),
        ("process.command", False),
        ("app.owner", False),
    ],
)
def test_resources_have_an_allowlist_of_their_own(key: str, passes: bool) -> None:
    resource = through(replace(PLAIN, resource={key: "value"})).resource
    assert (resource[key] == "value") is passes


def test_a_shared_resource_passes_once() -> None:
    shared = {"service.name": "shop"}
    first, second = pass_door([replace(PLAIN, resource=shared)] * 2, TIMINGS, KEY)
    assert first.resource is second.resource


@pytest.mark.parametrize("privacy", Privacy)
def test_the_content_of_an_export_goes_without_the_garbage_collector(privacy: Privacy) -> None:
    """A cycle through the door would keep all texts of all exports until a full collection."""
    body = otlp.recorded(otlp.two_turns) + otlp.recorded(otlp.failing_tool)
    project = models.Project(pk=9, privacy=privacy)
    pass_door(read_export(body, otlp.PROTOBUF).spans, project, KEY)
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            pass_door(read_export(body, otlp.PROTOBUF).spans, project, KEY)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_marks_of_the_decoder_stay() -> None:
    assert value_of(MARKS_KEY, {"kind": 99}) == {"kind": 99}


def test_the_analysis_is_the_same_in_all_modes() -> None:
    spans = read_export(otlp.recorded(otlp.two_turns), otlp.PROTOBUF).spans
    full, masked, timings = (
        analyze(pass_door(spans, project, KEY)).document() for project in (FULL, MASKED, TIMINGS)
    )
    assert full["end_to_end_ns"] == 461_000_000
    assert masked == full
    assert (full.pop("session_id"), timings.pop("session_id")[:5]) == ("s-1", "anon-")
    assert full == timings


# --- masked ---

MAIL = "jane@example.com"


def masked_value(name: str, value: Any) -> Any:
    return value_of(name, value, project=MASKED)


def test_masked_keeps_the_very_span_where_there_is_nothing_to_mask() -> None:
    assert through(SECRETIVE, MASKED).attributes.items() >= SECRETIVE.attributes.items()
    assert through(PLAIN, MASKED) is PLAIN


def test_masked_reaches_every_part_of_a_span() -> None:
    span = through(
        replace(
            PLAIN,
            name=f"mail {MAIL}",
            attributes={"input.value": f"to {MAIL}", f"to {MAIL}": 1, "deep": [{MAIL: [MAIL]}]},
            status_message=f"no such {MAIL}",
            trace_state=f"v={MAIL}",
            scope=MAIL,
            events=(
                Event(f"sent to {MAIL}", START_NS, {"exception.message": MAIL}),
                Event("exception", START_NS, {"exception.stacktrace": f"/home/jane/x.py: {MAIL}"}),
            ),
            links=(Link(otlp.TRACE_ID, otlp.SPAN_ID, {"note": MAIL}),),
            scope_attributes={"owner": MAIL},
            resource={"process.command_args": ["--to", MAIL]},
        ),
        MASKED,
    )
    stored = pack_spans([span]).decode()
    assert "jane" not in stored
    assert stored.count("[mail]") == 14


@pytest.mark.parametrize(
    ("key", "value", "stored"),
    [
        ("db.password", "hunter2", "[secret]"),
        ("http.request.header.authorization", ["Bearer x"], "[secret]"),
        ("app.accessToken", "abc", "[secret]"),
        ("config", {"api_key": "x", "n": 1}, {"api_key": "[secret]", "n": 1}),
        ("gen_ai.usage.input_tokens", 12, 12),
        ("app.token", None, None),
        ("card", 4111111111111111, "[card]"),
        ("count", 4111111111111112, 4111111111111112),
        ("gen_ai.response.id", "4111111111111111", "4111111111111111"),
        ("user.id", "u-17", "u-17"),
    ],
)
def test_masked_knows_secrets_by_their_names_and_facts_by_theirs(
    key: str, value: Any, stored: Any
) -> None:
    assert masked_value(key, value) == stored


def test_masked_keeps_who_sent_it_and_where_it_ran() -> None:
    resource = {"host.name": "10.0.0.7", "service.name": "shop", "process.owner": MAIL}
    assert through(replace(PLAIN, resource=resource), MASKED).resource == {
        "host.name": "10.0.0.7",
        "service.name": "shop",
        "process.owner": "[mail]",
    }


def test_masked_keeps_sessions_and_people_apart_where_their_ids_give_them_away() -> None:
    jane, again, joe = (masked_value("user.id", m) for m in (MAIL, MAIL, "joe@example.com"))
    assert jane == again != joe
    assert jane.startswith("anon-")


def test_masked_lifts_facts_with_keyed_digests_before_it_masks() -> None:
    arguments = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "pay",
        "gen_ai.tool.call.arguments": '{"card": 4111111111111111}',
    }
    span = replace(PLAIN, attributes=arguments)
    attributes = through(span, MASKED).attributes
    assert attributes["gen_ai.tool.call.arguments"] == '{"card": [card]}'
    digest, is_json = attributes[LIFTED]["arguments"]
    assert is_json
    assert digest != through(span, MASKED, b"other" * 4).attributes[LIFTED]["arguments"][0]
    assert digest != lift(span, fingerprint)["arguments"][0]


def test_masked_cuts_after_masking(settings: Settings) -> None:
    settings.MAX_VALUE_CHARS = 10
    assert masked_value("note", f"to {MAIL} and on") == "to [mail] ... [cut: 16 characters in all]"


# --- full ---


def test_full_keeps_the_very_span() -> None:
    assert through(SECRETIVE, FULL) is SECRETIVE


def test_full_cuts_what_no_page_could_show(settings: Settings) -> None:
    settings.MAX_VALUE_CHARS = 10
    long = "x" * 2_100_000
    span = through(
        replace(
            PLAIN,
            attributes={"input.value": long, "tags": ["y" * 20], "short": "kept"},
            status_message=long,
            events=(Event("exception", 1, {"exception.stacktrace": long}), Event("fine", 2)),
            resource={"process.command_line": long},
        ),
        FULL,
    )
    cut = "x" * 10 + "... [cut: 2100000 characters in all]"
    assert span.attributes == {
        "input.value": cut,
        "tags": '["yyyyyyyy... [cut: 24 characters in all]',
        "short": "kept",
    }
    assert span.status_message == cut
    assert span.events[0].attributes["exception.stacktrace"] == cut
    assert span.events[1] == Event("fine", 2)
    assert span.resource["process.command_line"] == cut


def test_full_lifts_facts_before_it_cuts(settings: Settings) -> None:
    settings.MAX_VALUE_CHARS = 50
    assert through(SECRETIVE, FULL).attributes[LIFTED]["prompt"]


def test_full_lifts_facts_out_of_events_and_status_messages_too(settings: Settings) -> None:
    settings.MAX_VALUE_CHARS = 50
    answer = json.dumps([{"toolUse": {"name": "pay", "toolUseId": "c1", "input": {}}}] * 3)
    call = replace(
        PLAIN,
        attributes={"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-5"},
        events=(Event("gen_ai.choice", START_NS, {"message": answer}),),
    )
    tool = replace(
        PLAIN,
        attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay"},
        status=2,
        status_message=f"it timed out {'x' * 60}",
    )
    assert through(call, FULL).attributes[LIFTED]["tool_requests"][0][0] == "pay"
    assert through(tool, FULL).attributes[LIFTED]["complaint"] == "timeout"
