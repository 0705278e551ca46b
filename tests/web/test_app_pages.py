"""Apps, and one app: figures over many requests, each with what it rests on."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from tests.web.traces import (
    AFTERWARDS,
    MS,
    arrive,
    nested_agents,
    serial_tools,
    waits_for_a_person,
    worked_example,
)
from tracebudget import models, partition, store
from tracebudget.queries.apps import Scope, app_report, app_rows
from tracebudget.queries.traces import window
from tracebudget.sketch import ACCURACY
from tracebudget.store.rollups import touch

APPS, APP = "/p/shop/", "/p/shop/apps/shop/"
APPS_QUERIES, APP_QUERIES = 8, 10


@pytest.fixture
def scope(project: models.Project) -> Scope:
    """Three requests of the app `shop`, one of `team`, a minute ago."""
    app = models.App.objects.create(project=project, name="shop", slug="shop")
    models.Budget.objects.create(app=app, metric="end_to_end", limit=3000 * MS, objective=90)
    models.Budget.objects.create(app=app, metric="ttft", limit=400 * MS)
    arrive(
        project,
        worked_example(1),
        worked_example(2, at_ms=50),
        serial_tools(3, at_ms=100, **{"deployment.environment.name": "production"}),
        nested_agents(4, app="team"),
    )
    return Scope(project, window("all", now=AFTERWARDS))


def text(content: bytes) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", content.decode()))


def test_row_of_an_app(scope: Scope) -> None:
    shop, team = app_rows(scope)
    assert (shop.app.name, shop.requests, shop.errors, shop.state) == ("shop", 3, 0, "over")
    assert shop.active.p50 == pytest.approx(461 * MS, rel=ACCURACY)
    assert shop.active.p99 == 4210 * MS
    assert shop.sums["tool_ns"] == (2 * 184 + 2290) * MS
    assert (shop.ttft.count, shop.ttft.total, shop.ttft.p95) == (7, 7, 330 * MS)
    assert shop.worst is not None
    assert shop.worst.code == "serial_tools"
    assert (team.app.name, team.state, team.errors) == ("team", "none", 1)
    assert (team.ttft.count, team.ttft.total) == (3, 4)  # one call says nothing


def test_share_within_is_over_the_requests_that_could_be_judged(scope: Scope) -> None:
    standings = {s.budget.metric: s for s in app_rows(scope)[0].standings}
    assert standings["end_to_end"].share_within == pytest.approx(2 / 3)
    assert (standings["end_to_end"].state, standings["ttft"].state) == ("over", "within")


def test_time_with_a_person_is_in_no_percentile(project: models.Project) -> None:
    arrive(project, waits_for_a_person())
    (row,) = app_rows(Scope(project, window("all", now=AFTERWARDS)))
    assert row.active.p50 == (95_000 - 89_095) * MS


def test_environment_and_window_narrow_every_figure(scope: Scope) -> None:
    shop = next(
        row
        for row in app_rows(Scope(scope.project, scope.window, environment="production"))
        if row.app.name == "shop"
    )
    assert (shop.requests, shop.ttft.total) == (1, 3)
    nothing = Scope(scope.project, window("1h", now=AFTERWARDS + timedelta(hours=2)))
    assert {row.state for row in app_rows(nothing)} == {"idle"}


def test_what_retention_kept_for_its_faults_is_no_sample(scope: Scope) -> None:
    """Retention moves them, and says so."""
    shop = models.Trace.objects.filter(app__slug="shop")
    with connection.cursor() as cursor:
        touch(cursor, list(shop.values_list("pk", flat=True)))
    shop.update(day=partition.KEPT)
    store.refresh_rollups(lambda: AFTERWARDS + timedelta(hours=1))
    assert {row.app.name: row.requests for row in app_rows(scope)} == {"shop": 0, "team": 1}


def test_report_of_an_app(scope: Scope) -> None:
    app = models.App.objects.get(slug="shop")
    report = app_report(Scope(scope.project, scope.window, app=app), now=AFTERWARDS)
    assert report.requests == 3
    ledger = {s.budget.metric: s.values for s in report.standings}
    assert ledger["end_to_end"] is not None
    assert (ledger["end_to_end"].p99, ledger["end_to_end"].count) == (4210 * MS, 3)
    assert [turn.turn for turn in report.turns] == [0, 1, 2]
    assert report.turns[0].time.p50 == pytest.approx(360 * MS, rel=ACCURACY)
    assert report.turns[0].time.count == 3
    assert report.turns[2].ttft.p50 == 330 * MS
    tools = {tool.name: tool for tool in report.tools}
    assert (tools["search_order"].calls, tools["search_order"].duration.p95) == (3, 720 * MS)
    assert [(m.name, m.calls, m.ttft.count) for m in report.models] == [("lpx", 7, 7)]
    assert report.found.open[0].code == "serial_tools"
    assert sum(bucket.requests for bucket in report.trend) == 3


def test_pages_say_it_in_words(page: Client, scope: Scope) -> None:
    said = text(page.get(APPS, {"range": "all"}).content)
    assert "misses its promise end-to-end: 66.7 % of 3 within, 90 % promised" in said
    assert "known for 3 of 4 calls" in said
    said = text(page.get(APP, {"range": "all"}).content)
    assert "keeps its promise" in said
    assert "known for all 3 calls" in said
    assert "Tool calls of one answer ran one after another" in said


def test_app_without_requests_in_the_window_says_where_they_are(page: Client, scope: Scope) -> None:
    said = text(page.get(APPS, {"range": "1h"}).content)
    assert "no requests in this time" in said
    assert "last request 2026-01-01 12:00:00" in said


def test_first_visit_teaches_how_to_send(page: Client) -> None:
    assert b"OTEL_EXPORTER_OTLP_ENDPOINT" in page.get(APPS).content


def test_range_that_does_not_exist_falls_back(page: Client, scope: Scope) -> None:
    assert page.get(APPS, {"range": "century"}).context["scope"].window.name == "24h"


def test_number_of_queries_is_fixed(
    page: Client, scope: Scope, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(APPS_QUERIES):
        page.get(APPS, {"range": "all"})
    with django_assert_num_queries(APP_QUERIES):
        page.get(APP, {"range": "all"})
