"""A session: the requests of one conversation, in order, with what people did between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any

from django.db.models import Q, QuerySet

from tracebudget import models
from tracebudget.core.axis import Axis, Fold
from tracebudget.core.segment import IDLE_NS

Call = Mapping[str, Any]  # as a model call of the analysis object, without what narrow rows lack
CALL_FIELDS = (
    "turn", "model", "streamed", "is_error", "ttft_ns", "ttft_source", "input_tokens",
    "cached_input_tokens", "output_tokens",
)  # fmt: skip

SESSION_ROWS = 100  # requests of one page: longer talks are read in pieces


@dataclass(frozen=True, slots=True)
class Talk:
    """One request of a session: when it began, in ns from the first one shown, and how long nobody
    was served before it. `pause_ns` is None for the first, and 0 where the one before still ran.
    """

    trace: models.Trace
    number: int
    start_ns: int
    pause_ns: int | None
    calls: list[Call]

    @property
    def end_ns(self) -> int:
        return self.start_ns + (self.trace.end_to_end_ns or 0)

    @property
    def first_call(self) -> Call | None:
        """The call whose first token the user waited for."""
        return next((call for call in self.calls if not call["is_error"]), None)


@dataclass(frozen=True, slots=True)
class Session:
    """Requests `first` (from 0) to `first + len(talks)`, of `total`."""

    id: str
    total: int
    first: int
    talks: list[Talk]

    @property
    def wall_ns(self) -> int:
        """From the first one's start to the last one's end."""
        return max(talk.end_ns for talk in self.talks)

    @property
    def active_ns(self) -> int:
        """In which at least one request ran, and did not wait for a person itself."""
        pauses = sum(talk.pause_ns or 0 for talk in self.talks)
        waits = sum(talk.trace.wait_ns or 0 for talk in self.talks)
        return max(0, self.wall_ns - pauses - waits)

    @property
    def axis(self) -> Axis:
        """The time of all of them, long pauses folded."""
        pauses = [(before, after) for before, after in pairwise(self.talks) if after.pause_ns]
        folds = [
            Fold(after.start_ns - (after.pause_ns or 0), after.start_ns)
            for _before, after in pauses
            if (after.pause_ns or 0) > IDLE_NS
        ]
        return Axis(self.wall_ns, folds)


def find_session(project: models.Project, session_id: str, *, first: int = 0) -> Session | None:
    """None where no request has that id. Three queries, each by an index."""
    requests = _requests(project, session_id)
    total = requests.count()
    rows = list(requests.select_related("app")[first : first + SESSION_ROWS])
    if not rows:
        return None
    return Session(session_id, total, first, _talks(rows, first))


def _requests(project: models.Project, session_id: str) -> QuerySet[models.Trace]:
    mine = models.Trace.objects.filter(project=project, session_id=session_id)
    return mine.filter(started_at__isnull=False).order_by("started_at", "id")


def _talks(rows: Sequence[models.Trace], first: int) -> list[Talk]:
    calls = _calls(rows)
    talks: list[Talk] = []
    busy_until = None
    for number, trace in enumerate(rows, first + 1):
        start = _since(rows[0], trace)
        pause = None if busy_until is None else max(0, start - busy_until)
        talks.append(Talk(trace, number, start, pause, calls[trace.pk]))
        busy_until = max(busy_until or 0, talks[-1].end_ns)
    return talks


def _since(first: models.Trace, trace: models.Trace) -> int:
    if first.started_at is None or trace.started_at is None:
        return 0
    return (trace.started_at - first.started_at) // timedelta(microseconds=1) * 1_000


def _calls(rows: Sequence[models.Trace]) -> dict[int, list[Call]]:
    """The model calls of each request that belong to a turn, in order."""
    calls: defaultdict[int, list[Call]] = defaultdict(list)
    mine = Q(day__in={row.day for row in rows}, trace__in=[row.pk for row in rows])
    found = models.ModelCall.objects.filter(mine, turn__isnull=False).order_by("position")
    for call in found.values("trace_id", *CALL_FIELDS):
        calls[call["trace_id"]].append({**call, "span_id": ""})
    return calls


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The requests of the same session before and after one."""

    before: models.Trace | None
    after: models.Trace | None


def neighbours(trace: models.Trace) -> Neighbours | None:
    """None for a request that stands alone. Two queries, by an index, for others."""
    if trace.session_id is None or trace.started_at is None:
        return None
    requests = _requests(trace.project, trace.session_id).only("trace_id", "started_at")
    at = trace.started_at
    before = requests.filter(started_at__lte=at).exclude(started_at=at, id__gte=trace.pk)
    after = requests.filter(started_at__gte=at).exclude(started_at=at, id__lte=trace.pk)
    return Neighbours(before.order_by("-started_at", "-id").first(), after.first())
