"""What an app promises: set, changed and taken back, with its history."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries

from tests.web.traces import AFTERWARDS, MS, START, arrive, worked_example
from tracebudget import models, pipeline
from tracebudget.budget_file import read_budgets, write_budgets
from tracebudget.core.budget import METRICS, Budget
from tracebudget.queries.observed import observe
from tracebudget.queries.rollups import Percentiles
from tracebudget.web.budgets import TEMPLATES, Limit, doubts, round_up, save_budgets, suggest

PAGE = "/p/shop/apps/shop/budgets/"
SECOND = 1000 * MS
QUERIES = 11


@pytest.fixture(autouse=True)
def owner(member: User) -> User:
    models.Membership.objects.update(role=models.Role.OWNER)
    return member


@pytest.fixture
def trace(project: models.Project) -> models.Trace:
    return arrive(project, worked_example())[0]


def form(*rows: tuple[str, str, str]) -> dict[str, str]:
    """What a browser sends: metric, limit and objective of each row."""
    fields = {"budgets-TOTAL_FORMS": str(len(rows)), "budgets-INITIAL_FORMS": str(len(rows))}
    for number, (metric, limit, objective) in enumerate(rows):
        values = {"metric": metric, "limit": limit, "objective": objective}
        fields |= {f"budgets-{number}-{name}": value for name, value in values.items()}
    return fields


def budgets() -> dict[str, Limit]:
    return {b.metric: Limit(b.limit, b.objective) for b in models.Budget.objects.all()}


@pytest.mark.parametrize(
    ("metric", "text", "limit"),
    [
        ("end_to_end", "3 s", 3 * SECOND),
        ("turn", "900ms", 900 * MS),
        ("ttft", "0,3 s", 300 * MS),
        ("tpot", "59.5 ms", 59_500_000),
        ("tool", "1 min 30 s", 90 * SECOND),
        ("turns", "5", 5),
        ("input_tokens", "8,000", 8000),
        ("tool_call:search_order", "720 ms", 720 * MS),
    ],
)
def test_limit_is_saved_in_the_metrics_unit(
    page: Client, trace: models.Trace, metric: str, text: str, limit: int
) -> None:
    answer = page.post(PAGE, form((metric, text, "")))
    assert answer.status_code == 302
    assert budgets() == {metric: Limit(limit, Decimal(95))}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (("turn", "900", ""), "“900” is no time"),
        (("turn", "fast", ""), "“fast” is no time"),
        (("turn", "0 s", ""), "above 0"),
        (("turn", "99999 h", ""), "up to 30 days"),
        (("turns", "5 s", ""), "“5 s” is no count"),
        (("turns", "-1", ""), "is no count"),
        (("turn", "1 s", "49"), "greater than or equal to 50"),
        (("turn", "1 s", "101"), "less than or equal to 100"),
        (("speed", "1 s", ""), "There is no such metric"),
        (("tool_call:", "1 s", ""), "There is no such metric"),
    ],
)
def test_nonsense_is_said_beside_its_field_and_saves_nothing(
    page: Client, trace: models.Trace, row: tuple[str, str, str], said: str
) -> None:
    answer = page.post(PAGE, form(("end_to_end", "3 s", "95"), row))
    assert answer.status_code == 400
    content = answer.content.decode()
    assert said in content
    assert "Nothing was saved" in content
    assert 'value="3 s"' in content  # what was typed is still there
    assert budgets() == {}


def test_one_metric_twice_is_refused(page: Client, trace: models.Trace) -> None:
    answer = page.post(PAGE, form(("turn", "1 s", ""), ("turn", "2 s", "")))
    assert "One metric stands here twice" in answer.content.decode()


def test_history_says_who_changed_what(page: Client, trace: models.Trace) -> None:
    page.post(PAGE, form(("turn", "1 s", "99")))
    page.post(PAGE, form(("turn", "2 s", "99")))
    page.post(PAGE, form(("turn", "", "")))
    changes = models.BudgetChange.objects.order_by("pk")
    assert [(c.old_limit, c.new_limit) for c in changes] == [
        (None, SECOND), (SECOND, 2 * SECOND), (2 * SECOND, None),
    ]  # fmt: skip
    assert {change.changed_by for change in changes} == {User.objects.get(username="mia")}
    assert budgets() == {}
    content = page.get(PAGE).content.decode()
    assert content.count('<td class="words">mia</td>') == 3


def test_saving_the_same_changes_nothing(page: Client, trace: models.Trace) -> None:
    page.post(PAGE, form(("turn", "1 s", "")))
    answer = page.post(PAGE, form(("turn", "1 s", "95")), follow=True)
    assert "Nothing changed." in answer.content.decode()
    assert models.BudgetChange.objects.count() == 1


def test_requests_are_judged_again(member: User, trace: models.Trace) -> None:
    assert trace.app is not None
    save_budgets(trace.app, {"turn": Limit(100 * MS)}, user=member, now=AFTERWARDS)
    pipeline.analyze_due(lambda: AFTERWARDS)
    trace.refresh_from_db()
    assert trace.breached == ["turn"]


def test_what_is_saved_comes_back_exactly(page: Client, trace: models.Trace) -> None:
    page.post(PAGE, form(("ttft", "1.234567 ms", "99.5"), ("turns", "8", "")))
    content = page.get(PAGE).content.decode()
    assert 'value="1.234567 ms"' in content
    assert 'value="99.50"' in content


def test_page_has_every_metric_and_the_apps_tools(page: Client, trace: models.Trace) -> None:
    content = page.get(PAGE).content.decode()
    for metric in [*METRICS, "tool_call:search_order", "tool_call:get_user_info"]:
        assert f'value="{metric}"' in content


@pytest.mark.parametrize("name", TEMPLATES)
def test_template_fills_the_form_and_names_its_source(
    page: Client, trace: models.Trace, name: str
) -> None:
    content = page.get(PAGE, {"template": name}).content.decode()
    assert "Not saved yet" in content
    assert str(TEMPLATES[name].source)[:40] in content
    assert budgets() == {}


def test_templates_are_promises_that_can_be_kept() -> None:
    for template in TEMPLATES.values():
        assert set(template.limits) <= set(METRICS)
        parts = template.limits
        assert all(
            parts[name].limit <= parts["end_to_end"].limit for name in parts if name != "turns"
        )


def test_member_may_look_and_not_change(page: Client, trace: models.Trace) -> None:
    models.Membership.objects.update(role=models.Role.MEMBER)
    content = page.get(PAGE).content.decode()
    assert "Only owners of the project may change budgets" in content
    assert '<fieldset class="bare" disabled>' in content
    assert page.post(PAGE, form(("turn", "1 s", ""))).status_code == 403
    assert budgets() == {}


# --- what was observed ---------------------------------------------------------------------------


@pytest.fixture
def week(project: models.Project) -> models.App:
    """A hundred requests of the last days that took 461, 471, 481 ... ms, all known."""
    (trace,) = arrive(project, worked_example())
    assert trace.app is not None
    now = timezone.now()
    for number in range(100):
        trace.pk, trace._state.adding = None, True
        trace.trace_id, trace.day = uuid4(), now.date()
        trace.started_at = now - timedelta(hours=number)
        trace.end_to_end_ns = (461 + 10 * number) * MS
        trace.worst_ttft_ns = 62 * MS if number < 30 else None
        trace.save()
    return trace.app


def test_percentiles_come_with_count_and_coverage(week: models.App) -> None:
    seen = observe(week, {"end_to_end": 1_000 * MS}, now=timezone.now())
    assert seen.requests == 100
    whole = seen.metrics["end_to_end"]
    assert whole.values == Percentiles(951 * MS, 1401 * MS, 1441 * MS, 100, 100)
    assert whole.over == 46
    assert seen.would_miss("end_to_end", 95)
    assert not seen.would_miss("end_to_end", 54)
    assert (seen.metrics["ttft"].values.count, seen.metrics["ttft"].over) == (30, None)


def test_suggestion_leaves_out_what_few_requests_tell(week: models.App) -> None:
    limits = suggest(observe(week, {}, now=timezone.now()))
    assert limits["end_to_end"] == Limit(1500 * MS)
    assert "turn" in limits
    assert "ttft" not in limits


def test_suggestion_is_kept_by_what_was_observed(week: models.App) -> None:
    now = timezone.now()
    limits = suggest(observe(week, {}, now=now))
    again = observe(week, {metric: limit.limit for metric, limit in limits.items()}, now=now)
    assert not any(again.would_miss(metric, 95) for metric in limits)


@pytest.mark.parametrize(
    ("value", "rounded"), [(1, 1), (99, 99), (101, 110), (4_431, 4_500), (4_500, 4_500)]
)
def test_limits_are_rounded_up_to_two_digits(value: int, rounded: int) -> None:
    assert round_up(value) == rounded


def test_slowest_call_of_a_tool_is_what_its_budget_judges(
    project: models.Project,
) -> None:
    now = timezone.now()
    (trace,) = arrive(project, worked_example(at_ms=int((now - START).total_seconds() * 1000)))
    assert trace.app is not None
    seen = observe(trace.app, {"tool_call:search_order": 184 * MS - 1}, now=now)
    tool = seen.metrics["tool_call:search_order"]
    assert (tool.values.p95, tool.over) == (184 * MS, 1)


def test_trying_tells_what_would_have_been_and_saves_nothing(
    page: Client, week: models.App
) -> None:
    answer = page.post(PAGE, form(("end_to_end", "1 s", "95")) | {"do": "try"})
    content = answer.content.decode()
    assert answer.status_code == 200
    assert re.search(r">46<small>46 % · promise missed</small>", content)
    assert budgets() == {}


def test_page_asks_a_fixed_number_of_queries(
    page: Client, week: models.App, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(QUERIES):
        page.get(PAGE)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"end_to_end": 3, "turn": 1, "turns": 5}, "5 turns of 1 s take 5 s: more than the 3 s"),
        ({"end_to_end": 3, "tool": 4}, "“tool time” may take 4 s, longer than the whole request"),
        ({"end_to_end": 3, "turn": 1, "turns": 3}, ""),
        ({"turn": 1, "turns": 3}, ""),
    ],
)
def test_promises_that_do_not_go_together_are_doubted(limits: dict[str, int], said: str) -> None:
    wanted = {
        metric: Limit(limit if metric == "turns" else limit * SECOND)
        for metric, limit in limits.items()
    }
    assert " ".join(doubts(wanted)).startswith(said)
    assert bool(doubts(wanted)) == bool(said)


# --- as a file -----------------------------------------------------------------------------------


def test_file_that_was_downloaded_reads_as_the_same(page: Client, trace: models.Trace) -> None:
    rows = form(("ttft", "1.234567 ms", "99.5"), ("turns", "8", ""), ("end_to_end", "1 h", "95"))
    page.post(PAGE, rows)
    answer = page.get("/p/shop/apps/shop/budgets.yaml")
    assert "shop-budgets.yaml" in answer.headers["Content-Disposition"]
    saved = budgets()
    read = read_budgets(answer.content.decode())["shop"]
    assert {b.metric: (b.limit, Decimal(str(b.objective))) for b in read} == saved
    filled = page.post(PAGE, {"do": "read", "file": answer.content.decode()}).content.decode()
    assert "Not saved yet" in filled
    for value in ("1.234567 ms", "8", "1 h", "99.5"):
        assert f'value="{value}"' in filled


@given(
    st.integers(min_value=1, max_value=30 * 86400 * SECOND),
    st.decimals(min_value=1, max_value=100, places=2),
)
def test_every_budget_survives_its_file(limit: int, objective: Decimal) -> None:
    budget = Budget("turn", limit, float(objective))
    assert read_budgets(write_budgets({"ünïcode: app": [budget]})) == {"ünïcode: app": (budget,)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- {metric: speed, limit: 1 s}", "no metric"),
        ("other-app:\n  - {metric: turn, limit: 1 s}", "budgets of other-app, and none of shop"),
        ("{", "neither YAML nor JSON"),
    ],
)
def test_file_that_cannot_be_read_says_why_and_stays(
    page: Client, trace: models.Trace, text: str, said: str
) -> None:
    answer = page.post(PAGE, {"do": "read", "file": text})
    content = html.unescape(answer.content.decode())
    assert answer.status_code == 400
    assert said in content
    assert f">{text}</textarea>" in content
