"""Time to first token: who claims it, in which unit, from which moment, and whether the claim can
be true.

    call  |---- offset ----|-------- ttft --------|------- rest -------|
          start      last attempt            first token              end

Rules and thresholds: semantics, "Where TTFT comes from".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from tracebudget.core.dialects.facts import Fact, SpanFacts
from tracebudget.core.record import plain_members, record
from tracebudget.core.span import Span

MS = 1_000_000
UNITS = {"s": 1_000_000_000, "ms": MS, "us": 1_000, "ns": 1}

GRACE_NS = (
    MS  # clocks of emitter and span differ by rounding: so much past the end is capped, not refused
)
EQUAL_NS = MS  # a first token this close to the end of many tokens is the end itself
LATE_EVENT_NS, LATE_EVENT_SHARE = (
    5 * MS,
    0.01,
)  # an event this close to the end was stamped when the span closed
TOOL_ANSWER_END_NS, TOOL_ANSWER_END_SHARE = 20 * MS, 0.05  # the end, stamped before its handling
MIN_REST_PER_TOKEN_NS = 200_000  # 5,000 tokens a second: faster than any decoder sends one stream
MIN_PLAUSIBLE_NS = (
    MS  # no service answers over a network in less; below it the unit was guessed wrong
)
MIN_TPOT_TOKENS = 2  # the first token has no token before it
QUARTER_HOUR_NS = 900 * 1_000_000_000  # all time zones lie on quarters of an hour

MOMENTS = frozenset({"event_time", "child_span_start"})  # sources that are Unix ns
# Written on calls that were not streamed as well (OpenLIT, Monocle): no proof of a stream.
NO_PROOF = frozenset({"gen_ai.server.time_to_first_token", "gen_ai.server.ttft", "data.output"})


@plain_members
class TtftSource(StrEnum):
    MEASURED = "measured"
    REPORTED = "reported"
    INFERRED = "inferred"
    UNKNOWN = "unknown"


KNOWN = frozenset({TtftSource.MEASURED, TtftSource.REPORTED})  # somebody saw the first token


@record
class TtftClaim:
    """What one attribute or event says: `after_ns` from the span's start, or from its last
    attempt's.
    """

    after_ns: int
    where: str
    is_bound: bool
    from_attempt: bool
    is_event: bool
    unit_guessed: bool
    is_end_before_tools: bool  # in answers that ask for tools the emitter may stamp the end
    proves_stream: bool


@record
class Ttft:
    """The figure that holds for a call. `split_ns` is where prefill ends, from the call's start;
    None: not split.
    """

    ns: int | None = None
    source: TtftSource = TtftSource.UNKNOWN
    is_bound: bool = False
    where: str | None = None
    unit_guessed: bool = False
    split_ns: int | None = None
    first_visible_ns: int | None = None
    interval_ns: tuple[int, int] | None = None  # of an inferred figure


NO_TTFT = Ttft()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a claim was not believed: a data-quality code, where it stood and its value."""

    code: str
    where: str
    value_ns: int


def nanoseconds(value: Any, unit: str) -> int | None:
    """A number in `unit` as integer ns, rounded half up; None for what is no finite number. Text is
    parsed.
    """
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return math.floor(value * UNITS[unit] + 0.5)


def claims(facts: SpanFacts) -> tuple[TtftClaim, ...]:
    """All claims of a first token on a span, the dialect's own first."""
    if "ttft" not in facts.values:
        return ()
    found: dict[str, TtftClaim] = {}
    for fact in facts.all("ttft"):
        claim = _claim(facts.span, fact)
        if claim is not None:
            found.setdefault(claim.where, claim)
    return tuple(found.values())


def _claim(span: Span, fact: Fact) -> TtftClaim | None:
    after = _after_start(span, fact)
    if after is None:
        return None
    candidate = fact.source
    return TtftClaim(
        after_ns=after,
        where=candidate.where,
        is_bound=candidate.is_bound,
        from_attempt=candidate.origin == "attempt_start",
        is_event=candidate.source in MOMENTS,
        unit_guessed=candidate.unit == "ambiguous",
        is_end_before_tools=candidate.is_end_before_tools,
        proves_stream=candidate.key not in NO_PROOF,
    )


