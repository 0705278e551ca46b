"""What a finding is about: the same for every request that shows it."""

from __future__ import annotations

from typing import Any

import pytest

from tracebudget.core.subject import MAX_CHARS, subject_of

STEPS: dict[str, dict[str, Any]] = {
    "a": {"kind": "agent", "name": "support"},
    "b": {"kind": "agent", "name": "billing"},
    "c": {"kind": "model_call", "name": "chat m", "model": "m"},
    "d": {"kind": "model_call", "name": "chat", "model": None},
    "t": {"kind": "tool_call", "name": "search"},
}


def subject(*span_ids: str, kind: str = "performance", **evidence: Any) -> str:
    return subject_of({"kind": kind, "span_ids": span_ids, "evidence": evidence}, STEPS)


@pytest.mark.parametrize(
    ("span_ids", "evidence", "expected"),
    [
        ("t", {"tools": ["search", "fetch", "search"]}, "fetch, search"),
        ("t", {"tool": "search"}, "search"),
        ("c", {"agent": "support"}, "support"),
        ("c", {"model": "large", "other": "small"}, "large"),
        ("cc", {}, "m"),
        ("d", {}, ""),
        ("ab", {"gap_ns": 1}, "billing, support"),
        ("c", {"tools": []}, "m"),  # arguments did not parse, and nobody knows whose
        ("", {"tool_ns": 1}, ""),
        ("x", {}, ""),
    ],
)
def test_subject(span_ids: str, evidence: dict[str, Any], expected: str) -> None:
    assert subject(*span_ids, **evidence) == expected


def test_order_does_not_matter() -> None:
    assert subject("t", tools=["b", "a"]) == subject("t", tools=["a", "b"])


def test_doubts_about_the_data_are_about_the_whole_app() -> None:
    assert subject("c", kind="data_quality", model="m") == ""


def test_subjects_are_bounded() -> None:
    assert len(subject("t", tools=[f"tool number {n}" for n in range(99)])) == MAX_CHARS
