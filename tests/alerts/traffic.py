"""Requests of one app, through the real way in: spans stored, then analysed.

within  |-------- agent --------| 800 ms       over  |----------- agent -----------| 4.3 s
        chat |-- search_order --|                    chat |-- search_order --|
             |-- user_info --|  chat                               user_info |--| chat
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from tests.builders import START_NS, agent, chat, make_trace, tool
from tracebudget import models, pipeline, store
from tracebudget.core.span import Span

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MS = 1_000_000

LIMIT_NS = 2_000 * MS  # of the whole request


def request(
    trace_id: str, *, ended_at: datetime, is_slow: bool = False, service: str = "shop"
) -> list[Span]:
    """The spans of a request that ended at a moment."""
    search = (200, 3_200 if is_slow else 700)
    info = (3_200, 4_200) if is_slow else (200, 500)
    length = max(search[1], info[1]) + 100
    spans = make_trace(
        agent(
            0,
            length,
            chat(0, 200, ttft=50, asks={"c1": "search_order", "c2": "user_info"}),
            tool(*search, name="search_order", call_id="c1"),
            tool(*info, name="user_info", call_id="c2"),
            chat(length - 100, length, ttft=40),
        )
    )
    shift = unix_ns(ended_at) - length * MS - START_NS
    return [
        replace(
            span,
            trace_id=trace_id,
            resource={"service.name": service},
            start_ns=span.start_ns + shift,
            end_ns=span.end_ns + shift,
        )
        for span in spans
    ]


def unix_ns(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1) * 1000


class Traffic:
    """Requests that arrive one after another: `o` within the budget, `x` over it."""

    def __init__(self, project: models.Project, service: str = "shop") -> None:
        self.project, self.service = project, service

    def arrive(self, picture: str, *, last_at: datetime, every: timedelta = MINUTE) -> None:
        """A request a letter, the last of which ended at `last_at`; all analysed."""
        letters = list(picture.replace(" ", ""))
        for before, letter in enumerate(reversed(letters)):
            ended_at = last_at - before * every
            spans = request(
                uuid4().hex,
                ended_at=ended_at,
                is_slow=letter == "x",
                service=self.service,
            )
            store.store_spans(self.project, spans, now=ended_at)
        self.analyze(last_at + MINUTE)

    def analyze(self, now: datetime) -> None:
        pipeline.analyze_due(lambda: now)


def promise(
    app: models.App,
    metric: str = "end_to_end",
    limit: int = LIMIT_NS,
    *,
    at: datetime = NOW - timedelta(days=90),
) -> models.Budget:
    """A budget that holds since a moment."""
    budget = models.Budget.objects.create(app=app, metric=metric, limit=limit)
    models.Budget.objects.filter(pk=budget.pk).update(updated_at=at)
    budget.refresh_from_db()
    return budget
