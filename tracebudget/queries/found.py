"""What was found in an app over a window: each finding with what it cost, answered ones apart, and
the six steps of the investigation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tracebudget.core.diagnosis import Diagnosis
from tracebudget.core.finding import DETECTORS, STEPS, State
from tracebudget.queries.rollups import Figures
from tracebudget.series import CODE, FINDING, MODEL_TTFT, Series

KNOWN_SHARE = 0.5  # of the calls, or of the requests: with less, nothing is said of them together
TTFT_STEPS = (2, 4)  # of the investigation, which rest on first tokens

Answered = frozenset[tuple[str, str]]  # code and subject
NONE_ANSWERED: Answered = frozenset()


@dataclass(frozen=True, slots=True)
class Thing:
    """What a finding is about: a thing to fix. Times are ns over all its requests."""

    subject: str
    requests: int
    lost_ns: int | None


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A finding over a window: in how many requests, and what fixing it would give back, together
    and in the p95 of those requests. `turns`: in which turns, by index.

    `is_sampled`: only many requests together show it, and its figures are drawn up from a sample.
    """

    code: str
    requests: int
    lost_ns: int | None
    p95_ns: int | None
    things: list[Thing]
    turns: dict[int, int]
    is_sampled: bool = False

    @property
    def step(self) -> int | None:
        """Its place in the order of investigation; None for data quality."""
        return DETECTORS[self.code].step if self.code in DETECTORS else None

    @property
    def order(self) -> tuple[int, int, str]:
        """What would give back most comes first."""
        return (-(self.lost_ns or 0), -self.requests, self.code)


@dataclass(frozen=True, slots=True)
class TriageRow:
    """A step of the investigation: what was found, or why `share` of the requests cannot tell."""

    step: int
    state: State
    found: list[FindingRow]
    why: str | None = None
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """`open` performance findings, by the time lost; `answered` ones alike; doubts of the data."""

    open: list[FindingRow]
    answered: list[FindingRow]
    quality: list[FindingRow]


def found_in(
    figures: Figures, answered: Answered = NONE_ANSWERED, diagnosis: Diagnosis | None = None
) -> Found:
    """What the requests of a window show each, and what their diagnosis shows together."""
    rows = list(_rows(figures, answered, is_answered=False))
    codes = {row.code for row in rows}
    shown = codes | _codes(answered)
    rows += [row for row in _diagnosed(diagnosis) if row.code not in shown]
    rows.sort(key=lambda row: row.order)
    return Found(
        [row for row in rows if row.step is not None],
        sorted(_rows(figures, answered, is_answered=True), key=lambda row: row.order),
        [row for row in rows if row.step is None],
    )


def _codes(answered: Answered) -> set[str]:
    return {code for code, _subject in answered}


def _rows(figures: Figures, answered: Answered, *, is_answered: bool) -> Iterable[FindingRow]:
    by_code: dict[str, dict[str, Series]] = {}
    for name, series in figures.named(FINDING).items():
        code, _, subject = name.partition(" ")
        if ((code, subject) in answered) is is_answered:
            by_code.setdefault(code, {})[subject] = series
    for code, subjects in by_code.items():
        whole = figures.one(CODE, code)
        is_whole = code not in _codes(answered)
        yield _row(code, whole if is_whole else _sum(subjects.values()), subjects, whole)


def _sum(parts: Iterable[Series]) -> Series:
    """Of some subjects of a code. A request that has two of them counts twice."""
    total = Series()
    for part in parts:
        total.merge(part.stored())
    return total


def _row(code: str, series: Series, subjects: Mapping[str, Series], whole: Series) -> FindingRow:
    things = [Thing(name, one.total, _lost(one)) for name, one in subjects.items() if name]
    p95 = series.sketch.quantiles([0.95])
    return FindingRow(
        code=code,
        requests=series.total,
        lost_ns=_lost(series),
        p95_ns=p95[0] if p95 else None,
        things=sorted(things, key=lambda thing: (-(thing.lost_ns or 0), -thing.requests)),
        turns=_turns(whole),
    )


def _lost(series: Series) -> int | None:
    return series.sum if series.count else None


def _turns(series: Series) -> dict[int, int]:
    counts = {
        int(what.removeprefix("turn ")): n
        for what, n in series.also.items()
        if what.startswith("turn ")
    }
    return dict(sorted(counts.items()))


def _diagnosed(diagnosis: Diagnosis | None) -> Iterable[FindingRow]:
    """What many requests show together: losses of the sample, for all that it stands for."""
    if diagnosis is None:
        return
    weight = diagnosis.weight
    for part, code in ((diagnosis.growth, "context_growth"), (diagnosis.queueing, "queueing")):
        if part.lost is not None:
            requests, total, p95 = part.lost
            yield FindingRow(code, requests * weight, total * weight, p95, [], {}, is_sampled=True)


# --- the six steps --------------------------------------------------------------------------------


def triage(figures: Figures, found: Found) -> list[TriageRow]:
    """Found beats unknown, unknown beats clear."""
    return [_triage_row(step, figures, found) for step in STEPS]


def _triage_row(step: int, figures: Figures, found: Found) -> TriageRow:
    mine = [row for row in found.open if row.step == step]
    if mine:
        return TriageRow(step, State.FOUND, mine)
    ttft = figures.all_of(MODEL_TTFT)
    if step in TTFT_STEPS and ttft.count < KNOWN_SHARE * ttft.total:
        return TriageRow(step, State.UNKNOWN, [], "ttft_unknown", ttft.count / ttft.total)
    why, requests = _usual_reason(step, figures)
    if why is not None and requests >= KNOWN_SHARE * figures.requests.total:
        return TriageRow(step, State.UNKNOWN, [], why, requests / figures.requests.total)
    return TriageRow(step, State.CLEAR, [])


def _usual_reason(step: int, figures: Figures) -> tuple[str | None, int]:
    """Why most requests could not tell of a step, and how many could not, for whatever reason."""
    prefix = f"unknown {step} "
    whys = {w: n for w, n in figures.requests.also.items() if w.startswith(prefix)}
    if not whys:
        return None, 0
    return max(sorted(whys), key=lambda w: whys[w]).removeprefix(prefix), sum(whys.values())
