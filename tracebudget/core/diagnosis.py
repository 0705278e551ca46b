"""What only many requests together can tell of an app: whether longer prompts take longer, and
whether busy hours do.

A single request shows its own growth and its own queue (`core.detectors`). Over many, prompts of
like length can be compared, and a slope can be fitted. The rules: docs/findings.md.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median, median_low
from typing import Any, NamedTuple

from tracebudget.core.detectors.context import (
    GROWTH,
    MIN_TURNS,
    SMALL_CACHED_SHARE,
    TTFT_RISE_NS,
    TTFT_RISE_SHARE,
)
from tracebudget.core.detectors.model import KNOWN_SHARE, QUEUE_NS, QUEUE_SHARE
from tracebudget.core.finding import State
from tracebudget.core.fit import slope
from tracebudget.core.profile import model_key
from tracebudget.core.tokens import Tokens

MIN_CALLS = 30  # with a first token: below it, nothing is said of many
MIN_RUNS = 10  # of three turns, to compare their turns
COHORT_TURN, COHORT_TOKENS = 3, 3_000  # "after three turns, with a tool result of 3,000 tokens"
BAND = 1.5  # prompts are of like length within that factor
MAX_POINTS = 200  # of a chart

HOUR_S = 3_600
MIN_HOURS = 4  # with calls in them
BUSY = 1.5  # times the calls of the median hour; up to that hour, all are quiet
MIN_LIKE = 20  # calls of a band on either side
USUALLY_SLOW = 0.05  # of the quiet calls are slower than their p95: by definition
MUCH_MORE = 3  # times as many busy ones that are: not chance, with MIN_LIKE and more


class AppCall(NamedTuple):
    """A successful model call of an app. `turn` is the index within its run; `ttft_ns` is evidence,
    or None.
    """

    request: int
    run: int
    turn: int
    started_s: int  # Unix time
    model: str | None
    tokens: Tokens
    ttft_ns: int | None
    tool_result_tokens: int | None = None


class Spread(NamedTuple):
    """TTFT of some calls, and how long their prompts are in the median."""

    calls: int
    p50_ns: int
    p95_ns: int
    tokens: int | None


class Loss(NamedTuple):
    """What it cost the requests of the sample that had it."""

    requests: int
    total_ns: int
    p95_ns: int


@dataclass(frozen=True, slots=True)
class Growth:
    """Whether TTFT grows with the context. `why`: the reason of what is unknown.

    Of the model with most calls: `points` (uncached tokens, TTFT) and their slope; by turn index;
    and the cohort of late turns that carry a long tool result. Over `runs` of three turns or more,
    in the median: by how much the last turn's first token is later than the first turn's, its
    prompt longer, and what share of that was cached.
    """

    state: State
    why: str | None = None
    model: str | None = None
    ns_per_token: float | None = None
    points: tuple[tuple[int, int], ...] = ()
    turns: tuple[tuple[int, Spread], ...] = ()
    cohort: Spread | None = None
    runs: int = 0
    rise_ns: int | None = None
    rise_share: float | None = None
    growth: float | None = None
    cached_share: float | None = None
    lost: Loss | None = None


@dataclass(frozen=True, slots=True)
class Queueing:
    """Whether calls wait in busy hours. `slow_share`: of the busy calls, those slower than the p95
    of quiet calls with prompts of like length.
    """

    state: State
    why: str | None = None
    busy: Spread | None = None
    quiet: Spread | None = None
    slow_share: float | None = None
    lost: Loss | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Over `calls` of `requests`, of which `known` tell their first token; each stands for `weight`
    requests of the window.
    """

    requests: int
    calls: int
    known: int
    weight: int
    since_s: int | None
    until_s: int | None
    growth: Growth
    queueing: Queueing

    def document(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Diagnosis | None:
        """The diagnosis that was kept so; None for one of another version, with other fields."""
        try:
            growth, queueing = _growth_of(document["growth"]), _queueing_of(document["queueing"])
            return cls(**{**document, "growth": growth, "queueing": queueing})
        except (KeyError, TypeError):
            return None


def _growth_of(kept: Mapping[str, Any]) -> Growth:
    values = {
        "state": State(kept["state"]),
        "points": tuple((tokens, ns) for tokens, ns in kept["points"]),
        "turns": tuple((turn, Spread(*spread)) for turn, spread in kept["turns"]),
        "cohort": kept["cohort"] and Spread(*kept["cohort"]),
        "lost": kept["lost"] and Loss(*kept["lost"]),
    }
    return Growth(**{**kept, **values})


def _queueing_of(kept: Mapping[str, Any]) -> Queueing:
    values = {
        "state": State(kept["state"]),
        "busy": kept["busy"] and Spread(*kept["busy"]),
        "quiet": kept["quiet"] and Spread(*kept["quiet"]),
        "lost": kept["lost"] and Loss(*kept["lost"]),
    }
    return Queueing(**{**kept, **values})


def diagnose(calls: Sequence[AppCall], *, weight: int = 1) -> Diagnosis:
    """Judge a sample of an app's calls, one in `weight` of its requests, whole ones."""
    calls = sorted(calls, key=_order)
    known = [call for call in calls if call.ttft_ns is not None]
    starts = [call.started_s for call in calls]
    why = _too_little(calls, known)
    return Diagnosis(
        requests=len({call.request for call in calls}),
        calls=len(calls),
        known=len(known),
        weight=weight,
        since_s=min(starts, default=None),
        until_s=max(starts, default=None),
        growth=Growth(State.UNKNOWN, why) if why else _growth(known),
        queueing=Queueing(State.UNKNOWN, why) if why else _queueing(known),
    )


def _too_little(calls: Sequence[AppCall], known: Sequence[AppCall]) -> str | None:
    if len(known) < KNOWN_SHARE * len(calls):
        return "ttft_unknown"
    return "few_calls" if len(known) < MIN_CALLS else None


def _order(call: AppCall) -> tuple[int, ...]:
    """Any order, so long as it is the same whatever the order of arrival."""
    return (call.request, call.run, call.turn, call.started_s, call.ttft_ns or 0)


def _loss(lost: Iterable[tuple[int, int]]) -> Loss:
    """Of what single calls lost, each with its request."""
    by_request: Counter[int] = Counter()
    for request, ns in lost:
        by_request[request] += ns
    return Loss(len(by_request), by_request.total(), _at(by_request.values(), 0.95))


# --- growth ---------------------------------------------------------------------------------------


def _growth(known: Sequence[AppCall]) -> Growth:
    models = Counter(model_key(call.model) for call in known)
    model = max(sorted(models), key=lambda name: models[name])
    calls = [call for call in known if model_key(call.model) == model]
    points = sorted((length, call.ttft_ns or 0) for call in calls if (length := _length(call)))
    per_token = slope(points)
    per_token = per_token if per_token is not None and per_token > 0 else None
    pairs = list(_first_and_last(calls))
    told = Growth(
        State.CLEAR,
        model=model or None,
        ns_per_token=per_token,
        points=tuple(points[:: -(-len(points) // MAX_POINTS) or 1]),
        turns=tuple(sorted(_by_turn(calls).items())),
        cohort=_spread([call for call in calls if _is_late_and_loaded(call)]),
        runs=len(pairs),
    )
    return _judged(told, pairs)


Pair = tuple[AppCall, AppCall]


def _judged(told: Growth, pairs: Sequence[Pair]) -> Growth:
    if not pairs:
        return told  # no agent of this app goes so many turns
    if len(pairs) < MIN_RUNS:
        return replace(told, state=State.UNKNOWN, why="few_turns")
    told = replace(
        told,
        rise_ns=round(median(_rise(pair) for pair in pairs)),
        rise_share=median(_rise(pair) / (pair[0].ttft_ns or 1) for pair in pairs),
        growth=median(
            (last.tokens.input or 0) / (first.tokens.input or 1) for first, last in pairs
        ),
        cached_share=_cached_share([last for _, last in pairs]),
    )
    if not _grows(told):
        return told
    lost = _loss((pair[0].request, _lost(told.ns_per_token, pair)) for pair in pairs)
    return replace(told, state=State.FOUND, lost=lost)


def _grows(told: Growth) -> bool:
    return (
        (told.growth or 0) >= GROWTH
        and (told.rise_ns or 0) >= TTFT_RISE_NS
        and (told.rise_share or 0) >= TTFT_RISE_SHARE
        and (told.cached_share or 0) < SMALL_CACHED_SHARE
    )


def _rise(pair: Pair) -> int:
    first, last = pair
    return (last.ttft_ns or 0) - (first.ttft_ns or 0)


def _cached_share(calls: Iterable[AppCall]) -> float | None:
    shares = [
        call.tokens.cached_input / call.tokens.input
        for call in calls
        if call.tokens.cached_input is not None and call.tokens.input
    ]
    return median(shares) if shares else None


def _lost(per_token: float | None, pair: Pair) -> int:
    """What the last turn's extra tokens cost: by the slope, at most what it was slower."""
    first, last = pair
    extra = max(0, (_length(last) or 0) - (_length(first) or 0))
    rise = max(0, _rise(pair))
    return rise if per_token is None else min(rise, round(per_token * extra))


def _length(call: AppCall) -> int | None:
    """The tokens that had to be read: without cached ones, where that is told."""
    uncached = call.tokens.uncached_input
    return call.tokens.input if uncached is None else uncached


def _first_and_last(calls: Iterable[AppCall]) -> Iterator[Pair]:
    """Of each run with three turns or more, the first calls of its first turn and of its last."""
    by_run: defaultdict[tuple[int, int], dict[int, AppCall]] = defaultdict(dict)
    for call in calls:
        by_run[call.request, call.run].setdefault(call.turn, call)
    for turns in by_run.values():
        first, last = turns[min(turns)], turns[max(turns)]
        is_whole = first.turn == 0 and len(turns) >= MIN_TURNS
        if is_whole and first.tokens.input and last.tokens.input:
            yield first, last


def _by_turn(calls: Iterable[AppCall]) -> dict[int, Spread]:
    by_turn: defaultdict[int, list[AppCall]] = defaultdict(list)
    for call in calls:
        by_turn[call.turn].append(call)
    spreads = {turn: _spread(mine) for turn, mine in by_turn.items()}
    return {turn: spread for turn, spread in spreads.items() if spread is not None}


def _is_late_and_loaded(call: AppCall) -> bool:
    return call.turn >= COHORT_TURN and (call.tool_result_tokens or 0) >= COHORT_TOKENS


def _spread(calls: Sequence[AppCall]) -> Spread | None:
    if not calls:
        return None
    ttfts = [call.ttft_ns or 0 for call in calls]
    lengths = [call.tokens.input for call in calls if call.tokens.input is not None]
    return Spread(
        len(calls),
        _at(ttfts, 0.5),
        _at(ttfts, 0.95),
        round(median(lengths)) if lengths else None,
    )


def _at(values: Iterable[int], share: float) -> int:
    """The least value that is not below that share of all."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


# --- queueing -------------------------------------------------------------------------------------


def _queueing(known: Sequence[AppCall]) -> Queueing:
    loads = Counter(call.started_s // HOUR_S for call in known)
    if len(loads) < MIN_HOURS:
        return Queueing(State.UNKNOWN, "few_hours")
    usual = median_low(loads.values())
    quiet = [call for call in known if loads[call.started_s // HOUR_S] <= usual]
    busy = [call for call in known if loads[call.started_s // HOUR_S] >= BUSY * usual]
    return _compared(busy, quiet) if busy else Queueing(State.UNKNOWN, "even_load")


def _compared(busy: Sequence[AppCall], quiet: Sequence[AppCall]) -> Queueing:
    """Busy calls against quiet ones of the same model and with prompts of like length."""
    quiet_bands, busy_bands = _bands(quiet), _bands(busy)
    alike = [
        band
        for band, calls in busy_bands.items()
        if min(len(calls), len(quiet_bands.get(band, ()))) >= MIN_LIKE
    ]
    if not alike:
        return Queueing(State.UNKNOWN, "nothing_alike")
    then = [call for band in alike for call in quiet_bands[band]]
    now = [call for band in alike for call in busy_bands[band]]
    lost = [one for band in alike for one in _excess(busy_bands[band], quiet_bands[band])]
    told = Queueing(
        State.CLEAR,
        busy=_spread(now),
        quiet=_spread(then),
        slow_share=len(lost) / len(now),
    )
    return replace(told, state=State.FOUND, lost=_loss(lost)) if _waits(told) else told


def _waits(told: Queueing) -> bool:
    """More of the busy calls are slow than of the quiet ones, and by more than scheduling takes."""
    if told.busy is None or told.quiet is None:
        return False
    later = told.busy.p95_ns - told.quiet.p95_ns
    is_more = (told.slow_share or 0) >= MUCH_MORE * USUALLY_SLOW
    return is_more and later > max(QUEUE_NS, QUEUE_SHARE * told.quiet.p95_ns)


def _bands(calls: Iterable[AppCall]) -> dict[tuple[str, int], list[AppCall]]:
    """By model and length of prompt."""
    bands: defaultdict[tuple[str, int], list[AppCall]] = defaultdict(list)
    for call in calls:
        length = _length(call)
        if length is not None:
            bands[model_key(call.model), int(math.log(max(1, length), BAND))].append(call)
    return bands


def _excess(busy: Sequence[AppCall], quiet: Sequence[AppCall]) -> Iterator[tuple[int, int]]:
    """Of each busy call that would be slow in quiet hours its request, and the time beyond the
    usual.
    """
    ttfts = [call.ttft_ns or 0 for call in quiet]
    usual, slow = _at(ttfts, 0.5), _at(ttfts, 0.95)
    for call in busy:
        if (call.ttft_ns or 0) > slow:
            yield call.request, (call.ttft_ns or 0) - usual
