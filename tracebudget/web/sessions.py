"""The session page: does it get slower the longer they talk?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from tracebudget.core.axis import Axis
from tracebudget.queries.sessions import SESSION_ROWS, Call, Session, Talk, find_session
from tracebudget.web.access import project_for
from tracebudget.web.figures import Share, calls_figure, of_columns, shares
from tracebudget.web.paging import row_number
from tracebudget.web.waterfall import Bar, DrawnFold, Tick, drawn_fold, drawn_tick, percent

# Rows of many calls do not tell how sure an inference is.
NARROW: dict[str, dict[str, list[int]]] = {"ttft_intervals": {}}
CALLS_SHOWN = 300  # of the table below the chart, which has them all


@dataclass(frozen=True, slots=True)
class TalkLine:
    """A request with its bars on the axis of the session."""

    talk: Talk
    shares: list[Share]
    bars: list[Bar]


class SessionPage:
    """A session, taken apart for the template."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.axis = session.axis
        self.lines = [_line(talk, self.axis) for talk in session.talks]

    @property
    def folds(self) -> list[DrawnFold]:
        return [drawn_fold(fold, self.axis) for fold in self.axis.folds]

    @property
    def ticks(self) -> list[Tick]:
        return [drawn_tick(ns, self.axis.at(ns)) for ns in self.axis.ticks()]

    @property
    def calls(self) -> list[tuple[Talk, Call]]:
        return [(talk, call) for talk in self.session.talks for call in talk.calls]

    @property
    def before(self) -> int | None:
        return max(0, self.session.first - SESSION_ROWS) if self.session.first else None

    @property
    def behind(self) -> int | None:
        behind = self.session.first + len(self.session.talks)
        return behind if behind < self.session.total else None

    @property
    def ends(self) -> tuple[Call, Call] | None:
        """The first calls of the first and of the last request that have one, to compare."""
        firsts = [t.first_call for t in self.session.talks if t.first_call is not None]
        return (firsts[0], firsts[-1]) if len(firsts) > 1 else None


def _line(talk: Talk, axis: Axis) -> TalkLine:
    """The segments of a request, as parts of its whole: their order in time is on its own page."""
    at, width = axis.at(talk.start_ns), axis.at(talk.end_ns) - axis.at(talk.start_ns)
    its = shares(of_columns(vars(talk.trace)))
    bars = [
        Bar(percent(at + width * s.offset), percent(width * s.share), s.css, s.fill) for s in its
    ]
    return TalkLine(talk, its, bars)


@require_safe
def session_page(request: HttpRequest, project: str) -> HttpResponse:
    """Does it get slower the longer they talk?"""
    mine = project_for(request.user, project)
    session_id = request.GET.get("id", "")
    session = find_session(mine, session_id, first=row_number(request, "from"))
    if session is None:
        raise Http404(f"no session {session_id!r} in this project")
    page = SessionPage(session)
    context = {
        "project": mine,
        "document": NARROW,
        "session": session,
        "page": page,
        "calls": page.calls[:CALLS_SHOWN],
        "figure": calls_figure(_labels(page.calls), [call for _talk, call in page.calls]),
    }
    return render(request, "sessions/detail.html", context)


def _labels(calls: Sequence[tuple[Talk, Call]]) -> list[str]:
    """Request and turn; a second call of a turn gets a mark behind it, to stand apart."""
    labels: list[str] = []
    for talk, call in calls:
        label = f"{talk.number}.{call['turn']}"
        while label in labels[-len(talk.calls) :]:
            label += "′"
        labels.append(label)
    return labels
