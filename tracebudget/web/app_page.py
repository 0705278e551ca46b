"""What only many requests of an app tell, in words: growth with the context, and busy hours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from django.utils.functional import Promise
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from tracebudget.core.diagnosis import COHORT_TOKENS, COHORT_TURN, Diagnosis, Growth, Queueing
from tracebudget.core.finding import State
from tracebudget.templatetags.duration import count, duration, percent, significant
from tracebudget.web.figures import Figure, prompts_figure

WHYS: Mapping[str, str | Promise] = {
    "few_calls": _("There are too few calls with a known first token."),
    "few_turns": _("Too few runs have three turns or more."),
    "few_hours": _("There are calls in too few hours to tell busy ones from quiet ones."),
    "even_load": _("No hour is much busier than the others."),
    "nothing_alike": _("Busy and quiet hours have too few calls with prompts of like length."),
}


@dataclass(frozen=True, slots=True)
class Line:
    """One question to many requests: its state, the answer, and what it rests on."""

    question: str
    state: State
    answer: str
    facts: list[str]


class Many:
    """A diagnosis, for the page."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        self.diagnosis = diagnosis
        self.growth = diagnosis.growth
        self.queueing = diagnosis.queueing

    @property
    def since(self) -> datetime | None:
        return _moment(self.diagnosis.since_s)

    @property
    def until(self) -> datetime | None:
        return _moment(self.diagnosis.until_s)

    @property
    def figure(self) -> Figure | None:
        """TTFT against the prompt; None without points."""
        points = self.growth.points
        return prompts_figure(points, self.growth.ns_per_token) if points else None

    @property
    def lines(self) -> list[Line]:
        return [self._growth_line(), self._queueing_line()]

    def _unknown(self, why: str | None) -> str:
        if why == "ttft_unknown":
            share = self.diagnosis.known / max(1, self.diagnosis.calls)
            said = gettext("TTFT known for %(share)s of calls: cannot tell.")
            return said % {"share": percent(share)}
        return str(WHYS.get(why or "", ""))

    def _growth_line(self) -> Line:
        growth = self.growth
        return Line(
            gettext("Does the first token come later, the longer the context?"),
            growth.state,
            self._unknown(growth.why) if growth.why else _growth_answer(growth),
            [*_slope_facts(growth), *_cohort_facts(growth)],
        )

    def _queueing_line(self) -> Line:
        queueing = self.queueing
        return Line(
            gettext("Does it come later in busy hours, with prompts of like length?"),
            queueing.state,
            self._unknown(queueing.why) if queueing.why else _queueing_answer(queueing),
            [],
        )


def _moment(unix_s: int | None) -> datetime | None:
    return None if unix_s is None else datetime.fromtimestamp(unix_s, UTC)


def _growth_answer(growth: Growth) -> str:
    if growth.rise_ns is None or growth.growth is None:
        return gettext("No run has three turns or more: nothing can grow.")
    said = (
        gettext(
            "Yes: the last turn's first token comes %(rise)s later than the first turn's, in the "
            "median of %(runs)s runs; its prompt is %(growth)s times as long."
        )
        if growth.state == State.FOUND
        else gettext(
            "Not in a way that costs time: from the first turn to the last it moves by %(rise)s, "
            "in the median of %(runs)s runs; the prompt is %(growth)s times as long."
        )
    )
    return said % {
        "rise": duration(growth.rise_ns),
        "runs": count(growth.runs),
        "growth": significant(growth.growth),
    }


def _slope_facts(growth: Growth) -> list[str]:
    facts = []
    if growth.ns_per_token is not None:
        said = gettext("%(time)s for 1,000 more tokens, of %(model)s")
        time = duration(round(growth.ns_per_token * 1000))
        facts.append(said % {"time": time, "model": growth.model or gettext("its model")})
    if growth.cached_share is not None:
        said = gettext("%(share)s of the last prompt from the cache")
        facts.append(said % {"share": percent(growth.cached_share)})
    return facts


def _cohort_facts(growth: Growth) -> list[str]:
    """The benchmark that a long session has to stand: late turns with a long tool result."""
    first = dict(growth.turns).get(0)
    if growth.cohort is None or first is None:
        return []
    said = ngettext(
        "turn %(turn)s or later, with %(tokens)s tokens of a tool's result: TTFT p50 %(p50)s, "
        "p95 %(p95)s in %(calls)s call (turn 0: %(first50)s, %(first95)s)",
        "turn %(turn)s or later, with %(tokens)s tokens of a tool's result: TTFT p50 %(p50)s, "
        "p95 %(p95)s in %(calls)s calls (turn 0: %(first50)s, %(first95)s)",
        growth.cohort.calls,
    )
    figures = {
        "turn": COHORT_TURN,
        "tokens": count(COHORT_TOKENS),
        "calls": count(growth.cohort.calls),
        "p50": duration(growth.cohort.p50_ns),
        "p95": duration(growth.cohort.p95_ns),
        "first50": duration(first.p50_ns),
        "first95": duration(first.p95_ns),
    }
    return [said % figures]


def _queueing_answer(queueing: Queueing) -> str:
    if queueing.busy is None or queueing.quiet is None:
        return ""
    said = (
        gettext(
            "Yes: TTFT p95 is %(busy)s in busy hours and %(quiet)s in quiet ones; %(slow)s of "
            "%(calls)s busy calls are slower than 95 %% of the quiet ones."
        )
        if queueing.state == State.FOUND
        else gettext(
            "No: TTFT p95 is %(busy)s in busy hours and %(quiet)s in quiet ones; %(slow)s of "
            "%(calls)s busy calls are slower than 95 %% of the quiet ones."
        )
    )
    return said % {
        "busy": duration(queueing.busy.p95_ns),
        "quiet": duration(queueing.quiet.p95_ns),
        "slow": percent(queueing.slow_share),
        "calls": count(queueing.busy.calls),
    }
