"""Reading a fact where a row of a table says that it stands."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import agent, at, chat, make_span, plain
from tests.core.reading import Document, analyzed, ms, step
from tracebudget.core.dialects.facts import read_value
from tracebudget.core.dialects.table import read_candidate

SPAN = make_span(
    "chat_streaming",
    attributes={
        "text": "hours",
        "quoted": '"hours"',
        "number": 3,
        "zero": 0,
        "empty": "",
        "gone": {"redacted": 5, "digest": "ab", "parsed": None},
        "json": '{"replies": [{"meta": {"model": "m", "usage": {"n": 7}}}]}',
        "escaped": '{"\\u0075sage": {"n": 7}}',
        "broken": '{"replies": [',
        "literal": "{'usage': {'n': 7}, 'stop': None}",
        "summary": "ToolCall(tool_name='search', tool_id='c1')",
        "stage": "validation",
    },
    events=[("chunk.0", 20), ("chunk.1", 30), ("first", 25)],
    resource={"service.version": "1.4"},
)


@pytest.mark.parametrize(
    ("row", "value"),
    [
        ({"key": "text"}, "hours"),
        ({"key": "quoted"}, "hours"),  # MLflow and Langfuse write text with its quotes
        ({"key": "number"}, 3),
        ({"key": "zero"}, 0),
        ({"key": "empty"}, None),
        ({"key": "gone"}, None),
        ({"key": "nowhere"}, None),
        ({"from": "json", "key": "json", "path": "replies[0].meta.usage.n"}, 7),
        ({"from": "json", "key": "json", "path": "replies[1].meta"}, None),
        ({"from": "json", "key": "json", "path": "replies.meta"}, None),
        ({"from": "json", "key": "escaped", "path": "usage.n"}, 7),
        ({"from": "json", "key": "broken", "path": "replies"}, None),
        ({"from": "literal", "key": "literal", "path": "usage.n"}, 7),
        ({"from": "literal", "key": "broken", "path": "usage"}, None),
        ({"from": "span_name"}, "chat_streaming"),
        ({"from": "span_name", "matches": "streaming$"}, True),
        ({"from": "span_name", "matches": "^stream"}, False),
        ({"from": "span_name", "proves": "chat_"}, True),
        ({"from": "span_name", "proves": "stream"}, None),
        ({"from": "resource", "key": "service.version"}, "1.4"),
        ({"from": "event_time", "key": "first"}, at(25)),
        ({"from": "event_time", "key_prefix": "chunk."}, at(20)),
        ({"from": "event_time", "key_prefix": "chunk.", "pick": "latest"}, at(30)),
        ({"from": "event_time", "key_prefix": "chunk.", "require": "chunk.9"}, None),
        ({"key": "summary", "extract": "tool_id='([^']*)'"}, "c1"),
        ({"key": "text", "extract": "tool_id='([^']*)'"}, None),
        ({"key": "number", "extract": "(3)"}, None),
        ({"key": "stage", "equals": "validation"}, True),
        ({"key": "text", "equals": "validation"}, None),
        ({"key": "text", "unknown": "hours"}, None),
        ({"key": "text", "when": {"attr": "number"}}, "hours"),
        ({"key": "text", "when": {"attr": "nowhere"}}, None),
    ],
)
def test_a_row_reads(row: dict[str, Any], value: Any) -> None:
    assert read_value(SPAN, read_candidate(row)) == value


# --- what children tell ---------------------------------------------------------------------------


def mastra(*chunks: tuple[float, float]) -> Document:
    """A call whose chunks are spans below it."""
    below = (
        plain(start, end, name=f"model_chunk {n}", scope="@mastra/otel-exporter")
        for n, (start, end) in enumerate(chunks)
    )
    call = chat(0, 500, *below, output=40, scope="@mastra/otel-exporter", id="call")
    return step(analyzed(agent(0, 500, call)), "call")


def test_the_first_chunk_that_lasts_is_the_first_token() -> None:
    """One without length is a record, written when all was over."""
    found = mastra((490, 490), (120, 480))
    assert (ms(found["ttft_ns"]), found["ttft_from"]) == (120, "child:model_chunk *")


def test_chunks_without_length_tell_nothing() -> None:
    assert mastra((490, 490))["ttft_source"] == "unknown"


# --- keys with a part that varies -----------------------------------------------------------------


def test_a_key_may_name_its_provider() -> None:
    """LiteLLM's copy of a request, alone: `llm.<provider>.usage`, in Python's spelling."""
    raw = plain(
        0,
        400,
        name="raw_gen_ai_request",
        scope="litellm",
        attributes={"llm.openai.usage": "{'prompt_tokens': 45, 'completion_tokens': 60}"},
        id="raw",
    )
    found = step(analyzed(agent(0, 500, raw)), "raw")
    assert (found["kind"], found["input_tokens"], found["output_tokens"]) == ("model_call", 45, 60)
