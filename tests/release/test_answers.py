"""Answers to findings: they stand in old requests and new ones, until the finding is opened."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from tests.web.traces import AFTERWARDS, arrive, serial_tools, worked_example
from tracebudget import answers, models, store
from tracebudget.models import Verdict
from tracebudget.queries.apps import Scope, app_report, app_rows
from tracebudget.queries.findings import found
from tracebudget.queries.traces import window

SERIAL = "search_invoice, search_order, search_shipment"


@pytest.fixture
def scope(shop: models.App) -> Scope:
    arrive(shop.project, serial_tools(1), serial_tools(2, at_ms=10), worked_example(3, at_ms=20))
    return Scope(shop.project, window("all", now=AFTERWARDS), app=shop)


def say(
    app: models.App, verdict: Verdict, code: str = "serial_tools", subject: str = SERIAL
) -> models.FindingAnswer:
    return answers.answer(
        app, code, subject, verdict=verdict, note="as built", user=None, now=AFTERWARDS
    )


def test_findings_are_counted_by_what_they_are_about(scope: Scope) -> None:
    row = found(scope).open[0]
    assert (row.code, row.subject, row.requests) == ("serial_tools", SERIAL, 2)
    assert row.step == 3
    assert row.worst is not None
    assert row.worst.int in (1, 2)


def test_an_answered_finding_stands_apart(scope: Scope, shop: models.App) -> None:
    said = say(shop, Verdict.ACCEPTED)
    listed = found(scope)
    assert "serial_tools" not in {row.code for row in listed.open}
    (row,) = listed.answered
    assert (row.code, row.answer, row.requests) == ("serial_tools", said, 2)


def test_figures_leave_it_out(scope: Scope, shop: models.App) -> None:
    (before,) = app_rows(scope)
    assert before.worst is not None
    assert before.worst.code == "serial_tools"
    say(shop, Verdict.ACCEPTED)
    (after,) = app_rows(scope)
    assert after.worst is None or after.worst.code != "serial_tools"
    report = app_report(scope, now=AFTERWARDS)
    assert "serial_tools" not in {row.code for row in report.found.open}


def test_it_stays_answered_in_requests_that_come_later(scope: Scope, shop: models.App) -> None:
    say(shop, Verdict.WILL_NOT_FIX)
    arrive(shop.project, serial_tools(9, at_ms=500))
    (row,) = found(scope).answered
    assert row.requests == 3


def test_other_tools_are_another_finding(scope: Scope, shop: models.App) -> None:
    say(shop, Verdict.ACCEPTED, subject="search_order, search_invoice")
    assert found(scope).open[0].code == "serial_tools"
    assert found(scope).answered == []


def test_the_latest_answer_stands(scope: Scope, shop: models.App) -> None:
    say(shop, Verdict.ACCEPTED)
    say(shop, Verdict.OPEN)
    assert found(scope).answered == []
    last = say(shop, Verdict.DEPENDENT)
    assert found(scope).answered[0].answer == last
    assert [a.verdict for a in answers.history(shop)] == ["dependent", "open", "accepted"]


def test_answers_of_one_app_are_not_anothers(scope: Scope, shop: models.App) -> None:
    other = models.App.objects.create(project=shop.project, name="other", slug="other")
    say(other, Verdict.ACCEPTED)
    assert found(scope).answered == []


def test_who_answered_may_leave(shop: models.App) -> None:
    user = User.objects.create_user("mia")
    answers.answer(
        shop, "queueing", "", verdict=Verdict.ACCEPTED, note="n", user=user, now=AFTERWARDS
    )
    user.delete()
    assert answers.history(shop)[0].answered_by is None


@pytest.mark.parametrize(
    ("verdict", "code", "fits"),
    [
        (Verdict.DEPENDENT, "serial_tools", True),
        (Verdict.DEPENDENT, "queueing", False),
        (Verdict.NOT_IDEMPOTENT, "repeated_tool_call", True),
        (Verdict.NOT_IDEMPOTENT, "serial_tools", False),
        (Verdict.ACCEPTED, "queueing", True),
        (Verdict.WILL_NOT_FIX, "missing_root", True),
    ],
)
def test_some_answers_fit_some_findings(verdict: Verdict, code: str, fits: bool) -> None:
    assert answers.fits(verdict, code) is fits


def test_an_app_that_was_answered_is_not_forgotten(scope: Scope, shop: models.App) -> None:
    """Retention deletes apps of which nothing is left; what people made is something."""
    models.App.objects.update(created_at=AFTERWARDS - timedelta(days=900))
    models.Trace.objects.all().delete()
    assert store.prune(now=AFTERWARDS, dry_run=True).apps == 1
    say(shop, Verdict.ACCEPTED)
    assert store.prune(now=AFTERWARDS, dry_run=True).apps == 0
