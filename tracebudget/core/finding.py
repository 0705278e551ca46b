"""Findings: one rule each over one request. A finding fires only with evidence and says what a fix
would save.

Detectors live in `detectors/`, one function a code, registered by `@detector`. The order of
investigation is `TRIAGE`: 1 largest segment, 2 model calls, 3 tools, 4 context, 5 network and
gateway, 6 only then hardware.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any

from tracebudget.core.budget import Judgement, known_ttft_ns
from tracebudget.core.declared import NOTHING_DECLARED, Declared
from tracebudget.core.fit import slope
from tracebudget.core.record import lazy, plain_members, record
from tracebudget.core.report import Report, Turn
from tracebudget.core.tree import Node, Note

INFO_SHARE, INFO_NS = 0.02, 20_000_000  # a gain below both is worth knowing, not acting on
CRITICAL_SHARE = 0.25  # a fix that gives back a quarter of the request comes first


@plain_members
class Kind(StrEnum):
    PERFORMANCE = "performance"
    DATA_QUALITY = "data_quality"


@plain_members
class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


@plain_members
class State(StrEnum):
    FOUND = "found"
    CLEAR = "clear"
    UNKNOWN = "unknown"


@record
class Finding:
    """One diagnosis. `step` is its place in the order of investigation; `saving_ns` a
    counterfactual, None if none.
    """

    code: str
    kind: Kind
    step: int | None
    severity: Severity
    turn: int | None
    span_ids: tuple[str, ...]
    saving_ns: int | None
    evidence: dict[str, Any] = field(default_factory=dict)


@record
class Unknown:
    """A detector could not prove its case either way; `why` has a sentence in `wording`."""

    why: str


@record
class TriageStep:
    step: int
    state: State
    codes: tuple[str, ...]
    why: str | None


@dataclass(eq=False)
class Case:
    """What a detector looks at: the report and how it stands against its budgets."""

    report: Report
    budgets: tuple[Judgement, ...]
    declared: Declared = NOTHING_DECLARED
    states: dict[int, State] = field(default_factory=dict)  # of the steps already investigated

    def limit(self, metric: str) -> int | None:
        return next((b.limit for b in self.budgets if b.metric == metric), None)

    def is_over(self, metric: str) -> bool:
        return any(b.metric == metric and b.state == "over" for b in self.budgets)

    @lazy
    def slope_ns(self) -> float | None:
        """ns of TTFT per uncached input token: of this request's own calls, else of the app's; None
        where nothing tells.
        """
        points = [
            (tokens, ttft)
            for call in self.report.calls
            if (tokens := call.facts.tokens.uncached_input) is not None
            and (ttft := known_ttft_ns(call)) is not None
        ]
        own = slope(points)
        if own is not None and own > 0:
            return own
        profile = self.report.profile
        models = sorted({call.facts.model or "" for call in self.report.calls})
        fits = (profile.fit_of(model) for model in models) if profile is not None else ()
        return next((fit.b_ns for fit in fits if fit is not None and fit.b_ns > 0), None)


Verdict = Iterable[Finding | Unknown]
Detector = Callable[[Case], Verdict]

DETECTORS: dict[str, tuple[int, Detector]] = {}


def detector(code: str, *, step: int) -> Callable[[Detector], Detector]:
    """Register a rule under its code, at its step of the investigation."""

    def register(rule: Detector) -> Detector:
        DETECTORS[code] = (step, rule)
        return rule

    return register


def performance(  # noqa: PLR0913  (a finding has as many sides)
    case: Case,
    code: str,
    nodes: Sequence[Node],
    *,
    turn: Turn | None,
    saving_ns: int | None,
    severity: Severity | None = None,
    **evidence: Any,
) -> Finding:
    """A performance finding of the detector registered under `code`; its severity follows from the
    saving.
    """
    return Finding(
        code=code,
        kind=Kind.PERFORMANCE,
        step=DETECTORS[code][0],
        severity=severity or severity_of(saving_ns, case.report.end_to_end),
        turn=turn.index if turn is not None else None,
        span_ids=tuple(node.id for node in nodes),
        saving_ns=saving_ns,
        evidence=evidence,
    )


def severity_of(saving_ns: int | None, end_to_end_ns: int) -> Severity:
    """By what a fix gives back. A finding that only points onwards is a warning."""
    if saving_ns is None:
        return Severity.WARNING
    if saving_ns < INFO_SHARE * end_to_end_ns and saving_ns < INFO_NS:
        return Severity.INFO
    return Severity.CRITICAL if saving_ns >= CRITICAL_SHARE * end_to_end_ns else Severity.WARNING


def find(
    report: Report, budgets: Sequence[Judgement], declared: Declared = NOTHING_DECLARED
) -> tuple[tuple[Finding, ...], tuple[TriageStep, ...]]:
    """All findings in the order of investigation, data quality last, and the six steps."""
    case = Case(report, tuple(budgets), declared)
    found: list[Finding] = []
    steps: list[TriageStep] = []
    for step in STEPS:
        mine: list[Finding] = []
        whys: list[str] = []
        for rule in _rules(step):
            for item in rule(case):
                if isinstance(item, Finding):
                    mine.append(item)
                else:
                    whys.append(item.why)
        found += _ordered(mine)
        steps.append(_triage_step(step, mine, whys))
        case.states[step] = steps[-1].state
    quality = sorted(map(_from_note, _merged(report.notes)), key=lambda f: f.code)
    return (*found, *quality), tuple(steps)


STEPS = (1, 2, 3, 4, 5, 6)


@cache
def _rules(step: int) -> tuple[Detector, ...]:
    return tuple(rule for _, (at, rule) in sorted(DETECTORS.items()) if at == step)


def _ordered(found: list[Finding]) -> list[Finding]:
    """The largest saving first."""
    if not found[1:]:
        return found
    return sorted(
        found,
        key=lambda f: (-(f.saving_ns or 0), f.code, -1 if f.turn is None else f.turn, f.span_ids),
    )


def _triage_step(step: int, found: Sequence[Finding], whys: Sequence[str]) -> TriageStep:
    """Found beats unknown, unknown beats clear."""
    if found:
        codes = tuple(dict.fromkeys(finding.code for finding in found))
        return TriageStep(step, State.FOUND, codes, None)
    if whys:
        return TriageStep(step, State.UNKNOWN, (), whys[0])
    return TriageStep(step, State.CLEAR, (), None)


MAX_SPAN_IDS = 100  # of one data-quality finding; `count` says how many there were


def _merged(notes: Iterable[Note]) -> list[Note]:
    """One finding a code, whatever the number of spans: the first one's evidence and how often."""
    by_code: dict[str, dict[tuple[str, ...], Note]] = {}
    for note in notes:
        by_code.setdefault(note.code, {}).setdefault(note.span_ids, note)
    return [
        _merge(code, sorted(of_code.values(), key=lambda n: n.span_ids))
        for code, of_code in by_code.items()
    ]


def _merge(code: str, notes: Sequence[Note]) -> Note:
    ids = list(dict.fromkeys(span_id for note in notes for span_id in note.span_ids))
    return Note(code, tuple(ids[:MAX_SPAN_IDS]), {**notes[0].evidence, "count": len(ids)})


def _from_note(note: Note) -> Finding:
    return Finding(
        note.code,
        Kind.DATA_QUALITY,
        None,
        Severity.INFO,
        None,
        note.span_ids,
        None,
        dict(note.evidence),
    )
