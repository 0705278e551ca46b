"""Findings: one rule each over one request. A finding fires only with evidence and says what a fix
would save.

Detectors live in `detectors/`, one function a code, registered by `@detector`. The order of
investigation is `TRIAGE`: 1 largest segment, 2 model calls, 3 tools, 4 context, 5 network and
gateway, 6 only then hardware.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from itertools import compress
from operator import attrgetter
from typing import Any, NamedTuple

from tracebudget.core.budget import Judgement, known_ttft_ns
from tracebudget.core.content.answer import ToolRequest
from tracebudget.core.declared import NOTHING_DECLARED, Declared
from tracebudget.core.fit import slope
from tracebudget.core.record import lazy, plain_members, record
from tracebudget.core.report import Report
from tracebudget.core.run import Run, Turn
from tracebudget.core.segment import SegmentKind
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


@plain_members
class Trait(StrEnum):
    """What a request has that some rules are about."""

    CALLS = "calls"
    SEVERAL_CALLS = "several_calls"
    QUEUES = "queues"  # somebody tells of one, or a TTFT is judged
    TOOLS = "tools"  # they ran, or were asked for and no span shows them
    SEVERAL_TOOLS = "several_tools"
    SEVERAL_TURNS = "several_turns"  # of one run
    HANDOFFS = "handoffs"
    FAILURES = "failures"  # of any step
    PROFILE = "profile"
    TPOT_LIMIT = "tpot_limit"


@dataclass(eq=False)
class Case:
    """What a detector looks at: the report and how it stands against its budgets; and the questions
    that several detectors ask.
    """

    report: Report
    budgets: tuple[Judgement, ...]
    declared: Declared = NOTHING_DECLARED
    states: dict[int, State] = field(default_factory=dict)  # so far; clear steps have none
    asked: dict[Turn, Asked] = field(default_factory=dict)

    def limit(self, metric: str) -> int | None:
        for judged in self.budgets:
            if judged.metric == metric:
                return judged.limit
        return None

    def is_over(self, metric: str) -> bool:
        return any(b.metric == metric and b.state == "over" for b in self.budgets)

    def traits(self) -> frozenset[Trait]:
        report = self.report
        has = {
            Trait.CALLS: report.calls,
            Trait.SEVERAL_CALLS: report.calls[1:],
            Trait.QUEUES: report.parts[SegmentKind.PREFILL]["queue"] is not None
            or self.limit("ttft") is not None,
            Trait.TOOLS: report.tools or any(n.code == "tools_not_traced" for n in report.notes),
            Trait.SEVERAL_TOOLS: report.tools[1:],
            Trait.SEVERAL_TURNS: len(report.turns) > len(report.runs),
            Trait.HANDOFFS: report.parts[SegmentKind.FRAMEWORK]["handoff"],
            Trait.FAILURES: self.failed,
            Trait.PROFILE: report.profile is not None,
            Trait.TPOT_LIMIT: self.budgets and self.limit("tpot") is not None,
        }
        return frozenset(compress(has, has.values()))

    @lazy
    def active_ns(self) -> int:
        """The request without the time in which it waited for a person."""
        return self.report.end_to_end - self.report.segments[SegmentKind.WAIT]

    @lazy
    def failed(self) -> list[Node]:
        """The steps that failed."""
        return [n for n in self.report.steps if n.step is not None and n.step.is_error]

    @lazy
    def ttfts(self) -> list[tuple[int, Node]]:
        """The good calls whose TTFT is known, each after its TTFT."""
        return [
            (ttft, call)
            for call in self.report.good_calls
            if (ttft := known_ttft_ns(call)) is not None
        ]

    @lazy
    def run_of(self) -> dict[Node, Run]:
        """The run of each call that has one: those in the background have none."""
        return {call: run for run in self.report.runs for call in run.calls}

    @lazy
    def rounds(self) -> list[Rounds]:
        """The runs of several turns, with the call that opened each."""
        return [
            Rounds(run, turns, list(map(_opener, turns)))
            for run, turns in self.report.turns_of.items()
            if turns[1:]
        ]

    def asked_in(self, turn: Turn) -> Asked:
        """What the answers of a turn said of its tools."""
        asked = self.asked.get(turn)
        if asked is None:
            asked = self.asked[turn] = Asked(turn)
        return asked

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


class Rounds:
    """A run's turns, and the call that opened each: None where none of its calls succeeded.
    `calls` are those that there are.
    """

    def __init__(self, run: Run, turns: list[Turn], openers: list[Node | None]) -> None:
        self.run, self.turns, self.openers = run, turns, openers
        self.calls = [call for call in openers if call is not None]


class Asked:
    """The requests for tools in the answers of a turn."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        steps = [call.step for call in turn.calls if call.step is not None]
        self.requests = [request for step in steps for request in step.tool_requests]

    @lazy
    def by_id(self) -> dict[str | None, ToolRequest]:
        """The first of each call id."""
        return {request.call_id: request for request in reversed(self.requests)}

    @lazy
    def by_name(self) -> dict[str, ToolRequest]:
        """Where a name leaves no doubt: asked for once, and one tool of that name ran."""
        asked = Counter([request.name for request in self.requests])
        ran = Counter([tool.step.name for tool in self.turn.tools if tool.step is not None])
        return {r.name: r for r in self.requests if asked[r.name] == ran[r.name] == 1}


