"""The one door into the core: spans in, the analysis object of the contract out.

It is the same function for page, API, command line and worker. The same set of spans, budgets and
profile gives the byte-identical object, whatever the order, batching or repetition of arrival.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from time import gmtime, strftime
from typing import Any

from tracebudget.core import detectors  # noqa: F401  (registers the rules)
from tracebudget.core.app import NO_APPS, UNKNOWN_APP, Apps
from tracebudget.core.budget import Judgement, call_tpot_ns, check_request
from tracebudget.core.detectors.quality import quality_notes
from tracebudget.core.finding import Finding, TriageStep, find
from tracebudget.core.identity import Identity, app_of, identify
from tracebudget.core.report import SEGMENTS, Report, build_report
from tracebudget.core.run import Turn
from tracebudget.core.segment import SegmentKind
from tracebudget.core.span import Span
from tracebudget.core.step import StepKind
from tracebudget.core.tree import Node, build_tree
from tracebudget.core.ttft import TtftSource

NAMED = tuple((segment, segment.value) for segment in SEGMENTS)
SCHEMA = "tracebudget.analysis/v1"


@dataclass(frozen=True, slots=True)
class Analysis:
    """One request, measured and judged. `document()` is the contract's object."""

    project: str
    report: Report
    identity: Identity
    budgets: tuple[Judgement, ...]
    findings: tuple[Finding, ...]
    triage: tuple[TriageStep, ...]

    @property
    def trace_id(self) -> str:
        return self.report.tree.root.span.trace_id

    def document(self) -> dict[str, Any]:
        """The analysis object: JSON-ready, keys in the contract's order, times in ns from the
        request's start.
        """
        identity, report, origin = self.identity, self.report, self.report.start
        return {
            "schema": SCHEMA,
            "trace_id": self.trace_id,
            "project": self.project,
            "app": identity.app,
            "name": identity.name,
            "environment": identity.environment,
            "version": identity.version,
            "session_id": identity.session_id,
            "agents": list(identity.agents),
            "state": identity.state,
            "state_reason": identity.state_reason,
            "started_at": iso_time(report.start),
            "end_to_end_ns": report.end_to_end,
            "segments": _segments(report),
            "outside_turns_ns": sum(piece.duration for piece in report.path if piece.turn is None),
            "turns": [_turn(turn, origin) for turn in report.turns],
            "steps": [_step(node, origin) for node in report.steps],
            "step_parents": _step_parents(report),
            "background_steps": [i for i, node in enumerate(report.steps) if node.background],
            "path": _path(report, origin),
            "io_names": _io_names(report),
            "ttft_intervals": _ttft_intervals(report),
            "findings": [_finding(finding) for finding in self.findings],
            "triage": [
                {"step": row.step, "state": row.state, "codes": [*row.codes], "why": row.why}
                for row in self.triage
            ],
            "budgets": [_judgement(budget) for budget in self.budgets],
            "profile": report.profile.document() if report.profile is not None else None,
        }


def analyze(spans: Iterable[Span], *, apps: Apps = NO_APPS, project: str = "default") -> Analysis:
    """Analyse the spans of one trace, in the light of what is known of its app.

    Raises ValueError for no spans; whatever else is wrong is a finding.
    """
    tree = build_tree(spans)
    app = apps.get(app_of(tree), UNKNOWN_APP)
    report = build_report(tree, app.profile)
    identity = identify(report)
    judgements = check_request(report, app.budgets)
    report.notes.extend(quality_notes(report))
    findings, triage = find(report, judgements, app.declared)
    return Analysis(project, report, identity, tuple(judgements), findings, triage)


def iso_time(unix_ns: int) -> str:
    """Unix ns as ISO 8601 UTC with nine decimals; exact, unlike a float of seconds."""
    seconds, fraction = divmod(unix_ns, 1_000_000_000)
    return f"{strftime('%Y-%m-%dT%H:%M:%S', gmtime(seconds))}.{fraction:09d}Z"


def _segments(report: Report) -> dict[str, Any]:
    critical, busy, parts = report.segments, report.busy, report.parts
    return {
        name: {"critical_ns": critical[kind], "busy_ns": busy[kind], "parts": parts[kind]}
        for kind, name in NAMED
    }


