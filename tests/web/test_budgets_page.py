"""What an app promises: set, changed and taken back, with its history."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.web.traces import AFTERWARDS, MS, arrive, worked_example
from tracebudget import models, pipeline
from tracebudget.core.budget import METRICS
from tracebudget.web.budgets import TEMPLATES, Limit, save_budgets

PAGE = "/p/shop/apps/shop/budgets/"
SECOND = 1000 * MS


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
    assert "not saved yet" in content
    assert str(TEMPLATES[name].source)[:40] in content
    assert budgets() == {}


def test_templates_are_promises_that_can_be_kept() -> None:
    for template in TEMPLATES.values():
        assert set(template.limits) <= set(METRICS)
        parts = template.limits
        assert all(
            parts[name].limit <= parts["end_to_end"].limit for name in parts if name != "turns"
        )
