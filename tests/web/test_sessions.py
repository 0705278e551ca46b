"""The session page, and the way from one request of a talk to the next."""

from __future__ import annotations

import re

import orjson
import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from tests.web.traces import Recorder, arrive, worked_example
from tracebudget import models
from tracebudget.queries import sessions
from tracebudget.queries.sessions import find_session, neighbours

PAGE = "/p/shop/sessions/?id=talk"
QUERIES = 6  # session, user, project; how many; requests; calls
MINUTE_MS = 60_000


def talk(trace: int, at_ms: int, session: str = "talk") -> Recorder:
    made = worked_example(trace, at_ms=at_ms)
    made.spans[0].attributes["gen_ai.conversation.id"] = session  # type: ignore[index]
    return made


@pytest.fixture
def traces(project: models.Project) -> list[models.Trace]:
    """Three requests of 461 ms with pauses of 2 s and a minute, and one of somebody else."""
    third_ms = 461 + 2_000 + 461 + MINUTE_MS
    recorders = [talk(1, 0), talk(2, 2_461), talk(3, third_ms), talk(4, 1_000, "other")]
    return arrive(project, *recorders)


def test_requests_stand_in_order_with_the_pauses_between(
    project: models.Project, traces: list[models.Trace]
) -> None:
    session = find_session(project, "talk")
    assert session is not None
    assert [t.trace for t in session.talks] == traces[:3]
    assert [t.pause_ns for t in session.talks] == [None, 2_000_000_000, 60_000_000_000]
    assert session.active_ns == 3 * 461_000_000
    assert session.wall_ns == 63_383_000_000


def test_only_long_pauses_are_folded(project: models.Project, traces: list[models.Trace]) -> None:
    session = find_session(project, "talk")
    assert session is not None
    assert [fold.end_ns - fold.start_ns for fold in session.axis.folds] == [60_000_000_000]


def test_overlapping_requests_leave_no_pause(project: models.Project) -> None:
    arrive(project, talk(1, 0), talk(2, 100), talk(3, 300))
    session = find_session(project, "talk")
    assert session is not None
    assert [t.pause_ns for t in session.talks] == [None, 0, 0]
    assert session.active_ns == session.wall_ns == 761_000_000


def test_page_tells_the_first_tokens_with_their_source(
    page: Client, traces: list[models.Trace]
) -> None:
    said = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.get(PAGE).content.decode()))
    assert "1.38 s of work in a talk of 1 min 3 s" in said
    assert "58 ms measured" in said
    assert "1 min" in said


def test_inferred_first_tokens_are_told_apart_and_not_drawn(
    page: Client, traces: list[models.Trace]
) -> None:
    models.ModelCall.objects.filter(ttft_ns=58_000_000).update(ttft_source="inferred")
    content = page.get(PAGE).content.decode()
    assert "58 ms inferred" in content
    figure = orjson.loads(
        content.partition('id="calls-figure"')[2].partition(">")[2].partition("<")[0]
    )
    assert set(figure["data"][0]["y"]) == {None, 62.0}


def test_neighbours_are_of_the_same_session(traces: list[models.Trace]) -> None:
    ways = [neighbours(trace) for trace in traces]
    assert [(w.before, w.after) for w in ways if w is not None] == [
        (None, traces[1]), (traces[0], traces[2]), (traces[1], None), (None, None),
    ]  # fmt: skip


def test_requests_that_start_at_once_are_passed_in_one_order(project: models.Project) -> None:
    traces = arrive(project, talk(1, 0), talk(2, 0), talk(3, 0))
    first = min(traces, key=lambda t: t.pk)
    seen, at = [first], neighbours(first)
    while at is not None and at.after is not None:
        seen.append(at.after)
        at = neighbours(at.after)
    assert sorted(t.pk for t in seen) == sorted(t.pk for t in traces)


def test_request_page_leads_to_the_session_and_on(page: Client, traces: list[models.Trace]) -> None:
    content = page.get(reverse("request", args=["shop", traces[1].trace_id])).content.decode()
    assert "/p/shop/sessions/?id=talk" in content
    for rel, trace in (("prev", traces[0]), ("next", traces[2])):
        assert f'rel="{rel}" href="/p/shop/requests/{trace.trace_id.hex}/"' in content


def test_long_session_is_read_in_pieces(
    page: Client, traces: list[models.Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "SESSION_ROWS", 2)
    assert "from=2" in page.get(PAGE).content.decode()
    second = page.get(f"{PAGE}&from=2").content.decode()
    assert traces[2].trace_id.hex in second
    assert traces[0].trace_id.hex not in second


def test_unknown_session_and_stranger_get_nothing(
    page: Client, stranger: Client, traces: list[models.Trace]
) -> None:
    assert page.get("/p/shop/sessions/?id=nothing").status_code == 404
    assert page.get("/p/shop/sessions/").status_code == 404
    assert stranger.get(PAGE).status_code == 404


def test_number_of_queries_is_fixed(
    page: Client,
    traces: list[models.Trace],
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    with django_assert_num_queries(QUERIES):
        page.get(PAGE)