def _after_start(span: Span, fact: Fact) -> int | None:
    """The claim in ns from the span's start (or its attempt's), whatever the unit."""
    unit = fact.source.unit
    if fact.source.source in MOMENTS:
        return int(fact.value) - span.start_ns
    if unit == "iso8601":
        moment = unix_ns(fact.value)
        return None if moment is None else moment - span.start_ns
    if unit == "iso8601_naive_local":
        return _local_after(span, unix_ns(fact.value))
    if unit == "ambiguous":
        return _plausible(fact.value, span)
    return nanoseconds(fact.value, unit)


def _plausible(value: Any, span: Span) -> int | None:
    """A figure without a unit, from the span's start or in Unix time: in the largest unit in which
    it fits into the call.
    """
    last = span.end_ns - span.start_ns + GRACE_NS
    for unit in UNITS:
        ns = nanoseconds(value, unit)
        for after in (ns, ns - span.start_ns) if ns is not None else ():
            if MIN_PLAUSIBLE_NS <= after <= last:
                return after
    return None


def _local_after(span: Span, moment: int | None) -> int | None:
    """A local time without its zone: the one zone, if any, in which it falls inside the span."""
    if moment is None:
        return None
    after = (moment - span.start_ns) % QUARTER_HOUR_NS
    within_a_day = abs(moment - span.start_ns) <= 96 * QUARTER_HOUR_NS
    return (
        after if within_a_day and after <= span.end_ns - span.start_ns < QUARTER_HOUR_NS else None
    )


def unix_ns(text: Any) -> int | None:
    """ISO 8601 as Unix ns (UTC where no zone is given); None for what is none."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000_000 + delta.microseconds * 1_000


@record
class Outline:
    """What is known of a call when its claims are judged. `offset_ns`: where its last attempt
    began, from the call's start.
    """

    duration_ns: int
    offset_ns: int
    output_tokens: int | None
    streamed: bool | None
    asks_for_tools: bool


def resolve_claims(claimed: Sequence[TtftClaim], call: Outline) -> tuple[Ttft, list[Refusal]]:
    """The first claim that can be true, as a measured TTFT, and why the others before it were
    refused. A claim on a call known not to be streamed is refused.
    """
    refused: list[Refusal] = []
    for claim in claimed:
        split = claim.after_ns + (call.offset_ns if claim.from_attempt else 0)
        code = _disbelief(claim, split, call)
        capped = min(split, call.duration_ns)
        if code is None:
            return _accepted(claim, capped, call.offset_ns), refused
        refused.append(Refusal(code, claim.where, claim.after_ns))
        if code == "ttft_not_prefill":
            return Ttft(first_visible_ns=max(0, capped - call.offset_ns)), refused
    return Ttft(), refused


def _accepted(claim: TtftClaim, split: int, offset_ns: int) -> Ttft:
    return Ttft(
        ns=split - offset_ns if split > offset_ns else split,
        source=TtftSource.MEASURED,
        is_bound=claim.is_bound,
        where=claim.where,
        unit_guessed=claim.unit_guessed,
        split_ns=split,
    )


def _disbelief(claim: TtftClaim, split: int, call: Outline) -> str | None:
    """The data-quality code under which a claim is refused, None where it can be true."""
    rest, output = call.duration_ns - split, call.output_tokens
    if call.streamed is False or split <= 0 or rest < -GRACE_NS:
        return "ttft_out_of_range"
    late = max(LATE_EVENT_NS, int(call.duration_ns * LATE_EVENT_SHARE))
    if (output is None or output > 1) and rest <= (late if claim.is_event else EQUAL_NS):
        return "ttft_equals_duration"
    too_fast = output is not None and output > 1 and rest < MIN_REST_PER_TOKEN_NS * (output - 1)
    return "ttft_not_prefill" if too_fast or _is_end_before_tools(claim, rest, call) else None


def _is_end_before_tools(claim: TtftClaim, rest: int, call: Outline) -> bool:
    """So close to the end, the figure of an emitter that collects tool calls is the end itself."""
    near = max(TOOL_ANSWER_END_NS, int(TOOL_ANSWER_END_SHARE * call.duration_ns))
    return call.asks_for_tools and claim.is_end_before_tools and rest < near


def tpot_ns(duration_ns: int, split_ns: int | None, output_tokens: int | None) -> int | None:
    """Time per output token after the first, ns rounded half up: (end - first token) / (output -
    1).
    """
    if split_ns is None or output_tokens is None or output_tokens < MIN_TPOT_TOKENS:
        return None
    return rounded(duration_ns - split_ns, output_tokens - 1)


def rounded(numerator: int, denominator: int) -> int:
    """Integer division, rounded half up. Exact where a float is not."""
    return (2 * numerator + denominator) // (2 * denominator)
