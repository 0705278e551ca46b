"""What the privacy door keeps of content before it drops it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tracebudget.core.content import MODEL, TOOL
from tracebudget.core.content.answer import read_tool_requests
from tracebudget.core.content.cut import is_cut
from tracebudget.core.content.fingerprint import Fingerprint
from tracebudget.core.content.prompt import read_prompt
from tracebudget.core.content.tool import complaint, tool_arguments, tool_result
from tracebudget.core.dialects import recognise
from tracebudget.core.dialects.facts import LIFTED, SpanFacts, read_value
from tracebudget.core.span import Span

SPEAKS_FOR = {"stream_log": MODEL, "copy": MODEL}  # records that carry a call's answer
NUMBERS = (bool, int, float)
TRUTH_ONLY = frozenset({"error"})  # free text of which only the presence is a fact
MAX_FACT_CHARS = 100  # of a fact lifted out of content


def lift(span: Span, digest: Fingerprint) -> dict[str, Any]:
    """The facts hidden in a span's content, as a JSON-ready mapping; {} where there are none.

    `facts` holds what a dialect reads from JSON inside content: {fact: [value, key]}.
    """
    span = _without_lifted(span)
    role, dialect, present = recognise(span)
    if role is None or dialect is None:
        return {}
    facts = SpanFacts(span, dialect, present)
    lifted: dict[str, Any] = {"facts": hidden} if (hidden := _hidden_facts(facts)) else {}
    role = SPEAKS_FOR.get(role, role)
    if role == MODEL:
        lifted |= _said_to_and_by_model(facts, digest)
    elif role == TOOL:
        lifted |= _said_to_and_by_tool(facts, digest)
    if is_cut(facts):
        lifted["is_cut"] = True
    return lifted


def _said_to_and_by_model(facts: SpanFacts, digest: Fingerprint) -> dict[str, Any]:
    """Not by `Content`: the door asks each question once."""
    lifted: dict[str, Any] = {}
    if (prompt := read_prompt(facts, digest)) is not None:
        lifted["prompt"] = list(prompt)
    if (requests := read_tool_requests(facts, digest)) is not None:
        lifted["tool_requests"] = [[r.name, r.call_id, r.parsed, r.arguments] for r in requests]
    return lifted


def _said_to_and_by_tool(facts: SpanFacts, digest: Fingerprint) -> dict[str, Any]:
    lifted: dict[str, Any] = {}
    if (arguments := tool_arguments(facts, digest)) is not None:
        lifted["arguments"] = list(arguments)
    if (result := tool_result(facts)) is not None:
        lifted["result"] = list(result)
    if (blamed := complaint(facts)) is not None:
        lifted["complaint"] = blamed
    return lifted


def _without_lifted(span: Span) -> Span:
    """A sender may not speak for the door."""
    if LIFTED not in span.attributes:
        return span
    kept = {key: value for key, value in span.attributes.items() if key != LIFTED}
    return replace(span, attributes=kept)


def _hidden_facts(facts: SpanFacts) -> dict[str, list[Any]]:
    """Facts that stand in content: short values only, longer text is content whatever its key."""
    found = {}
    for name, places in facts.present.hidden.items():
        for place in places:
            value = read_value(facts.span, place)
            if value is not None:
                value = True if place.key in TRUTH_ONLY else value
                if isinstance(value, NUMBERS) or (
                    type(value) is str and len(value) <= MAX_FACT_CHARS
                ):
                    found[name] = [value, place.key]
                break
    return found
