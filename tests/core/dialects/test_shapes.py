"""What is remembered of spans of one shape: the places where their facts can stand."""

from __future__ import annotations

import pytest

from tests.builders import make_span
from tracebudget.core import dialects
from tracebudget.core.dialects import DIALECTS, Recogniser, recognise

TOOL = {"openinference.span.kind": "TOOL", "output.value": "[ToolCallResult(error=True)]"}
CALL = {"openinference.span.kind": "LLM"}


@pytest.mark.parametrize(("emitter", "is_there"), [("haystack", True), ("langchain", False)])
def test_a_condition_on_the_scope_is_decided_for_all_of_them(emitter: str, is_there: bool) -> None:
    span = make_span("search", attributes=TOOL, scope=f"openinference.instrumentation.{emitter}")
    assert ("tool_error" in recognise(span).present.facts) is is_there


@pytest.mark.parametrize(
    ("events", "keys"),
    [
        ([], []),
        ([("started", 1)], ["new_token"]),  # any event's name may begin so
        ([("First Token Stream Event", 1)], ["First Token Stream Event", "new_token"]),
    ],
)
def test_an_event_is_looked_for_where_it_happened(
    events: list[tuple[str, int]], keys: list[str]
) -> None:
    present = recognise(make_span("chat m", attributes=CALL, events=events)).present
    assert [place.key for place in present.facts.get("ttft", ())] == keys


def test_the_messages_of_indexed_keys_are_found_once() -> None:
    keys = ["llm.input_messages.10.message.role", "llm.input_messages.2.message.role"]
    present = recognise(make_span("chat m", attributes={**CALL, **dict.fromkeys(keys, "")})).present
    (place,) = present.prompts
    assert place.messages == ((("message.role", keys[1]),), (("message.role", keys[0]),))


def test_made_up_keys_and_names_do_not_fill_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialects, "REMEMBERED", 5)
    recogniser = Recogniser(DIALECTS)
    for number in range(50):
        recogniser.read(make_span(f"step {number}", attributes={f"key.{number}": 1}))
    assert 0 < len(recogniser.keys) <= len(recogniser.readings) <= 5
