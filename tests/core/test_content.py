"""What the core knows of content without keeping it: fingerprints, lengths, yes and no."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import pytest

from tests.builders import Branch, agent, chat, make_span, make_trace, messages, plain, tool
from tests.core.reading import report_of
from tracebudget.core.content.arguments import canonical_arguments
from tracebudget.core.content.lifting import lift
from tracebudget.core.dialects.facts import LIFTED
from tracebudget.core.span import Event, Span
from tracebudget.core.step import Step

GEN_AI = {"gen_ai.operation.name": "chat"}
OPENINFERENCE = {"openinference.span.kind": "LLM"}


def step_of(span: Span | Branch) -> Step:
    """The one step of an agent, read from its span."""
    branch = span if isinstance(span, Branch) else Branch(replace(span, span_id="the step"))
    steps = report_of(agent(0, 1000, branch)).steps
    step = steps[-1].step
    assert step is not None
    return step


def call(attributes: dict[str, Any], *events: Event, name: str = "chat") -> Step:
    return step_of(replace(make_span(name, attributes=attributes), events=events))


# --- the tools that an answer asked for -----------------------------------------------------------

ARGUMENTS = '{"q": "opening hours"}'
PARSED = {"q": "opening hours"}

OPENAI = {
    "role": "assistant",
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "search", "arguments": ARGUMENTS}}
    ],
}
RESPONSES = {
    "type": "function_call",
    "id": "fc_1",  # the item's own id: the tool goes by the other one
    "call_id": "c1",
    "name": "search",
    "arguments": ARGUMENTS,
}
ANTHROPIC = {"type": "tool_use", "id": "c1", "name": "search", "input": PARSED}
GEMINI = {"functionCall": {"name": "search", "args": PARSED}}
BEDROCK = {"toolUse": {"toolUseId": "c1", "name": "search", "input": PARSED}}
LANGCHAIN = {"type": "tool_call", "id": "c1", "name": "search", "args": PARSED}
AI_SDK = {"toolCallId": "c1", "toolName": "search", "input": ARGUMENTS}
AI_SDK_4 = {"toolCallType": "function", "toolCallId": "c1", "toolName": "search", "args": ARGUMENTS}
GENKIT = {"toolRequest": {"name": "search", "ref": "c1", "input": PARSED}}
HAYSTACK = {"tool_call": {"id": "c1", "tool_name": "search", "arguments": PARSED}}


def semconv(arguments: Any) -> str:
    """An answer in words and one request, as the conventions write it."""
    text = {"type": "text", "content": "one moment"}
    part = {"type": "tool_call", "id": "c1", "name": "search", "arguments": arguments}
    return json.dumps([{"role": "assistant", "parts": [text, part]}])


DETAILS = "gen_ai.client.inference.operation.details"
OI_CALL = "llm.output_messages.0.message.tool_calls.0.tool_call."
OLLM_CALL = "gen_ai.completion.0.tool_calls.0."

# Shape -> (attributes, events) of a span whose answer asks for `search` under the id c1.
ANSWERS: dict[str, tuple[dict[str, Any], list[Event]]] = {
    "OTel GenAI": ({**GEN_AI, "gen_ai.output.messages": semconv(PARSED)}, []),
    "OTel GenAI, in an event": (
        GEN_AI,
        [Event(DETAILS, 0, {"gen_ai.output.messages": semconv(ARGUMENTS)})],
    ),
    "OTel GenAI before 1.37": (
        GEN_AI,
        [Event("gen_ai.choice", 0, {"message": json.dumps(OPENAI), "index": 0})],
    ),
    "OpenInference": (
        {
            **OPENINFERENCE,
            "llm.output_messages.0.message.role": "assistant",
            f"{OI_CALL}id": "c1",
            f"{OI_CALL}function.name": "search",
            f"{OI_CALL}function.arguments": ARGUMENTS,
        },
        [],
    ),
    "OpenLLMetry": (
        {
            "llm.request.type": "chat",
            f"{OLLM_CALL}id": "c1",
            f"{OLLM_CALL}name": "search",
            f"{OLLM_CALL}arguments": ARGUMENTS,
        },
        [],
    ),
    "AI SDK": (
        {"ai.operationId": "ai.x.doGenerate", "ai.response.toolCalls": json.dumps([AI_SDK])},
        [],
    ),
    "AI SDK 4": (
        {"ai.operationId": "ai.x.doGenerate", "ai.response.toolCalls": json.dumps([AI_SDK_4])},
        [],
    ),
    "OpenAI chat completions": (
        {**OPENINFERENCE, "output.value": json.dumps({"choices": [{"message": OPENAI}]})},
        [],
    ),
    "OpenAI responses": (
        {**OPENINFERENCE, "output.value": json.dumps({"output": [RESPONSES]})},
        [],
    ),
    "Anthropic messages": (
        {**OPENINFERENCE, "output.value": json.dumps({"type": "message", "content": [ANTHROPIC]})},
        [],
    ),
    "Genkit": (
        {
            "genkit:metadata:subtype": "model",
            "genkit:output": json.dumps({"message": {"role": "model", "content": [GENKIT]}}),
        },
        [],
    ),
    "events that end with the assistant": (
        {
            **GEN_AI,
            "events": json.dumps(
                [
                    {"event.name": "gen_ai.user.message", "content": "hello"},
                    {"event.name": "gen_ai.assistant.message", **OPENAI},
                ]
            ),
        },
        [],
    ),
    "Gemini": (
        {
            "gen_ai.operation.name": "generate_content",
            "gcp.vertex.agent.llm_response": json.dumps({"content": {"parts": [GEMINI]}}),
        },
        [],
    ),
    "Bedrock converse": (
        {**GEN_AI, "gen_ai.output.messages": json.dumps([{"content": [BEDROCK]}])},
        [],
    ),
    "LangChain": (
        {
            **OPENINFERENCE,
            "output.value": json.dumps({"generations": [[{"tool_calls": [LANGCHAIN]}]]}),
        },
        [],
    ),
    "Langfuse": (
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.output": json.dumps(OPENAI),
        },
        [],
    ),
    "LangSmith": ({"langsmith.span.kind": "llm", "gen_ai.completion": json.dumps(OPENAI)}, []),
    "MLflow": (
        {
            "mlflow.spanType": '"CHAT_MODEL"',
            "mlflow.spanOutputs": json.dumps({"choices": [{"message": OPENAI}]}),
        },
        [],
    ),
    "Logfire": (
        {
            **GEN_AI,
            "logfire.msg_template": "Chat Completion",
            "response_data": json.dumps({"message": OPENAI}),
        },
        [],
    ),
    "Haystack": (
        {"haystack.agent.step.llm.output": json.dumps({"replies": [{"content": [HAYSTACK]}]})},
        [],
    ),
}  # fmt: skip


def step_from(shape: str) -> Step:
    attributes, events = ANSWERS[shape]
    name = "haystack.agent.step.llm" if shape == "Haystack" else "call"
    return call(attributes, *events, name=name)


@pytest.mark.parametrize("shape", ANSWERS)
def test_every_shape_of_a_tool_request_says_the_same(shape: str) -> None:
    """Name, call id, and that its arguments are JSON, however they are written."""
    (request,) = step_from(shape).tool_requests
    assert (request.name, request.call_id) == ("search", None if shape == "Gemini" else "c1")
    assert request.parsed is True
    assert step_from(shape).asks_for_tools() is True


def test_several_requests_come_in_order_and_each_once() -> None:
    """The same answer stands in two attributes of one span: two requests, not four."""
    both = json.loads(json.dumps(OPENAI))
    both["tool_calls"].append(
        {"id": "c2", "type": "function", "function": {"name": "fetch", "arguments": "{}"}}
    )
    attributes = {
        **OPENINFERENCE,
        "output.value": json.dumps({"choices": [{"message": both}, {"message": both}]}),
    }
    assert [(r.name, r.call_id) for r in call(attributes).tool_requests] == [
        ("search", "c1"),
        ("fetch", "c2"),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        '[{"role": "assistant", "parts": [{"type": "text", "content": "Open until six."}]}]',
        '[{"role": "assistant", "parts": [{"type": "text", "content": "use the tool"}]}]',
    ],
)
def test_an_answer_that_asks_for_nothing(answer: str) -> None:
    step = call({**GEN_AI, "gen_ai.output.messages": answer})
    assert step.tool_requests == ()
    assert step.asks_for_tools() is False


def test_no_answer_is_not_an_answer_that_asks_for_nothing() -> None:
    assert call(GEN_AI).asks_for_tools() is None


@pytest.mark.parametrize(
    ("reasons", "asks"),
    [
        (["tool_calls"], True),
        (["tool_use"], True),
        ('["tool-calls"]', True),
        ("STOP", False),
        (["stop"], False),
        (["end_turn"], False),
        (["length"], False),
        (["refusal"], None),
        (None, None),
    ],
)
def test_the_finish_reason_tells_where_there_is_no_content(reasons: Any, asks: bool | None) -> None:
    assert call({**GEN_AI, "gen_ai.response.finish_reasons": reasons}).asks_for_tools() is asks


def test_gemini_says_stop_when_it_asks_for_tools_too() -> None:
    attributes = {
        **GEN_AI,
        "gen_ai.response.finish_reasons": ["STOP"],
        "gen_ai.provider.name": "gcp.gemini",
    }
    assert call(attributes).asks_for_tools() is None


@pytest.mark.parametrize(
    ("arguments", "parsed"),
    [
        ("{}", True),
        ('{"q": 1}', True),
        ('{"q": "par', False),
        ('{"q": 1}}', False),
        ("[1, 2", False),
    ],
)
def test_arguments_that_are_no_json_are_seen(arguments: str, parsed: bool) -> None:
    step = call({**GEN_AI, "gen_ai.output.messages": semconv(arguments)})
    assert step.tool_requests[0].parsed is parsed


def test_a_hostile_answer_ends() -> None:
    deep: Any = {"type": "tool_call", "id": "c1", "name": "search", "arguments": {}}
    for _ in range(200):
        deep = {"tool": [deep] * 5} if isinstance(deep, dict) and "type" in deep else {"x": deep}
    step = call({**GEN_AI, "gen_ai.output.messages": json.dumps(deep)})
    assert len(step.tool_requests) <= 1
    wide = json.dumps([{"tool": n} for n in range(50_000)])
    assert call({**GEN_AI, "gen_ai.output.messages": wide}).tool_requests == ()


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "null", "7", '"tool"', ""])
def test_an_answer_that_is_no_message_asks_for_nothing(text: str) -> None:
    assert call({**GEN_AI, "gen_ai.output.messages": text}).tool_requests == ()


# --- prompts --------------------------------------------------------------------------------------


def prompt(*texts: str) -> tuple[str, ...]:
    found = call({**GEN_AI, "gen_ai.input.messages": messages(texts)}).prompt
    assert found is not None
    return found


def test_a_prompt_is_the_fingerprints_of_its_growing_prefixes() -> None:
    """The next turn's prompt begins with this one's: its last fingerprint is in that one."""
    first, second = prompt("hello"), prompt("hello", "and more")
    assert (len(first), len(second)) == (1, 2)
    assert first[-1] in second
    assert second[-1] not in first


def test_another_beginning_is_no_prefix() -> None:
    assert not set(prompt("goodbye", "and more")) & set(prompt("hello", "and more"))


def test_a_very_long_prompt_is_covered_by_its_last_fingerprint() -> None:
    texts = [f"message {n}" for n in range(400)]
    assert len(prompt(*texts)) == 256
    assert prompt(*texts)[-1] != prompt(*texts[:-1])[-1]


@pytest.mark.parametrize(
    "attributes",
    [
        {"llm.input_messages.0.message.content": "hello", **OPENINFERENCE},
        {"gen_ai.prompt.0.content": "hello", "llm.request.type": "chat"},
        {"ai.prompt.messages": '[{"content": "hello"}]', "ai.operationId": "ai.x.doGenerate"},
        {"input.value": '{"messages": [{"content": "hello"}]}', **OPENINFERENCE},
        {"input.value": "hello", **OPENINFERENCE},
        {"langfuse.observation.input": '"hello"', "langfuse.observation.type": "generation"},
        {"mlflow.spanInputs": '{"messages": ["hello"]}', "mlflow.spanType": '"LLM"'},
    ],
)
def test_every_place_of_a_prompt_is_read(attributes: dict[str, Any]) -> None:
    assert call(attributes).prompt is not None
    assert len(call(attributes).prompt or ()) == 1


def test_a_prompt_in_events_is_read() -> None:
    events = [
        Event("gen_ai.system.message", 0, {"content": "be brief"}),
        Event("gen_ai.user.message", 0, {"content": "hello"}),
    ]
    assert len(call(GEN_AI, *events).prompt or ()) == 2


def test_a_prompt_in_the_conventions_event_is_read() -> None:
    """One event a key, as Strands writes them."""
    events = [
        Event(DETAILS, 0, {"gen_ai.input.messages": messages(["a", "b"])}),
        Event(DETAILS, 0, {"gen_ai.output.messages": semconv(ARGUMENTS)}),
    ]
    step = call(GEN_AI, *events)
    assert len(step.prompt or ()) == 2
    assert [request.name for request in step.tool_requests] == ["search"]


def test_a_tools_content_in_events_is_read() -> None:
    """Strands writes arguments and result as messages."""
    events = (
        Event("gen_ai.tool.message", 0, {"role": "tool", "content": ARGUMENTS, "id": "c1"}),
        Event("gen_ai.choice", 0, {"message": '{"error": "no such city"}', "id": "c1"}),
    )
    attributes = {"gen_ai.system": "strands-agents", "gen_ai.tool.name": "search"}
    step = step_of(replace(make_span("execute_tool search", attributes=attributes), events=events))
    same = step_of(tool(0, 10, arguments=ARGUMENTS))
    assert step.arguments == same.arguments
    assert step.is_error


def test_no_prompt_is_none() -> None:
    assert call(GEN_AI).prompt is None
    assert call({**GEN_AI, "gen_ai.input.messages": ""}).prompt is None


# --- arguments and results of tools ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a": 1, "b": 2}', '{"b":2,"a":1}'),
        ('{"a": 1}', '{"arguments": "{\\"a\\": 1}"}'),
        ('{"a": 1}', '{"args": ["{\\"a\\": 1}"], "kwargs": {}}'),
        ({"a": 1}, '{"a": 1}'),
    ],
    ids=["order and blanks", "wrapped", "LangChain", "structured"],
)
def test_equal_arguments_are_equal_however_they_are_written(one: Any, other: Any) -> None:
    assert canonical_arguments(one)[0] == canonical_arguments(other)[0]


def test_different_arguments_are_different() -> None:
    assert canonical_arguments('{"a": 1}')[0] != canonical_arguments('{"a": 2}')[0]


@pytest.mark.parametrize(
    ("value", "is_json"),
    [
        ('{"a": 1}', True),
        ({"a": 1}, True),
        ("[1]", True),
        ("hello", None),  # plain text, of which nobody said that it were JSON
        ("{'a': 1}", None),  # Python's spelling
        ('{"a": ', False),
        ('{"INVALID_JSON": "{\\"a\\": "}', False),  # Pydantic AI's mark
        ('{"arguments": "{\\"a\\": "}', False),
    ],
)
def test_whether_arguments_are_json(value: Any, is_json: bool | None) -> None:
    assert canonical_arguments(value)[1] is is_json


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        ('{"error": "no such order"}', True),
        ('{"isError": true, "content": []}', True),
        ('{"is_error": true}', True),
        ('{"status": "error", "content": "x"}', True),
        ('{"state": "error", "content": "x"}', True),
        ('{"state": "success", "note": "no error"}', False),
        ('{"data": {"error": "x"}}', True),
        ('{"error": null, "orders": []}', False),
        ('{"errors": 0}', False),
        ("an error occurred", False),  # text is no evidence
        ("[]", False),
        (None, False),
    ],
)
def test_a_result_that_reports_failure_is_a_failed_call(result: str | None, failed: bool) -> None:
    assert step_of(tool(0, 10, result=result)).is_error is failed


# --- the privacy door -----------------------------------------------------------------------------

CONTENT_KEYS = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
)


def keyed(data: bytes) -> str:
    return blake2b(data, digest_size=8, key=b"of one project").hexdigest()


def dropped(span: Span) -> Span:
    """What the door leaves of a span: facts, and what was lifted out of content."""
    lifted = lift(span, keyed)
    kept = {key: value for key, value in span.attributes.items() if key not in CONTENT_KEYS}
    events = tuple(replace(event, attributes={}) for event in span.events)
    return replace(span, attributes={**kept, LIFTED: lifted} if lifted else kept, events=events)


def facts(span: Span) -> dict[str, Any]:
    step = step_of(span)
    content = step.content
    assert content is not None
    return {
        "requests": [(r.name, r.call_id, r.parsed) for r in content.tool_requests or ()],
        "asks": step.asks_for_tools(),
        "prompt": len(content.prompt or ()),
        "json": None if content.arguments is None else content.arguments[1],
        "result": content.result,
        "error": step.is_error,
    }


@pytest.mark.parametrize(
    "branch",
    [
        chat(0, 100, prompt=["hello", "more"], asks={"c1": "search"}, arguments='{"q": 1}'),
        chat(0, 100, prompt=["hello"], asks={"c1": "search"}, arguments='{"q": '),
        chat(0, 100),
        tool(0, 100, arguments={"q": 1}, result={"error": "no"}),
        tool(0, 100, arguments="{'q': 1}", result="fine"),
        tool(0, 100),
    ],
    ids=["asks", "broken", "bare", "failed tool", "python arguments", "bare tool"],
)
def test_what_is_lifted_says_what_the_content_said(branch: Branch) -> None:
    (span,) = make_trace(branch)
    assert facts(dropped(span)) == facts(span)


def test_lifted_facts_hold_no_content() -> None:
    (span,) = make_trace(
        chat(0, 100, prompt=["my secret"], asks={"c1": "search"}, arguments='{"q": "secret"}')
    )
    assert "secret" not in json.dumps(lift(span, keyed))


def test_lifted_fingerprints_are_keyed() -> None:
    (span,) = make_trace(chat(0, 100, prompt=["hello"]))
    other = lift(span, lambda data: blake2b(data, digest_size=8, key=b"of another").hexdigest())
    assert lift(span, keyed)["prompt"] != other["prompt"]
    assert lift(span, keyed) == lift(span, keyed)


def test_a_sender_may_not_speak_for_the_door() -> None:
    """What a span claims to be lifted is left out before the door lifts."""
    forged = {LIFTED: {"tool_requests": [["rm", "c9", True, "0"]]}}
    (span,) = make_trace(chat(0, 100, asks={"c1": "search"}, attributes=forged))
    assert [row[0] for row in lift(span, keyed)["tool_requests"]] == ["search"]


def test_a_plain_span_has_nothing_to_lift() -> None:
    assert lift(make_span(attributes={"input.value": "x"}), keyed) == {}


def test_facts_inside_content_are_lifted() -> None:
    """A stream flag in invocation parameters, a first token's time in an output."""
    flag = make_span(
        attributes={**OPENINFERENCE, "llm.invocation_parameters": '{"stream": true, "n": 1}'}
    )
    assert lift(flag, keyed)["facts"]["streaming"] == [True, "llm.invocation_parameters"]
    lifted = replace(flag, attributes={**OPENINFERENCE, LIFTED: lift(flag, keyed)})
    step = step_of(lifted)
    assert step.model is not None
    assert step.model.streamed is True


