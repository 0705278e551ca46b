"""Arguments of tool calls in one spelling, whoever wrote them."""

from __future__ import annotations

import json
from typing import Any

from tracebudget.core.content.fingerprint import canonical
from tracebudget.core.dialects.facts import parsed, python_literal

PYTHON_CALL = frozenset({"args", "kwargs"})  # how LangChain writes a call


def canonical_arguments(value: Any) -> tuple[bytes, bool | None]:
    """Arguments in one spelling, and whether they are JSON; None for plain text, of which nobody
    said that it were.
    """
    body, is_json = read_arguments(value)
    if is_json:
        return canonical(body).encode("utf-8", "replace"), True
    return as_text(body).encode("utf-8", "replace"), is_json


def read_arguments(value: Any) -> tuple[Any, bool | None]:
    """What the arguments say, their text where they are no JSON. Wrappers of a single text are
    looked into; Python's spelling of a mapping (LangChain) is no broken JSON.
    """
    body = parsed(value) if isinstance(value, str) else value
    if body is None and isinstance(value, str):
        is_broken = value.lstrip()[:1] in ("{", "[") and python_literal(value) is None
        return value, False if is_broken else None
    if type(body) is dict and "INVALID_JSON" in body:  # Pydantic AI's mark
        return body["INVALID_JSON"], False
    if type(body) is dict and "inputs" in body and ("tags" in body or "metadata" in body):
        return read_arguments(body["inputs"])  # OpenLLMetry writes LangChain's run around them
    wrapped = _wrapped_text(body)
    return (body, True) if wrapped is None else read_arguments(wrapped)


def _wrapped_text(body: Any) -> str | None:
    """`{"arguments": "{...}"}` and `{"args": ["{...}"], "kwargs": {}}` hold the model's text."""
    inner = None
    if type(body) is not dict:
        return None
    if "arguments" in body:
        inner = body["arguments"] if len(body) == 1 else None
    elif "kwargs" in body and body.keys() == PYTHON_CALL and not body["kwargs"]:
        args = body["args"]
        inner = args[0] if type(args) is list and len(args) == 1 else None
    return inner if isinstance(inner, str) and inner.lstrip()[:1] in ("{", "[") else None


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
