"""Messages as dialects write them: under numbered keys, or as a list of events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracebudget.core.dialects.facts import is_redacted, parsed
from tracebudget.core.dialects.table import Candidate
from tracebudget.core.span import Span


def indexed(attributes: Mapping[str, Any], place: Candidate) -> list[dict[str, Any]]:
    """The messages of an indexed place as mappings, redacted values left out."""
    found = []
    for parts in place.messages:
        message = {part: attributes[key] for part, key in parts}
        if dict in map(type, message.values()):
            message = {part: value for part, value in message.items() if not is_redacted(value)}
        if message:
            found.append(message)
    return found


def conversation(span: Span, place: Candidate) -> tuple[list[Any], list[Any]]:
    """What was asked and what was answered: choices, else what the assistant said last."""
    events = _events(span, place)
    answered = [event for event in events if event.get("event.name") == "gen_ai.choice"]
    if answered:
        return [event for event in events if event not in answered], answered
    end = len(events)
    while end and events[end - 1].get("event.name") == "gen_ai.assistant.message":
        end -= 1
    return events[:end], events[end:]


def _events(span: Span, place: Candidate) -> list[Any]:
    """Events that stand as a JSON list in one attribute."""
    value = parsed(span.attributes[place.key])
    return [event for event in value if type(event) is dict] if type(value) is list else []
