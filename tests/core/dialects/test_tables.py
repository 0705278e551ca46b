"""The tables themselves: they load, agree with each other, and let no content through."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib import resources
from typing import Any

import pytest

from tracebudget.core.dialects import DIALECTS, FACT_KEYS, common
from tracebudget.core.dialects.facts import READERS
from tracebudget.core.dialects.table import Candidate, load_tables, parse_path
from tracebudget.core.step import StepKind
from tracebudget.core.ttft import MOMENTS

FOLDER = resources.files("tracebudget.core.dialects") / "tables"
TABLES: dict[str, dict[str, Any]] = {
    file.name: tomllib.loads(file.read_text("utf-8")) for file in FOLDER.iterdir()
}

# Roles beside the kinds of step: a span that repeats another, one that wraps a call, one that is
# none of these, and the record that ends a stream.
ROLES = {kind.value for kind in StepKind} | {"copy", "ignore", "other", "stream_log", "wrapper"}


def candidates() -> Iterator[tuple[str, str, Candidate]]:
    for dialect in DIALECTS:
        for fact, rows in dialect.facts.items():
            for row in rows:
                yield dialect.id, fact, row


@pytest.mark.parametrize("name", TABLES)
def test_a_table_says_who_it_is_and_how_it_is_known(name: str) -> None:
    table = TABLES[name]
    assert name == f"{table['id']}.toml"
    assert table["label"]
    assert table["sources"]
    assert table["evidence"] in {"recorded", "documentation"}
    assert table.get("input_includes_cache", "varies") in {"yes", "no", "varies"}
    assert table.get("extends", table["id"]) in {t["id"] for t in TABLES.values()}


def test_all_tables_load() -> None:
    assert sorted(dialect.id for dialect in load_tables()) == sorted(
        table["id"] for table in TABLES.values()
    )


def test_ranks_are_unique_and_decide_the_order() -> None:
    ranks = [dialect.rank for dialect in DIALECTS]
    assert ranks == sorted(set(ranks))


def test_native_dialects_stand_before_those_that_processors_add() -> None:
    rank = {dialect.id: dialect.rank for dialect in DIALECTS}
    natives = [
        "claude_code", "ai_sdk_legacy", "pydantic_ai", "logfire_llm", "strands", "google_adk",
        "litellm_v2", "haystack", "langfuse", "langsmith", "mlflow", "openlit", "vllm",
    ]  # fmt: skip
    assert max(rank[name] for name in natives) < rank["openinference"] < rank["openllmetry"]
    assert rank["openllmetry"] < rank["gen_ai"]


def test_every_role_is_known() -> None:
    assert {role.role for dialect in DIALECTS for role in dialect.roles} <= ROLES


def test_every_key_of_a_fact_passes_the_privacy_door_or_is_content() -> None:
    """A fact under any other key would be lost in *timings only*, or let content through."""
    lost = [
        (dialect, fact, row.key)
        for dialect, fact, row in candidates()
        if row.source in {"attr", "event_attr"} and not _passes(row)
    ]
    assert lost == []


def _passes(row: Candidate) -> bool:
    return row.key in FACT_KEYS or common.is_content(row.key) or row.source == "event_attr"


def test_no_content_is_on_the_list_of_facts() -> None:
    assert [key for key in FACT_KEYS if common.is_content(key)] == []


@pytest.mark.parametrize(
    "key",
    [
        "gen_ai.input.messages",
        "gen_ai.prompt.0.content",
        "llm.input_messages.3.message.content",
        "input.value",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
        "ai.toolCall.args",
        "exception.message",
        "url.full",
        "db.query.text",
        "user_prompt",
        "langfuse.observation.metadata.note",
        "http.request.header.authorization",
    ],
)
def test_content_is_known_as_content(key: str) -> None:
    assert common.is_content(key)
    assert key not in FACT_KEYS


@pytest.mark.parametrize("key", ["gen_ai.prompt.name", "gen_ai.prompt.version"])
def test_a_prompts_name_is_no_content(key: str) -> None:
    assert not common.is_content(key)


@pytest.mark.parametrize(
    "key",
    [
        "gen_ai.usage.input_tokens",
        "gen_ai.response.time_to_first_chunk",
        "openinference.span.kind",
        "ttft_ms",
        "gen_ai.tool.call.id",
        "http.response.status_code",
        "session.id",
    ],
)
def test_facts_pass(key: str) -> None:
    assert key in FACT_KEYS


def test_every_source_of_a_fact_can_be_read() -> None:
    assert {row.source for _, _, row in candidates()} <= set(READERS)


def test_units_are_units() -> None:
    units = {row.unit for _, _, row in candidates()}
    assert units <= {"", "s", "ms", "us", "ns", "iso8601", "iso8601_naive_local", "ambiguous"}


def test_a_first_token_always_has_its_unit() -> None:
    bare = [
        (dialect, row.key)
        for dialect, fact, row in candidates()
        if fact == "ttft" and row.source not in MOMENTS and not row.unit
    ]
    assert bare == []


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("usage", ("usage",)),
        ("replies[0].meta.usage", ("replies", 0, "meta", "usage")),
        ("", ()),
        ("[2]", (2,)),
    ],
)
def test_a_path_into_json(text: str, path: tuple[str | int, ...]) -> None:
    assert parse_path(text) == path


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ("openai", "openai"),
        ("openai.chat", "openai"),
        ("azure", "azure.ai.openai"),
        ("vertex_ai", "gcp.vertex_ai"),
        ("xai", "x_ai"),
        ("strands-agents", None),
        ("gcp.vertex.agent", None),
        ("", None),
    ],
)
def test_one_spelling_a_provider(raw: str, name: str | None) -> None:
    assert common.provider_name(raw) == name
