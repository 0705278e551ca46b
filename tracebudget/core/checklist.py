"""The release checklist: ten items, each done, not done, or not to be told from traces.

An item is done only where traces show it at work, and not done where they show that it is not. That
nothing was seen is neither: then somebody who knows may tick it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from tracebudget.core.declaration import Observation
from tracebudget.core.gate import Check, Outcome

COMPLETE = 0.99  # of calls: one in a hundred may be cut short by a crash or a cancelled request
SPLIT = 0.95  # of end-to-end: what is left is smaller than what differs between two days
GROWS = ("context_growth", "tool_result_inflates_context")


class State(StrEnum):
    DONE = "done"
    NOT_DONE = "not_done"
    UNKNOWN = "unknown"


DONE, NOT_DONE, UNKNOWN = State


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the answered model calls tell: how many should tell a figure, and how many do."""

    calls: int = 0
    ttft: int = 0
    tpot: int = 0
    tpot_calls: int = 0  # with two output tokens or more; of one token there is no rate
    input_tokens: int = 0
    output_tokens: int = 0
    streamed: int = 0

    def shares(self) -> dict[str, float]:
        """Of each figure, where calls should have it."""
        parts = {
            "ttft": (self.ttft, self.calls),
            "tpot": (self.tpot, self.tpot_calls),
            "input_tokens": (self.input_tokens, self.calls),
            "output_tokens": (self.output_tokens, self.calls),
        }
        return {name: part / whole for name, (part, whole) in parts.items() if whole}


@dataclass(frozen=True, slots=True)
class Times:
    """Sums over the requests."""

    requests: int = 0
    with_turns: int = 0
    end_to_end_ns: int = 0
    unsplit_ns: int = 0
    unattributed_ns: int = 0


@dataclass(frozen=True, slots=True)
class Routes:
    """Model calls by model: of simple requests (one call, no tool), and of the others."""

    simple: Mapping[str, int] = field(default_factory=dict)
    others: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Handling:
    """How a number of requests, read whole, handled tools and failures."""

    together: int = 0  # turns in which tools ran side by side
    timeouts: int = 0  # requests in which a tool ran into its time limit
    went_on: int = 0  # of those: the model was asked again afterwards, and answered
    failed_calls: int = 0
    coded_calls: int = 0  # failed model calls that say why
    codes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """All that the checklist reads of a release."""

    recorded: Recorded = Recorded()
    times: Times = Times()
    routes: Routes = Routes()
    handling: Handling = Handling()
    found: Mapping[str, int] = field(default_factory=dict)  # requests by code of an open finding
    read_only_repeats: int = 0  # requests that asked a read-only tool the same again
    result_ttl_seconds: int | None = None
    timeout_ms: int | None = None
    timeout_state: Observation | None = None  # what traces say of the declared one
    prompt_cap: Check | None = None  # the budget of input tokens, judged
    prompt_p95: int | None = None
    frozen_at: datetime | None = None  # the baseline of this release


@dataclass(frozen=True, slots=True)
class Verdict:
    """What traces say of an item. `why` has a sentence in `release.checklist_words`; `codes` are
    findings that show it.
    """

    state: State
    why: str
    evidence: dict[str, Any] = field(default_factory=dict)
    codes: tuple[str, ...] = ()


Judge = Callable[[Facts], Verdict]
ITEMS: dict[str, Judge] = {}  # in the order of the list


def item(name: str) -> Callable[[Judge], Judge]:
    """Register what judges an item."""

    def register(judge: Judge) -> Judge:
        ITEMS[name] = judge
        return judge

    return register


def check(facts: Facts) -> dict[str, Verdict]:
    """Every item, by name."""
    return {name: judge(facts) for name, judge in ITEMS.items()}


def _found(facts: Facts, why: str, *codes: str) -> Verdict | None:
    """Not done, where one of these findings is open."""
    requests = {code: facts.found[code] for code in codes if facts.found.get(code)}
    if not requests:
        return None
    evidence = {"found": max(requests.values()), "requests": facts.times.requests}
    return Verdict(NOT_DONE, why, evidence, tuple(requests))


@item("recorded")
def _recorded(facts: Facts) -> Verdict:
    """Every model call records TTFT, TPOT, input and output tokens."""
    shares = facts.recorded.shares()
    if not shares:
        return Verdict(UNKNOWN, "no_calls")
    evidence = {"calls": facts.recorded.calls, **shares}
    if min(shares.values()) < COMPLETE:
        return Verdict(NOT_DONE, "not_recorded", evidence)
    return Verdict(DONE, "all_recorded", evidence)


@item("split")
def _split(facts: Facts) -> Verdict:
    """End-to-end is split by turn and segment."""
    times = facts.times
    if not times.end_to_end_ns:
        return Verdict(UNKNOWN, "no_requests")
    evidence = {
        "with_turns": times.with_turns / times.requests,
        "unsplit": times.unsplit_ns / times.end_to_end_ns,
        "unattributed": times.unattributed_ns / times.end_to_end_ns,
    }
    is_split = evidence["unsplit"] + evidence["unattributed"] <= 1 - SPLIT
    if is_split and evidence["with_turns"] >= COMPLETE:
        return Verdict(DONE, "is_split", evidence)
    return Verdict(NOT_DONE, "not_split", evidence)


