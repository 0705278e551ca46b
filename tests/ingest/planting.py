"""Where a secret can hide in an export: each place changes a span, or its sender.

Free text goes where content goes. What has the form of a secret goes everywhere, also where facts
stand, for there it must be known by its form.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.otlp import SPAN_ID, START_NS, TRACE_ID, json_span
from tracebudget.core.dialects import DIALECTS, FACT_KEYS, common

Json = dict[str, Any]
Shape = Callable[[str], Json]
Place = Callable[[Json, Json], None]  # changes a span, and the resourceSpans around it

# --- how a value is written ---

SHAPES: dict[str, Shape] = {
    "text": lambda secret: {"stringValue": secret},
    "long text": lambda secret: {"stringValue": f"{'so ' * 200}{secret}{' on' * 200}"},
    "json": lambda secret: {"stringValue": json.dumps({"a": [{"b": secret}]})},
    "broken json": lambda secret: {"stringValue": f'{{"a": "{secret}'},
    "messages": lambda secret: {"stringValue": json.dumps(messages(secret))},
    "tool call": lambda secret: {"stringValue": json.dumps(tool_call(secret))},
    "list": lambda secret: {"arrayValue": {"values": [{"stringValue": secret}, {"intValue": 1}]}},
    "map": lambda secret: {"kvlistValue": {"values": [pair("a", {"stringValue": secret})]}},
    "key of a map": lambda secret: {"kvlistValue": {"values": [pair(secret, {"intValue": 1})]}},
    "deep": lambda secret: {
        "arrayValue": {"values": [SHAPES["map"](secret), SHAPES["list"](secret)]}
    },
}


def messages(secret: str) -> list[Json]:
    return [
        {"role": "system", "content": f"You know {secret}"},
        {"role": "user", "parts": [{"type": "text", "content": secret}]},
    ]


def tool_call(secret: str) -> list[Json]:
    function = {"name": "pay", "arguments": json.dumps({"to": secret})}
    parts = [{"type": "tool_call", "id": "c1", "name": "pay", "arguments": {"to": secret}}]
    called = {
        "role": "assistant",
        "parts": parts,
        "tool_calls": [{"id": "c1", "function": function}],
    }
    return [called]


def pair(key: str, value: Json) -> Json:
    return {"key": key, "value": value}


# --- where it stands ---


def of_dialects() -> list[str]:
    """Every name under which some dialect, or the rules for all, finds content."""
    rows = [row for dialect in DIALECTS for rows in dialect.facts.values() for row in rows]
    keys = {
        row.key for row in [*rows, *common.PROMPTS, *common.ANSWERS] if row.source != "resource"
    }
    return sorted(key for key in keys if key and key not in FACT_KEYS)


CONTENT_KEYS = [
    *of_dialects(),
    *("gen_ai.tool.definitions", "gen_ai.system_instructions", "llm.tools.0.tool.json_schema"),
    *("gen_ai.prompt.0.content", "llm.input_messages.0.message.content", "ai.prompt.tools"),
    *("baggage.customer", "app.note", "exception.message", "exception.stacktrace", "log.message"),
    *("url.full", "url.query", "http.url", "http.target", "db.statement", "db.query.text"),
    *("http.request.header.authorization", "http.request.header.cookie", "db.password"),
]
PERSONS = sorted({*common.SESSION_KEYS, *common.IDENTITY_KEYS})
SENDERS = ["process.command_args", "process.owner", "user.email", "app.owner", "process.command"]
ROLES: list[Json] = [
    pair("gen_ai.operation.name", {"stringValue": operation})
    for operation in ("chat", "execute_tool")
] + [pair("openinference.span.kind", {"stringValue": kind}) for kind in ("LLM", "TOOL", "AGENT")]


def attribute(key: str, value: Json, role: int = 0) -> Place:
    def change(span: Json, sender: Json) -> None:
        span["attributes"] += [ROLES[role % len(ROLES)], pair(key, value)]

    return change


def event(name: str, key: str, value: Json) -> Place:
    def change(span: Json, sender: Json) -> None:
        attributes = [pair(key, value)]
        span["events"].append({"name": name, "timeUnixNano": START_NS, "attributes": attributes})

    return change


def link(key: str, value: Json) -> Place:
    def change(span: Json, sender: Json) -> None:
        attributes = [pair(key, value)]
        span["links"].append({"traceId": TRACE_ID, "spanId": SPAN_ID, "attributes": attributes})

    return change


def of_sender(part: str, key: str, value: Json) -> Place:
    def change(span: Json, sender: Json) -> None:
        carrier = sender["resource"] if part == "resource" else sender["scopeSpans"][0]["scope"]
        carrier["attributes"].append(pair(key, value))

    return change


def field(name: str, text: Any) -> Place:
    def change(span: Json, sender: Json) -> None:
        span[name] = text

    return change


def scope_name(text: str) -> Place:
    def change(span: Json, sender: Json) -> None:
        sender["scopeSpans"][0]["scope"]["name"] = text

    return change


def export_with(*places: Place) -> bytes:
    """An export of one span, changed at these places."""
    span = json_span(attributes=[], events=[], links=[])
    scope = {"name": "tests", "attributes": []}
    sender: Json = {
        "resource": {"attributes": [pair("service.name", {"stringValue": "shop"})]},
        "scopeSpans": [{"scope": scope, "spans": [span]}],
    }
    for place in places:
        place(span, sender)
    return json.dumps({"resourceSpans": [sender]}).encode()
