"""What a model was asked: fingerprints of the growing prompt."""

from __future__ import annotations

import json
from typing import Any

from tracebudget.core.content.fingerprint import Fingerprint, canonical
from tracebudget.core.content.messages import conversation, indexed
from tracebudget.core.dialects.facts import DECODER, SpanFacts, is_redacted, parsed, unquoted
from tracebudget.core.dialects.table import Candidate
from tracebudget.core.span import Span

MESSAGE_LISTS = ("messages", "contents", "input", "chat_history", "prompt")
MAX_MESSAGES = 256  # of a prompt whose prefixes are kept; the last digest covers the rest
OF_ITS_RUN = frozenset({"id", "response_metadata", "usage_metadata"})  # in a LangChain message


def read_prompt(facts: SpanFacts, digest: Fingerprint) -> tuple[str, ...] | None:
    """Fingerprints of the first message, the first two, ... the whole; None without a prompt."""
    for place in facts.present.prompts:
        texts = _prompt_texts(facts.span, place)
        if texts:
            return _chain(texts, digest)
    return None


def _prompt_texts(span: Span, place: Candidate) -> list[str]:
    """The messages of a prompt, one text each; [] where there is none at this place."""
    if place.source == "indexed":
        messages = indexed(span.attributes, place)
        return [canonical(message) for message in messages]
    if place.source == "attr":
        return _told_messages(span.attributes[place.key])
    if place.source == "event_list":
        return [canonical(event) for event in conversation(span, place)[0]]
    if place.key:
        events = [e for e in span.events if e.name == place.event and place.key in e.attributes]
        return _told_messages(events[-1].attributes[place.key]) if events else []
    start, end = place.event.split("*")
    return [
        json.dumps([e.name, *sorted(e.attributes.items())], default=str)
        for e in span.events
        if e.attributes and e.name.startswith(start) and e.name.endswith(end)
    ]


def _told_messages(value: Any) -> list[str]:
    return [] if value in (None, "") or is_redacted(value) else _messages(unquoted(value))


def _messages(value: Any) -> list[str]:
    """One text a message where the prompt is a list of them, else the whole as one. A message in a
    JSON text stands as it was written: one sender writes the same one the same way again.
    """
    if isinstance(value, str) and value.startswith("["):
        return _elements(value) or [value]
    body = parsed(value) if isinstance(value, str) else value
    if type(body) is dict:
        body = next((body[key] for key in MESSAGE_LISTS if type(body.get(key)) is list), body)
    if type(body) is list and body:
        messages = body[0] if len(body) == 1 and type(body[0]) is list else body
        return [canonical(_said(m)) for m in messages]
    return [value if isinstance(value, str) else canonical(value)]


def _said(message: Any) -> Any:
    """A message as it was said. LangChain's own form gives it an id and figures of its run."""
    if type(message) is not dict or "lc" not in message or type(message.get("kwargs")) is not dict:
        return message
    return {key: value for key, value in message["kwargs"].items() if key not in OF_ITS_RUN}


def _elements(text: str) -> list[str]:
    """The elements of a JSON list, each as it stands in the text; [] for what is no such list."""
    elements, at = [], 1
    try:
        while True:
            at = _next_mark(text, at)
            _, end = DECODER.raw_decode(text, at)
            elements.append(text[at:end])
            at = _next_mark(text, end)
            if text[at] == "]":
                return elements
            at += 1
    except (ValueError, IndexError, RecursionError):
        return []


def _next_mark(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def _chain(messages: list[str], digest: Fingerprint) -> tuple[str, ...]:
    """Fingerprints of growing prefixes: equal last ones mean equal prompts, one inside another
    means a prefix.
    """
    chain, before = [], ""
    for message in messages[: MAX_MESSAGES - 1]:
        before = digest((before + message).encode("utf-8", "replace"))
        chain.append(before)
    if rest := messages[MAX_MESSAGES - 1 :]:
        chain.append(digest((before + "".join(rest)).encode("utf-8", "replace")))
    return tuple(chain)
