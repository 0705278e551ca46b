"""Declared settings in the database: kept with their history, read by the analysis, compared."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from tests.web.traces import AFTERWARDS, MS, arrive, serial_tools, worked_example
from tracebudget import models, pipeline, store
from tracebudget.core.app import App
from tracebudget.core.declared import NOTHING_DECLARED, Declared
from tracebudget.core.gateway import Gateway
from tracebudget.queries.apps import Scope
from tracebudget.queries.traces import window
from tracebudget.release.declaration import Comparison, compare
from tracebudget.store import Mark, mark_tools, save_gateway

DECLARED = Gateway(model="lpx", parallel=True, max_parallel=2, timeout_ms=3000, retry=1)


def fresh(app: models.App) -> models.App:
    """As the next request finds it."""
    return models.App.objects.get(pk=app.pk)


def declare(app: models.App, gateway: Gateway) -> list[models.DeclarationChange]:
    return save_gateway(app, gateway, user=None, now=AFTERWARDS)


def mark(app: models.App, **marks: Mark) -> list[models.DeclarationChange]:
    return mark_tools(app, marks, user=None, now=AFTERWARDS)


def compared(app: models.App, range_: str = "all") -> Comparison:
    app = fresh(app)
    return compare(Scope(app.project, window(range_, now=AFTERWARDS), app=app))


def test_what_is_declared_stays_declared(shop: models.App) -> None:
    changes = declare(shop, DECLARED)
    assert [(c.what, c.old, c.new) for c in changes] == [
        ("model", None, "lpx"),
        ("parallel", None, "true"),
        ("max_parallel", None, "2"),
        ("timeout_ms", None, "3000"),
        ("retry", None, "1"),
    ]
    assert store.gateway_of(fresh(shop)) == DECLARED


def test_a_change_leaves_a_line_of_history_and_the_same_leaves_none(shop: models.App) -> None:
    declare(shop, DECLARED)
    changes = declare(shop, Gateway(model="lpx", parallel=False))
    assert [(c.what, c.old, c.new) for c in changes] == [
        ("parallel", "true", "false"),
        ("max_parallel", "2", None),
        ("timeout_ms", "3000", None),
        ("retry", "1", None),
    ]
    assert declare(shop, Gateway(model="lpx", parallel=False)) == []


def test_settings_of_a_later_version_are_passed_by(shop: models.App) -> None:
    models.GatewaySettings.objects.create(app=shop, settings={"model": "lpx", "speed": 9})
    assert store.gateway_of(fresh(shop)) == Gateway(model="lpx")


def test_marks_of_tools(shop: models.App) -> None:
    changes = mark(shop, search=Mark(is_read_only=True), refund=Mark(is_dependent=True))
    assert [(c.what, c.old, c.new) for c in changes] == [
        ("tool:search", None, "read_only"),
        ("tool:refund", None, "dependent"),
    ]
    assert mark(shop, search=Mark(is_read_only=True)) == []
    (change,) = mark(shop, search=Mark())
    assert (change.old, change.new) == ("read_only", None)
    assert store.marks_of(fresh(shop)) == {"refund": Mark(is_dependent=True)}


def test_the_analysis_reads_what_is_declared(
    shop: models.App, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    models.App.objects.create(project=shop.project, name="other", slug="other")
    models.Budget.objects.create(app=shop, metric="turn", limit=MS)
    declare(shop, DECLARED)
    mark(shop, search=Mark(is_read_only=True))
    with django_assert_num_queries(3):
        apps = store.load_apps([shop.project_id])[shop.project_id]
    assert apps.keys() == {"shop"}
    assert apps["shop"].declared == Declared(
        max_parallel=2, tool_timeout_ns=3000 * MS, read_only=frozenset({"search"})
    )
    assert apps["shop"].budgets != App().budgets


def test_an_app_with_marks_alone_is_known(shop: models.App) -> None:
    mark(shop, search=Mark(is_dependent=True))
    apps = store.load_apps([shop.project_id])[shop.project_id]
    assert apps["shop"].declared.dependent == {"search"}
    assert store.load_apps([]) == {}
    assert store.declared_of(fresh(shop)) != NOTHING_DECLARED


def test_marking_tools_dependent_takes_the_finding_back(shop: models.App) -> None:
    arrive(shop.project, serial_tools())
    assert "serial_tools" in finding_codes()
    mark(shop, search_invoice=Mark(is_dependent=True))
    pipeline.analyze_due(lambda: AFTERWARDS + timedelta(minutes=1))
    assert "serial_tools" not in finding_codes()


def finding_codes() -> set[str]:
    return set(models.Finding.objects.values_list("code", flat=True))


def test_comparison_is_over_the_latest_requests(shop: models.App) -> None:
    arrive(shop.project, worked_example(1), serial_tools(2, at_ms=100))
    declare(shop, DECLARED)
    comparison = compared(shop)
    assert comparison.requests == 2
    assert {item.setting: str(item.state) for item in comparison.observed} == {
        "model": "confirmed",
        "parallel": "contradicted",
        "max_parallel": "unseen",
        "timeout_ms": "unseen",
        "retry": "unseen",
    }
    assert (comparison.count("confirmed"), comparison.count("unseen")) == (1, 3)
    parallel = comparison.observed[1]
    assert {example.trace_id for example in parallel.examples} == {f"{2:032x}"}


def test_spans_tell_what_the_analysis_does_not(shop: models.App) -> None:
    made = worked_example(1)
    for span in made.spans[1:2]:
        attributes = dict(span.attributes) | {"gen_ai.request.temperature": 0.7}
        object.__setattr__(span, "attributes", attributes)
    arrive(shop.project, made)
    declare(shop, Gateway(temperature=0.0))
    (temperature,) = compared(shop).observed
    assert temperature.evidence == {"calls": 2, "told": 1, "others": 1, "other_values": ["0.7"]}


def test_requests_outside_the_window_say_nothing(shop: models.App) -> None:
    arrive(shop.project, worked_example(1))
    declare(shop, Gateway(model="lpx"))
    later = AFTERWARDS + timedelta(days=2)
    comparison = compare(Scope(shop.project, window("24h", now=later), app=fresh(shop)))
    assert (comparison.requests, comparison.observed[0].state) == (0, "unseen")


@pytest.mark.parametrize(("limit_ms", "is_over"), [(5_000, True), (6_000, False), (None, False)])
def test_worst_case_of_a_tool(shop: models.App, limit_ms: int | None, is_over: bool) -> None:
    """3 s and one more try of 3 s."""
    if limit_ms is not None:
        models.Budget.objects.create(app=shop, metric="tool", limit=limit_ms * MS)
    declare(shop, DECLARED)
    (worst,) = compared(shop).consequences
    assert (worst.code, worst.worst_ns, worst.is_over) == ("worst_tool", 6_000 * MS, is_over)


def test_worst_case_of_an_answer_needs_a_usual_tpot(shop: models.App) -> None:
    declare(shop, Gateway(max_tokens=2048))
    assert compared(shop).consequences == []
    arrive(shop.project, worked_example(1))
    (worst,) = compared(shop).consequences
    calls = models.ModelCall.objects.order_by("tpot_ns")
    assert worst.worst_ns == 2048 * (calls[0].tpot_ns or 0)


def test_number_of_queries_is_fixed(
    shop: models.App, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    arrive(shop.project, *(worked_example(number, at_ms=number) for number in range(1, 9)))
    declare(shop, DECLARED)
    app = fresh(shop)
    scope = Scope(app.project, window("all", now=AFTERWARDS), app=app)
    with django_assert_num_queries(6):
        compare(scope)
