"""Spans to store, small and whole."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from ingest.otlp import read_export
from tests import otlp
from tests.otlp import MS, START_NS
from tracebudget.core.span import Span

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)  # when the tests' spans arrive


def span(number: int = 1, *, trace: int = 1, parent: int | None = None, **changes: Any) -> Span:
    """Span `number` of trace `trace`; a root unless it has a parent."""
    plain = Span(
        trace_id=f"{trace:032x}",
        span_id=f"{number:016x}",
        parent_id="" if parent is None else f"{parent:016x}",
        name=f"span {number}",
        kind=1,
        start_ns=START_NS + number * MS,
        end_ns=START_NS + number * MS + MS,
        attributes={},
    )
    return replace(plain, **changes)


def two_turns(**changes: Any) -> list[Span]:
    """The worked example of tests.otlp, as decoded spans of one trace."""
    spans = read_export(otlp.recorded(otlp.two_turns), otlp.PROTOBUF).spans
    return [replace(one, **changes) for one in spans]
