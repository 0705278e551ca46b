"""The list of requests: what is listed, in which order, and in which words."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from tests.web.traces import (
    AFTERWARDS,
    MS,
    START,
    arrive,
    nested_agents,
    serial_tools,
    waits_for_a_person,
    worked_example,
)
from tracebudget import models
from tracebudget.queries import traces as trace_queries
from tracebudget.queries.traces import TraceFilter, window

LIST = "/p/shop/requests/"
QUERIES = 7  # session, user, project, apps, names, count, rows
SEARCH_QUERIES = 1  # how far back to look
APP_QUERIES = 1  # which one


@pytest.fixture
def traces(project: models.Project) -> list[models.Trace]:
    app = models.App.objects.create(project=project, name="shop", slug="shop")
    models.Budget.objects.create(app=app, metric="end_to_end", limit=3000 * MS)
    return arrive(
        project,
        worked_example(1, **{"deployment.environment.name": "production"}),
        serial_tools(2, at_ms=1000, **{"service.version": "1.4.2"}),
        nested_agents(3, app="team", at_ms=2000),
        waits_for_a_person(4, at_ms=3000),
    )


def listed(page: Client, **query: str) -> list[int]:
    """The numbers of the traces in the order in which the page lists them."""
    answer = page.get(LIST, query)
    assert answer.status_code == 200, answer.content.decode()
    return [int(trace.trace_id) for trace, _bars in answer.context["rows"]]


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ({}, [4, 3, 2, 1]),
        ({"app": "team"}, [3]),
        ({"environment": "production"}, [1]),
        ({"version": "1.4.2"}, [2]),
        ({"state": "complete"}, [4, 3, 2, 1]),
        ({"state": "error"}, [3]),
        ({"breach": "any"}, [4, 2]),
        ({"breach": "end_to_end"}, [4, 2]),
        ({"breach": "ttft"}, []),
        ({"finding": "serial_tools"}, [2]),
        ({"model": "lpx"}, [4, 3, 2, 1]),
        ({"tool": "search_docs"}, [3]),
        ({"agent": "researcher"}, [3]),
        ({"longer": "4.5 s"}, [4, 3]),
        ({"shorter": "4500 ms", "longer": "1s"}, [2]),
        ({"text": "CHAT"}, [4]),
        ({"text": "100%_"}, []),
        ({"sort": "duration"}, [1, 2, 3, 4]),
        ({"sort": "-tool"}, [2, 3, 1, 4]),
        ({"range": "1h"}, []),
    ],
)
def test_filter(
    page: Client, traces: list[models.Trace], query: dict[str, str], numbers: list[int]
) -> None:
    assert listed(page, **query) == numbers


def test_sentence_and_where_come_from_one_object(
    project: models.Project, traces: list[models.Trace]
) -> None:
    values: dict[str, Any] = {"app": "shop", "breach": "end_to_end", "longer": 4 * 10**9}
    chosen = TraceFilter(
        project, window("all", now=AFTERWARDS), values, sort="tool", descending=True
    )
    assert chosen.traces().count() == 2
    assert chosen.describe(2) == (
        "2 requests of app shop over the budget of end-to-end of 4 s or longer in all time,"
        " most tool time first."
    )


def test_sentence_stands_above_the_list(page: Client, traces: list[models.Trace]) -> None:
    content = page.get(LIST, {"finding": "serial_tools"}).content.decode()
    assert "1 request with the finding “Tool calls of one answer ran one after another”" in content


def test_window_ends_now(project: models.Project, traces: list[models.Trace]) -> None:
    hour = TraceFilter(project, window("1h", now=START + timedelta(minutes=30)))
    assert hour.traces().count() == 4
    later = TraceFilter(project, window("1h", now=START + timedelta(hours=2)))
    assert later.traces().count() == 0


@pytest.mark.parametrize("query", [{"longer": "4"}, {"state": "odd"}, {"range": "century"}])
def test_filter_that_makes_no_sense_says_so_and_lists_nothing(
    page: Client, traces: list[models.Trace], query: dict[str, str]
) -> None:
    answer = page.get(LIST, query)
    assert answer.status_code == 400
    assert "rows" not in answer.context
    assert b"errorlist" in answer.content or b"makes no sense" in answer.content


def test_pasted_trace_id_opens_it(page: Client, traces: list[models.Trace]) -> None:
    pasted = f" {UUID(int=2)} "  # with dashes and blanks, as logs have it
    assert page.get(LIST, {"id": pasted}).headers["Location"] == f"{LIST}{UUID(int=2).hex}/"


@pytest.mark.parametrize(
    ("pasted", "said"),
    [("zz", "is no trace id"), (UUID(int=9).hex, "It may not have arrived yet")],
)
def test_pasted_text_that_leads_nowhere_says_why(
    page: Client, traces: list[models.Trace], pasted: str, said: str
) -> None:
    answer = page.get(LIST, {"id": pasted}, follow=True)
    assert said in answer.content.decode()


def test_names_from_outside_are_escaped(page: Client, project: models.Project) -> None:
    hostile = worked_example(7, app='"><svg onload=alert(1)>')
    arrive(project, hostile)
    content = page.get(LIST).content.decode()
    assert "<svg onload" not in content
    assert "&lt;svg onload" in content


def test_first_visit_teaches_how_to_send(page: Client) -> None:
    assert b"OTEL_EXPORTER_OTLP_ENDPOINT" in page.get(LIST).content


def test_number_of_queries_is_fixed(
    page: Client,
    traces: list[models.Trace],
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    with django_assert_num_queries(QUERIES):
        page.get(LIST)
    with django_assert_num_queries(QUERIES + SEARCH_QUERIES):
        page.get(reverse("requests", args=["shop"]), {"breach": "any", "sort": "-tool"})
    with django_assert_num_queries(QUERIES + SEARCH_QUERIES + 2 * APP_QUERIES):
        page.get(reverse("requests", args=["shop"]), {"app": "shop", "text": "invoke"})


# --- more than anybody could look through --------------------------------------------------------


def test_search_is_bounded_says_so_and_goes_on(
    page: Client, traces: list[models.Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_queries, "MAX_SEARCHED", 2)
    seen: list[int] = []
    query = {"state": "complete"}
    while True:
        answer = page.get(LIST, query)
        seen += [int(trace.trace_id) for trace, _bars in answer.context["rows"]]
        further = re.search(r'href="[^"]*before=([^"&]*)"', answer.content.decode())
        if not further:
            break
        assert "back to <time" in answer.content.decode()
        query |= {"before": unquote(further[1])}
    assert seen == [4, 3, 2, 1]


@pytest.mark.parametrize("query", [{}, {"app": "shop"}, {"session": "s"}, {"sort": "time"}])
def test_what_an_index_orders_needs_no_bound(
    page: Client,
    traces: list[models.Trace],
    monkeypatch: pytest.MonkeyPatch,
    query: dict[str, str],
) -> None:
    monkeypatch.setattr(trace_queries, "MAX_SEARCHED", 1)
    assert page.get(LIST, query).context["page"].horizon is None
