"""Where each fact of a step was read."""

from __future__ import annotations

import pytest

from tests.builders import chat, make_trace, plain
from tests.core.reading import FIXTURES, document_of, fixture_traces
from tracebudget.core.dialects import CONTENT_FACTS, DIALECTS
from tracebudget.core.provenance import STANDING, Standing, Telling, Told, tellings
from tracebudget.core.span import Span

RECORDED = sorted(
    f"recorded/{path.name}"
    for path in (FIXTURES / "recorded").glob("*.json")
    if path.name != "truth.json"
)


def facts_of(telling: Telling) -> dict[str, Told]:
    return {told.fact: told for told in telling.facts}


def test_an_attribute_is_named_by_its_key() -> None:
    (telling,) = tellings(make_trace(chat(0, 100, ttft=58, input=1240)), "0000000000000001")
    facts = facts_of(telling)
    assert facts["input_tokens"].value == 1240
    assert facts["input_tokens"].where == "gen_ai.usage.input_tokens"
    assert facts["ttft"].where == "gen_ai.response.time_to_first_chunk"
    assert (facts["ttft"].value, facts["ttft"].unit) == (0.058, "s")
    assert {told.standing for told in facts.values()} == {Standing.ATTRIBUTE}


def test_a_plain_span_tells_nothing() -> None:
    assert tellings(make_trace(plain(0, 10)), "0000000000000001") == []


def test_a_call_is_told_by_each_of_its_spans_its_own_first() -> None:
    """
    wrapper  |----------|   knows the model; describes the call below it
      call     |------|     carries the usage
    """
    inner = chat(10, 90, id="call", model="", input=10, output=5)
    spans = make_trace(chat(0, 100, inner, id="wrapper", model="lpx"))
    own, lent = tellings(spans, "call")
    assert (own.span.span_id, lent.span.span_id) == ("call", "wrapper")
    assert "model_request" not in facts_of(own)
    assert facts_of(lent)["model_request"].value == "lpx"
    (alone,) = tellings(spans, "wrapper")
    assert alone.span.span_id == "wrapper"


def test_a_model_that_is_named_further_up_is_said_to_stand_there() -> None:
    """Codex writes the model on the span of the turn."""
    call = plain(10, 90, name="handle_responses", id="call", service="codex_cli_rs")
    turn = plain(
        0, 100, call, name="session_task.turn", service="codex_cli_rs", attributes={"model": "lpx"}
    )
    (telling,) = tellings(make_trace(turn), "call")
    told = facts_of(telling)["model_request"]
    assert (told.value, told.where, told.standing) == ("lpx", "model", Standing.ABOVE)


def test_every_source_of_the_tables_has_a_standing() -> None:
    used = {
        place.source
        for dialect in DIALECTS
        for fact, row in dialect.facts.items()
        for place in row
        if fact not in CONTENT_FACTS
    }
    assert used <= set(STANDING)


@pytest.mark.parametrize("name", RECORDED)
def test_what_the_analysis_says_was_told_by_some_span(name: str) -> None:
    """The first token that holds, the counts that stand as they were told, the model."""
    for spans in fixture_traces(name):
        for step in document_of(spans)["steps"]:
            if step["kind"] == "model_call":
                _assert_told(step, spans)


def _assert_told(step: dict[str, object], spans: list[Span]) -> None:
    told = [fact for telling in tellings(spans, str(step["span_id"])) for fact in telling.facts]
    values = {str(fact.value) for fact in told}
    for name in ("model", "output_tokens", "cached_input_tokens"):
        assert step[name] is None or str(step[name]) in values
    if step["ttft_source"] == "measured":
        read_at = str(step["ttft_from"])
        assert any(fact.where.startswith(read_at) for fact in told if fact.fact == "ttft")