def _turn(turn: Turn, origin: int) -> dict[str, Any]:
    run, parent, own = turn.run, turn.parent, turn.segments
    return {
        "index": turn.index,
        "agent": run.name,
        "agent_span_id": run.top.span.span_id,
        "parent_turn": None if parent is None else parent.index,
        "start_ns": turn.start - origin,
        "duration_ns": turn.end - turn.start,
        "on_path_ns": turn.on_path_ns,
        "delegated_ns": turn.delegated_ns,
        "segments": {
            "prefill": own[SegmentKind.PREFILL],
            "decode": own[SegmentKind.DECODE],
            "tool": own[SegmentKind.TOOL],
            "framework": own[SegmentKind.FRAMEWORK],
            "wait": own[SegmentKind.WAIT],
        },
    }


def _step(node: Node, origin: int) -> dict[str, Any]:
    step, turn = node.step, node.turn
    assert step is not None
    row: dict[str, Any] = {
        "span_id": node.span.span_id,
        "kind": step.kind,
        "turn": None if turn is None else turn.index,
        "name": step.name,
        "call_id": step.call_id,
        "dialect": step.dialect,
        "start_ns": node.start - origin,
        "duration_ns": node.end - node.start,
        "critical_ns": node.critical_ns,
        "status": "error" if step.is_error else "ok",
        "error_type": step.error_type if step.is_error else None,
        "attempt": node.attempt,
    }
    if step.kind is not StepKind.TOOL_CALL:
        del row["call_id"]  # no other step has one
    if step.kind is StepKind.MODEL_CALL:
        row |= _model_fields(node)
    return row


def _step_parents(report: Report) -> list[int | None]:
    """For each step the position of the step that it lies in."""
    place: dict[Node | None, int | None] = {n: index for index, n in enumerate(report.steps)}
    place[None] = None  # above the root
    return [
        place[node.parent] if node.parent in place else _place_above(node, place)
        for node in report.steps
    ]


def _place_above(node: Node, place: dict[Node | None, int | None]) -> int | None:
    """The position of the nearest step above a node, noted for the spans on the way to it, too."""
    passed: list[Node | None] = []
    above = node.parent
    while above not in place:
        passed.append(above)
        above = above.parent if above is not None else None
    place |= dict.fromkeys(passed, place[above])
    return place[above]


def _model_fields(node: Node) -> dict[str, Any]:
    facts, ttft = node.step.model if node.step is not None else None, node.ttft
    assert facts is not None
    return {
        "model": facts.model,
        "provider": facts.provider,
        "streamed": facts.streamed,
        "ttft_ns": ttft.ns,
        "ttft_source": ttft.source,
        "ttft_is_bound": ttft.is_bound,
        "ttft_from": ttft.where if ttft.source is not TtftSource.UNKNOWN else None,
        "first_visible_ns": ttft.first_visible_ns,
        "queue_ns": facts.queue_ns,
        "tpot_ns": call_tpot_ns(node),
        "input_tokens": facts.tokens.input,
        "cached_input_tokens": facts.tokens.cached_input,
        "output_tokens": facts.tokens.output,
        "reasoning_tokens": facts.tokens.reasoning,
        "finish_reason": facts.finish_reason,
    }


def _ttft_intervals(report: Report) -> dict[str, list[int]]:
    """By span id, the ns between which an inferred first token lies, as far as the fit can tell."""
    return {
        call.id: list(call.ttft.interval_ns)
        for call in report.calls
        if call.ttft.interval_ns is not None
    }


def _path(report: Report, origin: int) -> list[dict[str, Any]]:
    return [
        {
            "start_ns": piece.start - origin,
            "duration_ns": piece.end - piece.start,
            "segment": piece.segment,
            "part": piece.part,
            "span_id": piece.node.span.span_id or None,
            "turn": None if piece.turn is None else piece.turn.index,
        }
        for piece in report.path
    ]


def _io_names(report: Report) -> dict[str, str]:
    """The names of the spans whose own time is `io`."""
    if not report.parts[SegmentKind.FRAMEWORK]["io"]:
        return {}
    return {p.node.id: p.node.span.name for p in report.path if p.part == "io"}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "kind": finding.kind,
        "step": finding.step,
        "severity": finding.severity,
        "turn": finding.turn,
        "span_ids": list(finding.span_ids),
        "saving_ns": finding.saving_ns,
        "evidence": finding.evidence,
    }


def _judgement(judgement: Judgement) -> dict[str, Any]:
    return {
        "metric": judgement.metric,
        "limit": judgement.limit,
        "value": judgement.value,
        "state": judgement.state,
        "span_id": judgement.span_id,
    }
