"""Pages of a list: together they are the list, whatever it is sorted by."""

from __future__ import annotations

import random
from datetime import timedelta
from uuid import UUID

import pytest
from django.test import Client

from tests.web.traces import AFTERWARDS, START
from tracebudget import models
from tracebudget.queries.traces import SORTS, Position, TraceFilter, trace_page, window
from tracebudget.web import paging

ROWS, SIZE = 47, 5


@pytest.fixture
def traces(project: models.Project) -> None:
    """Many rows with few different values: ties are where pages go wrong."""
    choose = random.Random(3)
    models.Trace.objects.bulk_create(
        models.Trace(
            project=project,
            trace_id=UUID(int=number),
            day=START.date(),
            first_seen_at=START,
            last_seen_at=START,
            analyzed_at=START,
            started_at=START + timedelta(seconds=choose.randrange(4)),
            name="request",
            state="complete",
            breached=[],
            **{
                f"{name}_ns": choose.randrange(4)
                for name in ("end_to_end", "prefill", "decode", "tool", "framework", "wait")
            },
            unsplit_ns=0,
            unattributed_ns=0,
        )
        for number in range(1, ROWS + 1)
    )


def ids_by_page(chosen: TraceFilter) -> list[list[int]]:
    pages: list[list[int]] = []
    after: Position | None = None
    while not pages or after is not None:
        page = trace_page(chosen, after=after, size=SIZE)
        pages.append([trace.pk for trace in page.rows])
        cursor = paging.encode(page.next, chosen) if page.next is not None else None
        after = paging.decode(cursor, chosen) if cursor is not None else None
    return pages


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("sort", SORTS)
def test_pages_hold_every_row_once_in_order(
    project: models.Project, traces: None, sort: str, descending: bool
) -> None:
    chosen = TraceFilter(project, window("all", now=AFTERWARDS), {}, sort, descending)
    pages = ids_by_page(chosen)
    sign = "-" if descending else ""
    whole = chosen.traces().order_by(f"{sign}{SORTS[sort][0]}", f"{sign}pk")
    assert [pk for page in pages for pk in page] == [trace.pk for trace in whole]
    assert [len(page) for page in pages] == [SIZE] * (ROWS // SIZE) + [ROWS % SIZE]


def test_rows_that_arrive_meanwhile_move_nothing(project: models.Project, traces: None) -> None:
    """Newest first: page 2 begins behind the last row of page 1, not behind so many rows."""
    chosen = TraceFilter(project, window("all", now=AFTERWARDS))
    first = trace_page(chosen, size=SIZE)
    newer = first.rows[0]
    newer.pk, newer.trace_id = None, UUID(int=999)
    newer.save(force_insert=True)
    second = trace_page(chosen, after=first.next, size=SIZE)
    assert not {t.trace_id for t in first.rows} & {t.trace_id for t in second.rows}


def test_cursor_is_opaque_and_belongs_to_its_order(
    project: models.Project, traces: None, page: Client
) -> None:
    by_time = TraceFilter(project, window("all", now=AFTERWARDS))
    by_tool = TraceFilter(project, window("all", now=AFTERWARDS), {}, "tool")
    cursor = paging.encode(Position(START, 1), by_time)
    with pytest.raises(paging.BadCursor, match="another order"):
        paging.decode(cursor, by_tool)
    with pytest.raises(paging.BadCursor, match="not made by this server"):
        paging.decode(cursor[:-1] + "x", by_time)
    answer = page.get("/p/shop/requests/", {"after": cursor, "sort": "-tool"})
    assert answer.status_code == 400
    assert b"another order" in answer.content


def test_page_links_to_the_next_one(page: Client, traces: None, settings: object) -> None:
    models.Trace.objects.bulk_create(_copies(models.Trace.objects.first(), start=1000, number=20))
    first = page.get("/p/shop/requests/", {"state": "complete"})
    second = page.get("/p/shop/requests/", {"state": "complete", "after": first.context["next"]})
    assert f"after={first.context['next'].replace(':', '%3A')}" in first.content.decode()
    numbers = [t.pk for answer in (first, second) for t, _bars in answer.context["rows"]]
    assert len(numbers) == len(set(numbers)) == ROWS + 20


def _copies(trace: models.Trace | None, *, start: int, number: int) -> list[models.Trace]:
    assert trace is not None
    fields = {
        field.attname: getattr(trace, field.attname)
        for field in trace._meta.concrete_fields
        if field.attname not in {"id", "trace_id"}
    }
    return [models.Trace(trace_id=UUID(int=start + i), **fields) for i in range(number)]