def test_a_provider_in_json_is_lifted() -> None:
    mlflow = {"mlflow.spanType": '"LLM"'}
    call = make_span(attributes={**mlflow, "mlflow.llm.provider": '"anthropic"'})
    lifted = replace(call, attributes={**mlflow, LIFTED: lift(call, keyed)})
    step = step_of(lifted)
    assert step.model is not None
    assert step.model.provider == "anthropic"


def test_long_text_is_content_whatever_its_key() -> None:
    parameters = json.dumps({"stream": "x" * 101})
    span = make_span(attributes={**OPENINFERENCE, "llm.invocation_parameters": parameters})
    assert "streaming" not in lift(span, keyed).get("facts", {})


def test_of_free_error_text_only_its_presence_is_lifted() -> None:
    span = make_span(
        "claude_code.llm_request", attributes={"error": "Invalid key sk-123", "success": False}
    )
    assert lift(span, keyed)["facts"]["error"] == [True, "error"]


def test_calls_that_describe_one_call_lend_each_other_their_content() -> None:
    """The framework's span has the messages, the SDK's has the usage."""
    inner = chat(10, 90, input=10, output=5)
    wrapped = chat(0, 100, inner, asks={"c1": "search"}, prompt=["hello"])
    steps = report_of(agent(0, 100, wrapped)).calls
    assert steps[0].step is not None
    assert [request.name for request in steps[0].step.tool_requests] == ["search"]
    assert steps[0].step.prompt is not None


def test_a_redacted_value_is_no_content() -> None:
    redacted = {"redacted": 120, "digest": "ab", "parsed": True}
    step = call({**GEN_AI, "gen_ai.input.messages": redacted, "gen_ai.output.messages": redacted})
    assert step.prompt is None
    assert step.asks_for_tools() is None


def test_only_calls_and_tools_have_content() -> None:
    steps = report_of(plain(0, 100, agent(0, 100))).steps
    assert [step.step.content for step in steps if step.step is not None] == [None]
