"""What a tool was given, what it gave back, and what a failed one blames."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tracebudget.core.content.arguments import as_text, canonical_arguments, read_arguments
from tracebudget.core.content.fingerprint import Fingerprint
from tracebudget.core.dialects.facts import SpanFacts, parsed

# What the text of a failed tool's error blames, in lower case: IGNORECASE is four times as slow.
# Only its first part is searched: a stack trace or a result may follow.
TIMEOUT, ARGUMENTS, OTHER = "timeout", "arguments", "other"
MAX_ERROR_CHARS = 2000
TIMED_OUT = re.compile(
    r"timed[ -]?out|time-?out (error|exceeded|expired|after|of|reached)|timeouterror"
    r"|deadline[ _]exceeded|exceeded .{0,20}time ?(limit|out)"
)
BAD_ARGUMENTS = re.compile(
    r"validation ?(error|failed)|jsondecodeerror|(field|property|argument|parameter) required"
    r"|required (field|property|argument|parameter)"
    r"|(invalid|malformed|missing|parse|decode)[ \w]{0,24} (json|argument|parameter|input)"
    r"|(json|argument|parameter|input)s?( is| are)? (invalid|malformed|missing|not valid)"
)


def tool_arguments(facts: SpanFacts, digest: Fingerprint) -> tuple[str, bool | None] | None:
    """The fingerprint of a tool's arguments, and whether they are JSON (None: plain text): from the
    first place that holds them, broken if they are so in any.
    """
    told = facts.values.get("tool_arguments")
    if told is None:
        return None
    text, is_json = canonical_arguments(told)
    others = [value for value in facts.others("tool_arguments") if value != told]
    if others and any(read_arguments(value)[1] is False for value in others):
        is_json = False
    return digest(text), is_json


def tool_result(facts: SpanFacts) -> tuple[int, bool] | None:
    """A result's length in characters, and whether it reports an error; None without one."""
    value = facts.values.get("tool_result")
    if value is None:
        return None
    text = as_text(value)
    return len(text), "rror" in text and says_error(parsed(value))


def complaint(facts: SpanFacts) -> str | None:
    """What an error text blames: TIMEOUT, ARGUMENTS or OTHER; None without such a text."""
    blamed = None
    for text in _error_texts(facts):
        blamed = OTHER
        head = text[:MAX_ERROR_CHARS].lower()
        if BAD_ARGUMENTS.search(head):
            return ARGUMENTS
        if TIMED_OUT.search(head):
            return TIMEOUT
    return blamed


def _error_texts(facts: SpanFacts) -> Iterator[str]:
    span = facts.span
    if span.status_message:
        yield span.status_message
    for event in span.events:
        message = event.attributes.get("exception.message")
        if event.name == "exception" and isinstance(message, str):
            yield message
    result = facts.values.get("tool_result")
    if result is not None and "rror" in (text := as_text(result)[:MAX_ERROR_CHARS]):
        yield text


def says_error(body: Any) -> bool:
    """A result that reports failure in its own words: `{"error": ...}`, `isError`, LangChain's
    `status: error`, AgentScope's `state: error`.
    """
    if type(body) is not dict:
        return False
    if body.get("isError") is True or body.get("is_error") is True:
        return True
    if "error" in (body.get("status"), body.get("state")):
        return True
    return bool(body.get("error")) or says_error(body.get("data"))
