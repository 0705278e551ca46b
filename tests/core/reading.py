"""Read an analysis object the way a test talks about it: in milliseconds and by span id."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ingest.otlp import read_file
from tests.builders import MS, Branch, make_trace
from tracebudget.core.analysis import Analysis, analyze
from tracebudget.core.app import App
from tracebudget.core.budget import Budget
from tracebudget.core.declared import NOTHING_DECLARED, Declared
from tracebudget.core.finding import DETECTORS, Case, Unknown
from tracebudget.core.profile import Profile
from tracebudget.core.report import Report, build_report
from tracebudget.core.span import Span
from tracebudget.core.tree import build_tree

Document = dict[str, Any]
Ms = int | float

FIXTURES = Path(__file__).parents[1] / "fixtures"


# --- from spans to what is read -------------------------------------------------------------------


def analysis_of(
    *tops: Branch,
    budgets: Mapping[str, int] | None = None,
    declared: Declared = NOTHING_DECLARED,
    profile: Profile | None = None,
) -> Analysis:
    """Analyse a drawn trace of the app "shop". Budgets: metric -> limit, in the metric's unit."""
    limits = tuple(Budget(metric, limit) for metric, limit in (budgets or {}).items())
    return analyze(make_trace(*tops), apps={"shop": App(limits, declared, profile)})


def analyzed(*tops: Branch, **known: Any) -> Document:
    """The analysis object of a drawn trace. `known`: budgets, declared, profile."""
    return analysis_of(*tops, **known).document()


def document_of(spans: list[Span]) -> Document:
    """The analysis object of spans, of whose app nothing is known."""
    return analyze(spans).document()


def report_of(*tops: Branch, profile: Profile | None = None) -> Report:
    return build_report(build_tree(make_trace(*tops)), profile)


def fixture_traces(name: str) -> list[list[Span]]:
    """The spans of a file in tests/fixtures, a list a trace, in the order of their first spans."""
    traces: dict[str, list[Span]] = {}
    for export in read_file(FIXTURES / name):
        for span in export.spans:
            traces.setdefault(span.trace_id, []).append(span)
    return list(traces.values())


def fixture_spans(name: str) -> list[Span]:
    """The spans of a fixture that holds one trace."""
    (spans,) = fixture_traces(name)
    return spans


# --- what an analysis object says -----------------------------------------------------------------


def ms(ns: int) -> Ms:
    """Nanoseconds as ms; whole ones as int, so that they read well in a test."""
    return ns // MS if ns % MS == 0 else ns / MS


def segments(document: Document) -> dict[str, Ms]:
    """Critical ms of each segment that has some."""
    return {
        name: ms(segment["critical_ns"])
        for name, segment in document["segments"].items()
        if segment["critical_ns"]
    }


def busy(document: Document) -> dict[str, Ms]:
    """Busy ms of each segment that has some."""
    return {
        name: ms(segment["busy_ns"])
        for name, segment in document["segments"].items()
        if segment["busy_ns"]
    }


def part(document: Document, name: str) -> Ms | None:
    """Ms of a named part, None where nothing tells it."""
    values = [s["parts"][name] for s in document["segments"].values() if name in s["parts"]]
    return None if values[0] is None else ms(values[0])


def path(document: Document) -> list[tuple[str, Ms, Ms, str | None]]:
    """(segment or segment/part, from, until, span id) of each slice of the critical path."""
    return [
        (
            piece["segment"] + (f"/{piece['part']}" if piece["part"] else ""),
            ms(piece["start_ns"]),
            ms(piece["start_ns"] + piece["duration_ns"]),
            piece["span_id"],
        )
        for piece in document["path"]
    ]


def turns(document: Document) -> list[tuple[str, Ms, Ms]]:
    """(agent's span id, from, until) of each turn."""
    return [
        (
            turn["agent_span_id"],
            ms(turn["start_ns"]),
            ms(turn["start_ns"] + turn["duration_ns"]),
        )
        for turn in document["turns"]
    ]


def step(document: Document, span_id: str) -> Document:
    """The step of a span. KeyError where it is none."""
    by_id: dict[str, Document] = {step["span_id"]: step for step in document["steps"]}
    return by_id[span_id]


def kinds(document: Document) -> dict[str, str]:
    """What each typed span is."""
    return {step["span_id"]: step["kind"] for step in document["steps"]}


def notes(document: Document) -> dict[str, Document]:
    """The data-quality findings, by code."""
    return {f["code"]: f for f in document["findings"] if f["kind"] == "data_quality"}


def diagnoses(document: Document) -> dict[str, Document]:
    """The performance findings, by code; of several with one code the first."""
    found: dict[str, Document] = {}
    for finding in document["findings"]:
        if finding["kind"] == "performance":
            found.setdefault(finding["code"], finding)
    return found


def triage(document: Document, step: int) -> tuple[str, str | None]:
    """State of a step of the investigation, and why it is unknown."""
    row = document["triage"][step - 1]
    return row["state"], row["why"]


def found(code: str, *tops: Branch, **known: Any) -> Document | None:
    """A drawn trace's finding of that code, None where there is none."""
    return diagnoses(analyzed(*tops, **known)).get(code)


def cannot_tell(code: str, *tops: Branch, **known: Any) -> list[str]:
    """Why one rule can prove its case neither way, whatever the others of its step say."""
    analysis = analysis_of(*tops, **known)
    case = Case(
        analysis.report,
        analysis.budgets,
        known.get("declared", NOTHING_DECLARED),
        {row.step: row.state for row in analysis.triage},
    )
    items = DETECTORS[code].detector(case)
    return [item.why for item in items if isinstance(item, Unknown)]


def difference(faulty: Document, twin: Document) -> int:
    """How much longer, in ns, a request took than its twin without the fault."""
    longer: int = faulty["end_to_end_ns"] - twin["end_to_end_ns"]
    return longer
