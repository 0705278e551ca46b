"""Token counts: input is the whole prompt, cached input its part that was not computed again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.builders import agent, chat, plain
from tests.core.reading import Document, analyzed, notes, step
from tracebudget.core.tokens import Tokens, count

Counts = tuple[int | None, int | None, int | None, int | None]


def read(attributes: dict[str, Any], **fields: Any) -> Document:
    """The analysis of an agent with one call that carries these attributes."""
    name = fields.pop("name", "chat")
    return analyzed(
        agent(0, 100, plain(0, 100, name=name, attributes=attributes, id="call", **fields))
    )


def counts(attributes: dict[str, Any], **fields: Any) -> Counts:
    """(input, cached input, output, reasoning) of that call."""
    call = step(read(attributes, **fields), "call")
    return (
        call["input_tokens"],
        call["cached_input_tokens"],
        call["output_tokens"],
        call["reasoning_tokens"],
    )


GEN_AI = {"gen_ai.operation.name": "chat"}


# --- cached tokens inside or outside of input -----------------------------------------------------


@pytest.mark.parametrize(
    ("emitter", "attributes", "fields"),
    [
        (
            "the conventions",
            {
                **GEN_AI,
                "gen_ai.usage.input_tokens": 1000,
                "gen_ai.usage.cache_read.input_tokens": 600,
            },
            {},
        ),
        (
            "OpenInference",
            {
                "openinference.span.kind": "LLM",
                "llm.token_count.prompt": 1000,
                "llm.token_count.prompt_details.cache_read": 600,
            },
            {},
        ),
        (
            "OpenLLMetry",
            {
                "llm.request.type": "chat",
                "gen_ai.usage.prompt_tokens": 1000,
                "gen_ai.usage.cache_read_input_tokens": 600,
            },
            {},
        ),
        (
            "Claude Code, the conventions' key",
            {
                "gen_ai.usage.input_tokens": 1000,
                "input_tokens": 300,
                "gen_ai.usage.cache_read.input_tokens": 600,
            },
            {"name": "claude_code.llm_request"},
        ),
        (
            "AI SDK 6",
            {
                "ai.operationId": "ai.generateText.doGenerate",
                "ai.usage.inputTokens": 1000,
                "ai.usage.inputTokenDetails.cacheReadTokens": 600,
                "ai.usage.totalTokens": 1000,
            },
            {},
        ),
    ],
)
def test_cached_tokens_are_part_of_input(
    emitter: str, attributes: dict[str, Any], fields: dict[str, Any]
) -> None:
    assert counts(attributes, **fields)[:2] == (1000, 600), emitter


@pytest.mark.parametrize(
    ("emitter", "attributes", "fields"),
    [
        (
            "Claude Code, bare keys",
            {"input_tokens": 300, "cache_read_tokens": 600, "cache_creation_tokens": 100},
            {"name": "claude_code.llm_request"},
        ),
        (
            "AI SDK 5 with Anthropic: more was cached than there is input",
            {
                "ai.operationId": "ai.generateText.doGenerate",
                "ai.usage.inputTokens": 400,
                "ai.usage.cachedInputTokens": 600,
            },
            {},
        ),
        (
            "Langfuse: total = input + output + cache",
            {
                "langfuse.observation.type": "generation",
                "langfuse.observation.usage_details": (
                    '{"input": 400, "output": 50, "cache_read_input_tokens": 100, '
                    '"cache_creation_input_tokens": 500, "total": 1050}'
                ),
            },
            {},
        ),
    ],
)
def test_cached_tokens_beside_input_are_added(
    emitter: str, attributes: dict[str, Any], fields: dict[str, Any]
) -> None:
    assert counts(attributes, **fields)[0] == 1000, emitter


def test_where_it_varies_and_nothing_tells_input_is_taken_as_the_whole() -> None:
    usage = '{"input": 1000, "output": 50, "cache_read_input_tokens": 600, "total": 1050}'
    attributes = {
        "langfuse.observation.type": "generation",
        "langfuse.observation.usage_details": usage,
    }
    assert counts(attributes)[:2] == (1000, 600)


def test_langfuse_may_hold_the_raw_usage_of_openai() -> None:
    usage = {
        "prompt_tokens": 1000,
        "completion_tokens": 50,
        "total_tokens": 1050,
        "prompt_tokens_details": {"cached_tokens": 600},
        "completion_tokens_details": {"reasoning_tokens": 20},
    }
    attributes = {
        "langfuse.observation.type": "generation",
        "langfuse.observation.usage_details": json.dumps(usage),
    }
    assert counts(attributes) == (1000, 600, 50, 20)


# --- reasoning ------------------------------------------------------------------------------------


def test_reasoning_is_part_of_output() -> None:
    attributes = {
        **GEN_AI,
        "gen_ai.usage.output_tokens": 200,
        "gen_ai.usage.reasoning.output_tokens": 150,
    }
    assert counts(attributes)[2:] == (200, 150)


def test_reasoning_that_was_left_out_of_output_is_added() -> None:
    """More reasoning than output, and a total that has both."""
    attributes = {
        **GEN_AI,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 50,
        "gen_ai.usage.reasoning_tokens": 150,
        "gen_ai.usage.total_tokens": 300,
    }
    assert counts(attributes) == (100, None, 200, 150)


def test_more_reasoning_than_output_without_a_total_is_left_as_it_is() -> None:
    attributes = {
        **GEN_AI,
        "gen_ai.usage.output_tokens": 50,
        "gen_ai.usage.reasoning_tokens": 150,
    }
    assert counts(attributes)[2:] == (50, 150)


# --- what is no count -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (120, 120),
        (120.0, 120),
        ("120", 120),
        ("120.0", 120),
        (0, 0),
        (100_000_000, 100_000_000),
        (-1, None),
        (119.6, None),
        ("119.6", None),
        ("n/a", None),
        (100_000_001, None),
        (True, None),
        (float("nan"), None),
        (float("inf"), None),
        ("nan", None),
        (None, None),
        ([120], None),
        ({}, None),
    ],
)
def test_a_count_is_a_whole_number(value: Any, expected: int | None) -> None:
    assert count(value) == expected


@pytest.mark.parametrize("value", [-1, 119.6, "n/a", 1e12, [1]])
def test_a_refused_count_is_unknown_and_noted(value: Any) -> None:
    document = read({**GEN_AI, "gen_ai.usage.input_tokens": value})
    assert step(document, "call")["input_tokens"] is None
    assert notes(document)["tokens_refused"]["evidence"]["keys"] == ["gen_ai.usage.input_tokens"]


def test_a_missing_count_is_unknown_never_0() -> None:
    document = analyzed(agent(0, 100, chat(0, 100, id="call")))
    assert step(document, "call")["input_tokens"] is None
    assert step(document, "call")["cached_input_tokens"] is None
    assert notes(document)["tokens_missing"]["span_ids"] == ["call"]
    assert notes(document)["tokens_missing"]["evidence"]["of"] == 1


def test_a_count_of_0_is_known() -> None:
    document = analyzed(agent(0, 100, chat(0, 100, input=0, output=0, id="call")))
    assert (step(document, "call")["input_tokens"], step(document, "call")["output_tokens"]) == (
        0,
        0,
    )
    assert "tokens_missing" not in notes(document)


def test_a_failed_call_misses_no_count() -> None:
    document = analyzed(agent(0, 100, chat(0, 100, error="429")))
    assert "tokens_missing" not in notes(document)


def test_openlits_zero_says_nothing_of_the_cache() -> None:
    attributes = {
        **GEN_AI,
        "gen_ai.usage.input_tokens": 1000,
        "gen_ai.usage.cache_read.input_tokens": 0,
    }
    assert counts(attributes)[1] == 0
    assert counts(attributes, scope="openlit.otel.tracing")[1] is None


def test_the_same_counts_under_four_dialects_are_counted_once() -> None:
    attributes = {
        **GEN_AI,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.prompt_tokens": 100,
        "llm.token_count.prompt": 100,
        "llm.usage.total_tokens": 120,
        "ai.usage.promptTokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "llm.token_count.completion": 20,
        "openinference.span.kind": "LLM",
    }
    assert counts(attributes)[0] == 100
    assert counts(attributes)[2] == 20


def test_uncached_input_is_what_had_to_be_computed() -> None:
    assert Tokens(input=1000, cached_input=600).uncached_input == 400
    assert Tokens(input=1000).uncached_input == 1000
    assert Tokens(input=10, cached_input=600).uncached_input == 0
    assert Tokens().uncached_input is None
