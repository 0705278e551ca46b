"""The small language in which the tables say when a rule holds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import make_span
from tracebudget.core.dialects.matcher import compile_matcher, signals

SPAN = make_span(
    "chat m",
    kind=3,
    scope="openlit.otel",
    attributes={"op": "chat", "stream": True, "n": 3, "list": [1]},
    events=[("first", 10)],
    service="codex",
)


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        ({"scope": "openlit.otel"}, True),
        ({"scope": "openlit"}, False),
        ({"scope_prefix": "openlit."}, True),
        ({"name": "chat m"}, True),
        ({"name_in": ["x", "chat m"]}, True),
        ({"name_prefix": "chat"}, True),
        ({"name_re": "^chat"}, True),
        ({"name_re": "^m"}, False),
        ({"kind_in": ["CLIENT", "SERVER"]}, True),
        ({"kind_in": ["INTERNAL"]}, False),
        ({"attr": "op"}, True),
        ({"attr": "other"}, False),
        ({"attr_prefix": "o"}, True),
        ({"attr_prefix": "x"}, False),
        ({"attr_in": {"op": ["chat", "text"]}}, True),
        ({"attr_in": {"stream": [True]}}, True),
        ({"attr_in": {"stream": ["true"]}}, True),  # Micrometer sends text
        ({"attr_in": {"n": ["3"]}}, True),
        ({"attr_in": {"other": ["None"]}}, False),
        ({"attr_re": {"op": "^ch"}}, True),
        ({"attr_re": {"n": "3"}}, False),  # text alone
        ({"event": "first"}, True),
        ({"event": "second"}, False),
        ({"resource_in": {"service.name": ["codex"]}}, True),
        ({"not": {"attr": "op"}}, False),
        ({"all": [{"attr": "op"}, {"name": "chat m"}]}, True),
        ({"all": [{"attr": "op"}, {"name": "x"}]}, False),
        ({"any": [{"attr": "x"}, {"name": "chat m"}]}, True),
        ({"attr": "op", "name": "x"}, False),  # all entries must hold
        ({"attr": "op", "kind_in": ["CLIENT"]}, True),
    ],
)
def test_a_rule_holds(rule: dict[str, Any], holds: bool) -> None:
    assert compile_matcher(rule)(SPAN) is holds


def test_a_test_that_does_not_exist_is_refused() -> None:
    with pytest.raises(KeyError):
        compile_matcher({"smells_like": "chat"})


def test_what_a_rule_looks_at() -> None:
    """What is remembered of a span's shape must hold all of it."""
    rule = {
        "any": [
            {"attr": "a"},
            {"attr_prefix": "b."},
            {"not": {"attr_in": {"c": ["x"]}}},
            {"all": [{"event": "d"}, {"resource_in": {"e": ["y"]}}]},
        ],
        "name": "f",
        "kind_in": ["CLIENT"],
        "declares": ["g"],
    }
    assert signals(rule) == {
        ("key", "a"),
        ("prefix", "b."),
        ("value", "c"),
        ("event", "d"),
        ("resource", "e"),
        ("name", ""),
        ("kind", ""),
        ("declared", ""),
    }