@item("parallel")
def _parallel(facts: Facts) -> Verdict:
    """Independent tools run at the same time."""
    found = _found(facts, "ran_in_a_row", "serial_tools")
    if found is not None:
        return found
    if facts.handling.together:
        return Verdict(DONE, "ran_together", {"together": facts.handling.together})
    return Verdict(UNKNOWN, "no_several_tools")


@item("cached")
def _cached(facts: Facts) -> Verdict:
    """Results of tools that only read are kept for a while. A kept result leaves no trace."""
    if facts.read_only_repeats:
        evidence = {"found": facts.read_only_repeats, "requests": facts.times.requests}
        return Verdict(NOT_DONE, "asked_again", evidence, ("repeated_tool_call",))
    repeats = facts.found.get("repeated_tool_call", 0)
    if repeats:
        return Verdict(UNKNOWN, "repeats_unmarked", {"found": repeats}, ("repeated_tool_call",))
    if not facts.result_ttl_seconds:
        return Verdict(UNKNOWN, "no_ttl")
    return Verdict(UNKNOWN, "cache_unseen", {"seconds": facts.result_ttl_seconds})


@item("context")
def _context(facts: Facts) -> Verdict:
    """The context of many turns has a cap, beyond which it is summarised or cut."""
    found = _found(facts, "context_grows", *GROWS)
    if found is not None:
        return found
    cap = facts.prompt_cap
    if cap is None:
        return Verdict(UNKNOWN, "no_cap", {"p95": facts.prompt_p95})
    evidence = {**cap.evidence, "p95": facts.prompt_p95}
    if cap.outcome == Outcome.WORSE:
        return Verdict(NOT_DONE, "over_cap", evidence)
    if cap.outcome == Outcome.UNKNOWN:
        return Verdict(UNKNOWN, "cap_unproven", evidence)
    return Verdict(DONE, "under_cap", evidence)


@item("timeouts")
def _timeouts(facts: Facts) -> Verdict:
    """Tools have a time limit, and an answer comes without them."""
    handling = facts.handling
    evidence = {"timeouts": handling.timeouts, "went_on": handling.went_on, "ms": facts.timeout_ms}
    if facts.timeout_state == Observation.CONTRADICTED:
        return Verdict(NOT_DONE, "ran_longer", evidence)
    if handling.went_on < handling.timeouts:
        return Verdict(NOT_DONE, "ended_there", evidence, ("tool_timeout",))
    if facts.timeout_ms is None:
        return Verdict(UNKNOWN, "no_timeout_declared")
    if not handling.timeouts:
        return Verdict(UNKNOWN, "no_timeout_seen", evidence)
    return Verdict(DONE, "went_on", evidence)


@item("one_generation")
def _one_generation(facts: Facts) -> Verdict:
    """What was streamed is the answer: it is not generated a second time."""
    found = _found(facts, "generated_twice", "double_generation")
    if found is not None:
        return found
    if not facts.recorded.streamed:
        return Verdict(UNKNOWN, "nothing_streamed")
    return Verdict(DONE, "generated_once", {"streamed": facts.recorded.streamed})


@item("routing")
def _routing(facts: Facts) -> Verdict:
    """Simple requests go to a small model, or to a cache."""
    found = _found(facts, "oversized", "oversized_model")
    if found is not None:
        return found
    simple, other = (_main(calls) for calls in (facts.routes.simple, facts.routes.others))
    if simple is None or other is None:
        return Verdict(UNKNOWN, "no_simple_requests" if simple is None else "only_simple_requests")
    evidence = {"simple": simple, "other": other}
    if simple == other:
        return Verdict(UNKNOWN, "one_model", evidence)
    return Verdict(DONE, "routed", evidence)


def _main(calls: Mapping[str, int]) -> str | None:
    """The model of most calls."""
    return max(calls, key=lambda model: (calls[model], model), default=None)


@item("limits")
def _limits(facts: Facts) -> Verdict:
    """Rate limits, circuit breaking, error codes. Traces show the codes, at most."""
    handling = facts.handling
    evidence = {"failed": handling.failed_calls, "coded": handling.coded_calls}
    if not handling.failed_calls:
        return Verdict(UNKNOWN, "no_failures")
    if handling.coded_calls < handling.failed_calls:
        return Verdict(NOT_DONE, "no_codes", evidence)
    return Verdict(UNKNOWN, "codes_told", {**evidence, "codes": list(handling.codes)})


@item("benchmark")
def _benchmark(facts: Facts) -> Verdict:
    """Latency was measured anew for this release, and its figures were kept."""
    if facts.frozen_at is None:
        return Verdict(NOT_DONE, "not_frozen")
    return Verdict(DONE, "frozen", {"at": facts.frozen_at})