def _opener(turn: Turn) -> Node | None:
    for call in turn.calls:
        if call.step is not None and not call.step.is_error:
            return call
    return None


Verdict = Iterable[Finding | Unknown]
Detector = Callable[[Case], Verdict]


class Rule(NamedTuple):
    """A detector and its step of the investigation. It is asked of requests that have all the
    traits that it `needs`: most rules have nothing to do with most requests.
    """

    step: int
    detector: Detector
    needs: frozenset[Trait]


DETECTORS: dict[str, Rule] = {}


def detector(
    code: str, *, step: int, needs: tuple[Trait, ...] = ()
) -> Callable[[Detector], Detector]:
    """Register a rule under its code, at its step of the investigation."""

    def register(rule: Detector) -> Detector:
        DETECTORS[code] = Rule(step, rule, frozenset(needs))
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
        step=DETECTORS[code].step,
        severity=severity or severity_of(saving_ns, case.report.end_to_end),
        turn=turn.index if turn is not None else None,
        span_ids=tuple([node.id for node in nodes]),
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
    whys: dict[int, str] = {}
    for step, rule in _plan(case.traits()):
        for item in rule(case):
            if isinstance(item, Finding):
                found.append(item)
                case.states[step] = State.FOUND
            else:
                whys.setdefault(step, item.why)
                case.states.setdefault(step, State.UNKNOWN)
    triage = _triage(case.states, found, whys)
    if found[1:]:
        found.sort(key=_order)
    quality = _quality(report.notes) if report.notes else ()
    return (*found, *quality), triage


STEPS = (1, 2, 3, 4, 5, 6)
CLEAR = {step: TriageStep(step, State.CLEAR, (), None) for step in STEPS}


@cache
def _plan(traits: frozenset[Trait]) -> tuple[tuple[int, Detector], ...]:
    """The rules that are about a request with these traits, in the order of investigation."""
    rules = [rule for _, rule in sorted(DETECTORS.items()) if rule.needs <= traits]
    return tuple((step, rule.detector) for step in STEPS for rule in rules if rule.step == step)


def _order(found: Finding) -> tuple[int | None, int, str, int, tuple[str, ...]]:
    """By the step of the investigation, the largest saving first."""
    turn = -1 if found.turn is None else found.turn
    return found.step, -(found.saving_ns or 0), found.code, turn, found.span_ids


def _triage(
    states: Mapping[int, State], found: Iterable[Finding], whys: Mapping[int, str]
) -> tuple[TriageStep, ...]:
    """The six steps. Found beats unknown, unknown beats clear."""
    steps = CLEAR.copy()
    for step, state in states.items():
        if state is State.FOUND:
            codes = dict.fromkeys([finding.code for finding in found if finding.step == step])
            steps[step] = TriageStep(step, state, tuple(codes), None)
        else:
            steps[step] = TriageStep(step, state, (), whys[step])
    return tuple(steps.values())


MAX_SPAN_IDS = 100  # of one data-quality finding; `count` says how many there were


def _quality(notes: Iterable[Note]) -> list[Finding]:
    return sorted(map(_from_note, _merged(notes)), key=attrgetter("code"))


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
