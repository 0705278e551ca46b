"""The estimate behind `inferred`: where prefill ended in a call that nobody watched.

    duration = a + b * uncached input tokens + c * (output tokens - 1)
               `------- prefill --------'      `------ decode -------'

One robust regression over the calls of one app and model (`core.robust`). A call whose first token
is known tells both halves apart and gives two equations; any other gives their sum. So the fit
works for apps in which no call tells, as long as tokens vary enough to tell the halves apart, and
it says how sure it is; where it is not, there is no fit. The formulas: docs/measuring.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from tracebudget.core.robust import NORMAL_MAD, Point, Regression, regress
from tracebudget.core.tokens import Tokens

MIN_CALLS = 20  # three unknowns, and a minority of calls that follow another law
MAX_CALLS = 500  # of one fit: more narrow nothing, and cost the worker
MIN_KNOWN = 20  # first tokens, to measure the error by them rather than to derive it
FOLDS = 5
MAX_ERROR = 0.12  # where half of the estimates would be further off than that: unknown
SHARE = 0.80  # of estimates in whose interval the truth lies
NORMAL_SHARE, NORMAL_HALF = 1.2816, 0.6745  # standard deviations that hold 80 and 50 % of normals
# Around the call lies what its client does, a new connection or the reading of an answer, of which
# no fit can tell how much was before the first token.
LEAST_MARGIN = 0.15
MAX_SPREAD = 3  # from one end of an interval to the other: beyond, it says nothing
MAX_REACH = 2  # times the longest prompt that was fitted: beyond, the line is a guess

MIN_POINTS = 3  # below it a slope is two guesses
MAX_POINTS = 100  # of one slope


class Sample(NamedTuple):
    """One successful call. `ttft_ns`: measured or reported, and no mere bound; else None."""

    uncached_tokens: int
    output_tokens: int
    duration_ns: int
    ttft_ns: int | None = None


class Estimate(NamedTuple):
    """The inferred end of prefill from the call's start, and the interval that holds it for `SHARE`
    of calls.
    """

    prefill_ns: int
    low_ns: int
    high_ns: int


@dataclass(frozen=True, slots=True)
class CallFit:
    """The law of one app and model, in ns; `count` calls were fitted, the first token of `known` of
    them known.

    `error`: median absolute relative error of an estimate. `margin`: share of the expected prefill
    by which an interval is widened.
    """

    a_ns: float
    b_ns: float
    c_ns: float
    count: int
    known: int = 0
    error: float | None = None
    margin: float = LEAST_MARGIN
    max_tokens: int | None = None  # the longest uncached prompt that was fitted

    def estimate(self, tokens: Tokens, duration_ns: int) -> Estimate | None:
        """None for a call without counts, with a prompt far longer than those fitted, or so far
        from the law that its surplus could be anything's.
        """
        output = tokens.output
        uncached = tokens.uncached_input if self.b_ns else 0  # else its length is no matter
        if uncached is None or output is None or output < 1 or duration_ns <= 0:
            return None
        if self.max_tokens is not None and uncached > MAX_REACH * self.max_tokens:
            return None
        halves = self.halves(uncached, output)
        low, high = halves.reach(duration_ns, self.margin)
        if high > MAX_SPREAD * low:
            return None
        return Estimate(round(halves.prefill_of(duration_ns)), round(low), round(high))

    def halves(self, uncached_tokens: int, output_tokens: int) -> Halves:
        return Halves(self.a_ns + self.b_ns * uncached_tokens, self.c_ns * (output_tokens - 1))


class Halves(NamedTuple):
    """What the law expects of a call with such tokens, in ns."""

    prefill: float
    decode: float

    @property
    def size(self) -> float:
        """By which a call may be off in both: both by the same share, independently."""
        return math.hypot(self.prefill, self.decode)

    @property
    def prefill_weight(self) -> float:
        """How much of a surplus falls to prefill, where both halves are off by the same share:
        least squares of the relative deviations.
        """
        return (self.prefill / self.size) ** 2 if self.size else 0.0

    def surplus(self, duration_ns: int) -> float:
        return duration_ns - self.prefill - self.decode

    def prefill_of(self, duration_ns: int) -> float:
        """The likeliest prefill of a call that took so long: at least 1 ns, and within the call."""
        likely = self.prefill + self.prefill_weight * self.surplus(duration_ns)
        return min(max(1.0, likely), float(duration_ns))

    def reach(self, duration_ns: int, margin: float) -> tuple[float, float]:
        """From all surplus in decode to all of it in prefill, widened on both sides."""
        ends = sorted((self.prefill, duration_ns - self.decode))
        wider = margin * self.prefill
        return max(0.0, ends[0] - wider), min(ends[1] + wider, float(duration_ns))


def fit_calls(samples: Sequence[Sample]) -> CallFit | None:
    """The fit of the calls of one app and model; None where they do not carry one: too few, or
    tokens that do not vary, or vary together, so that decode cannot be told from prefill.
    """
    good = sorted(filter(_is_usable, samples), key=_order)
    if len(good) < MIN_CALLS:
        return None
    good = good[:: -(-len(good) // MAX_CALLS)]
    law = _law(good)
    doubt = None if law is None else _doubt(law, good)
    if law is None or doubt is None or doubt.error > MAX_ERROR:
        return None
    return CallFit(
        *law.coefficients,
        count=len(good),
        known=sum(sample.ttft_ns is not None for sample in good),
        error=round(doubt.error, 4),
        margin=round(max(LEAST_MARGIN, doubt.margin), 4),
        max_tokens=max(sample.uncached_tokens for sample in good),
    )


def _is_usable(sample: Sample) -> bool:
    known = sample.ttft_ns is None or 0 < sample.ttft_ns <= sample.duration_ns
    return known and sample.duration_ns > 0 and sample.output_tokens > 0


def _order(sample: Sample) -> tuple[int, int, int, int]:
    """Any order, so long as it is the same whatever the order of arrival."""
    return (sample.duration_ns, *sample[:2], sample.ttft_ns or 0)


# --- the law --------------------------------------------------------------------------------------

COEFFICIENTS = 3
PER_TOKEN, DECODE = 1, 2  # their places


class _Law(NamedTuple):
    """a, b and c, and the regression over `columns` of them that tells how sure they are."""

    coefficients: tuple[float, float, float]
    regression: Regression
    columns: tuple[int, ...]

    def halves(self, sample: Sample) -> Halves:
        a, b, c = self.coefficients
        return Halves(a + b * sample.uncached_tokens, c * (sample.output_tokens - 1))

    def doubt(self, sample: Sample) -> float:
        """The standard error of the expected prefill, as a share of it."""
        row = (1.0, float(sample.uncached_tokens), 0.0)
        error = self.regression.doubt([row[column] for column in self.columns])
        return error / max(1.0, self.halves(sample).prefill)


def _law(samples: Sequence[Sample]) -> _Law | None:
    """No time is negative: a coefficient that would be is taken as zero, but leaves its doubt.
    None where the tokens do not determine them all, or decode would take no time.
    """
    points = [point for sample in samples for point in _equations(sample)]
    is_one_length = len({sample.uncached_tokens for sample in samples}) == 1
    first_columns = (0, DECODE) if is_one_length else (0, PER_TOKEN, DECODE)
    columns: tuple[int, ...] = first_columns
    regression = first = regress([_only(columns, point) for point in points])
    while regression is not None and first is not None:
        found = dict(zip(columns, regression.coefficients, strict=True))
        negative = next((c for c in (DECODE, PER_TOKEN, 0) if found.get(c, 1.0) <= 0), None)
        if negative is None:
            a, b, c = (found.get(column, 0.0) for column in range(COEFFICIENTS))
            return _Law((a, b, c), first, first_columns)
        columns = tuple(column for column in columns if column != negative)
        if negative == DECODE or columns == (DECODE,):
            return None
        regression = regress([_only(columns, point) for point in points])
    return None


def _equations(sample: Sample) -> Iterator[Point]:
    uncached, later = float(sample.uncached_tokens), float(sample.output_tokens - 1)
    if sample.ttft_ns is None:
        yield (1.0, uncached, later), sample.duration_ns
        return
    yield (1.0, uncached, 0.0), sample.ttft_ns
    if later:
        yield (0.0, 0.0, later), sample.duration_ns - sample.ttft_ns


def _only(columns: tuple[int, ...], point: Point) -> Point:
    x, y = point
    return tuple(x[column] for column in columns), y


# --- how sure it is -------------------------------------------------------------------------------


class _Doubt(NamedTuple):
    """Median absolute relative error of an estimate, and the margin that its interval needs."""

    error: float
    margin: float


def _doubt(law: _Law, samples: Sequence[Sample]) -> _Doubt | None:
    """By cross-fitting: each fifth is held against the law of the others."""
    tried = list(_cross_fitted(samples))
    known = [(sample, halves) for sample, halves in tried if sample.ttft_ns is not None]
    if not tried:
        return None
    return _measured(known) if len(known) >= MIN_KNOWN else _derived(law, tried)


def _cross_fitted(samples: Sequence[Sample]) -> Iterator[tuple[Sample, Halves]]:
    """Each sample with what the law of the other folds expects of it."""
    for fold in range(FOLDS):
        law = _law([s for number, s in enumerate(samples) if number % FOLDS != fold])
        if law is not None:
            yield from ((sample, law.halves(sample)) for sample in samples[fold::FOLDS])


def _measured(known: Sequence[tuple[Sample, Halves]]) -> _Doubt:
    """Against first tokens that the estimate did not see; the margin is that quantile of the
    distance to the interval which makes it hold (conformal prediction).
    """
    errors, scores = [], []
    for sample, halves in known:
        truth = sample.ttft_ns or 0
        low, high = halves.reach(sample.duration_ns, 0.0)
        errors.append(abs(halves.prefill_of(sample.duration_ns) - truth) / truth)
        scores.append(max(low - truth, truth - high) / max(1.0, halves.prefill))
    rank = min(len(scores), math.ceil((len(scores) + 1) * SHARE))
    return _Doubt(median(errors), sorted(scores)[rank - 1])


def _derived(law: _Law, tried: Sequence[tuple[Sample, Halves]]) -> _Doubt:
    """No first token to compare with: the spread of what is left over, in so far as prefill may
    have it, and the doubt in the coefficients.
    """
    off = [abs(halves.surplus(s.duration_ns)) / halves.size for s, halves in tried if halves.size]
    spread = NORMAL_MAD * median(off)
    deviation = median(
        math.hypot(spread * math.sqrt(1 - halves.prefill_weight), law.doubt(sample))
        for sample, halves in tried
    )
    return _Doubt(NORMAL_HALF * deviation, NORMAL_SHARE * deviation)


# --- one slope ------------------------------------------------------------------------------------


def slope(points: Sequence[tuple[int, int]]) -> float | None:
    """Theil-Sen: the median of the slopes between all pairs with different x; None for fewer than
    three points. Of many points an even sample is taken: the pairs grow with their square.
    """
    points = points[:: max(1, len(points) // MAX_POINTS)]
    pairs = [
        (x2 - x1, y2 - y1)
        for i, (x1, y1) in enumerate(points)
        for x2, y2 in points[i + 1 :]
        if x1 != x2
    ]
    return median(dy / dx for dx, dy in pairs) if len(points) >= MIN_POINTS and pairs else None
