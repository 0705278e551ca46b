"""Steps 1, 5 and 6 of the investigation: which segment, which gap, and whether a faster model would
help at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tracebudget.core.budget import framework_ns
from tracebudget.core.finding import (
    Case,
    Finding,
    Severity,
    State,
    Trait,
    Unknown,
    detector,
    performance,
)
from tracebudget.core.replay import (
    Change,
    framework_cut,
    owner_of,
    saving_ns,
    time_without_models,
)
from tracebudget.core.report import Report
from tracebudget.core.segment import SegmentKind
from tracebudget.core.tree import Node

MS = 1_000_000

TOOL_SHARE, TOOL_FACTOR = (
    0.5,
    2,
)  # without a budget: half of the request, and twice the next segment
FRAMEWORK_PER_TURN_NS = 50 * MS  # the upper end of what the source's budget table grants a loop
FRAMEWORK_SHARE = 0.10  # below it a lean request is merely short
MAX_TURNS = 5  # the source's loop gives up after five
REMAINING_SHARE = 0.5  # without a budget: most of the time is not the model's
MODEL_SHARE = 0.7
CAUSES = (2, 3, 4)  # the steps whose findings, or doubts, keep from saying that all is clear
NETWORK_STEP = 5  # few servers send spans: that step may stay unknown
UNTRACED_SHARE = 0.5  # with more of the request untraced, nothing can be said of shares
GAP_NS, GAP_SHARE = 50 * MS, 0.05  # between agents: shorter is scheduling
NETWORK_NS, NETWORK_SHARE = 100 * MS, 0.20  # of a call: shorter is distance

GAVE_UP = re.compile(r"max.?(turns|steps|iterations)|recursion.?(limit|error)", re.IGNORECASE)


def model_ns(report: Report) -> int:
    return report.segments[SegmentKind.PREFILL] + report.segments[SegmentKind.DECODE]


def unattributed_ns(report: Report) -> int:
    return report.parts[SegmentKind.FRAMEWORK]["unattributed"] or 0


def _is_untraced(case: Case) -> bool:
    return unattributed_ns(case.report) > UNTRACED_SHARE * case.active_ns


@detector("tools_dominate", step=1)
def tools_dominate(case: Case) -> Iterator[Finding | Unknown]:
    """Total high, model figures normal: the time is in the tools (T-2). Points to step 3. Without a
    model there is nothing that tools could dominate.
    """
    report = case.report
    tool, model, total = report.segments[SegmentKind.TOOL], model_ns(report), case.active_ns
    if tool and _tools_lead(case, tool, model):
        yield performance(
            case,
            "tools_dominate",
            [],
            turn=None,
            saving_ns=None,
            tool_ns=tool,
            model_ns=model,
            end_to_end_ns=total,
            limit_ns=case.limit("tool"),
        )
    elif _is_untraced(case):
        yield Unknown("mostly_untraced")


def _tools_lead(case: Case, tool_ns: int, model_ns: int) -> bool:
    if tool_ns > model_ns and case.is_over("tool"):
        return True
    if tool_ns < TOOL_SHARE * case.active_ns or not case.report.calls:
        return False
    own = case.report.segments
    others = own[SegmentKind.PREFILL], own[SegmentKind.DECODE], own[SegmentKind.FRAMEWORK]
    return tool_ns >= TOOL_FACTOR * max(others)


@detector("framework_overhead", step=1)
def framework_overhead(case: Case) -> Iterator[Finding | Unknown]:
    """Total high, model figures normal: the time is in orchestration (T-2). Ignorance and retry
    waits do not count.
    """
    report, limit = case.report, case.limit("framework")
    own, turns = framework_ns(report), max(1, len(report.turns))
    allowed = limit if limit is not None else FRAMEWORK_PER_TURN_NS * turns
    if own <= allowed or (limit is None and own < FRAMEWORK_SHARE * case.active_ns):
        if _is_untraced(case):
            yield Unknown("mostly_untraced")
        return
    io = report.parts[SegmentKind.FRAMEWORK]["io"] or 0
    yield performance(
        case,
        "framework_overhead",
        [],
        turn=None,
        saving_ns=saving_ns(report, framework_cut(report, own - allowed)),
        framework_ns=own,
        turns=turns,
        per_turn_ns=own // turns,
        allowed_ns=allowed,
        io_ns=io,
    )


@detector("many_turns", step=1)
def many_turns(case: Case) -> Iterator[Finding]:
    """The agent keeps thinking: more rounds than promised, or it was stopped for them."""
    report = case.report
    turns, limit = len(report.runs[0].turns), case.limit("turns")
    limit = MAX_TURNS if limit is None else limit
    gave_up = [
        n for n in case.failed if n.step is not None and GAVE_UP.search(n.step.error_type or "")
    ]
    if turns > limit or gave_up:
        nodes = gave_up or [report.runs[0].top]
        yield performance(
            case,
            "many_turns",
            nodes,
            turn=None,
            saving_ns=None,
            turns=turns,
            limit=limit,
            gave_up=bool(gave_up),
        )


@detector("network_gap", step=5, needs=(Trait.CALLS,))
def network_gap(case: Case) -> Iterator[Finding | Unknown]:
    """Client and server disagree by much: the difference is network, gateway or authentication."""
    seen = [
        call for call in case.report.calls if call.server is not None and call.server is not call
    ]
    for call in seen:
        server = call.server
        gap = call.duration - server.duration if server is not None else 0
        if gap > NETWORK_NS and gap > NETWORK_SHARE * call.duration:
            yield performance(
                case,
                "network_gap",
                [call],
                turn=call.turn,
                saving_ns=saving_ns(case.report, Change(shorter={call: gap})),
                client_ns=call.duration,
                server_ns=call.duration - gap,
                gap_ns=gap,
            )
    if not seen:
        yield Unknown("no_server_spans")


@detector("handoff_gap", step=5, needs=(Trait.HANDOFFS,))
def handoff_gap(case: Case) -> Iterator[Finding]:
    """Time between agents in which neither works."""
    report = case.report
    for piece in report.path:
        if (
            piece.part == "handoff"
            and piece.duration > GAP_NS
            and piece.duration > GAP_SHARE * case.active_ns
        ):
            before = _neighbours(report, piece.start, piece.end)
            change = Change(shorter={owner_of(report, piece): piece.duration})
            yield performance(
                case,
                "handoff_gap",
                before,
                turn=None,
                saving_ns=saving_ns(report, change),
                gap_ns=piece.duration,
            )


def _neighbours(report: Report, start: int, end: int) -> list[Node]:
    """The agents on both sides of a gap."""
    before = max(
        (r.top for r in report.runs if r.top.end <= start), key=lambda n: n.end, default=None
    )
    after = min(
        (r.top for r in report.runs if r.top.start >= end), key=lambda n: n.start, default=None
    )
    return [node for node in (before, after) if node is not None]


@detector("model_not_bottleneck", step=6, needs=(Trait.CALLS,))
def model_not_bottleneck(case: Case) -> Iterator[Finding | Unknown]:
    """Even an infinitely fast model would not do: prints the ceiling. What is not traced may be a
    model, too; and what ran beside one, and ended no later, may have waited for it.
    """
    report, limit = case.report, case.limit("end_to_end")
    waited = report.segments[SegmentKind.WAIT]
    remaining = time_without_models(report) - waited
    target = limit if limit is not None else REMAINING_SHARE * case.active_ns
    if remaining <= target:
        return
    if remaining - unattributed_ns(report) <= target:
        yield Unknown("untraced_could_be_model")
        return
    if case.active_ns - model_ns(report) <= target:
        yield Unknown("work_beside_model")
        return
    yield performance(
        case,
        "model_not_bottleneck",
        [],
        turn=None,
        saving_ns=None,
        remaining_ns=remaining,
        end_to_end_ns=case.active_ns,
        model_ns=model_ns(report),
        limit_ns=limit,
        gain_percent=round(100 * (case.active_ns - remaining) / case.active_ns),
    )


@detector("model_bound", step=6)
def model_bound(case: Case) -> Iterator[Finding | Unknown]:
    """All else is clear and the model has most of the time: says which of prefill and decode."""
    report = case.report
    prefill, decode = (
        report.segments[SegmentKind.PREFILL],
        report.segments[SegmentKind.DECODE],
    )
    unsplit = report.parts[SegmentKind.DECODE]["unsplit"] or 0
    if prefill + decode <= MODEL_SHARE * case.active_ns:
        return
    earlier = [case.states[step] for step in CAUSES if step in case.states]
    if State.FOUND in earlier or case.states.get(NETWORK_STEP) is State.FOUND:
        return
    if State.UNKNOWN in earlier:
        yield Unknown("earlier_steps_unknown")
        return
    larger = (
        "unsplit"
        if unsplit > (prefill + decode) / 2
        else ("prefill" if prefill > decode else "decode")
    )
    yield performance(
        case,
        "model_bound",
        [],
        turn=None,
        saving_ns=None,
        severity=Severity.INFO,
        prefill_ns=prefill,
        decode_ns=decode,
        unsplit_ns=unsplit,
        larger=larger,
    )
