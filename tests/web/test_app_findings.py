"""What to do first with an app: findings by the time lost, the six steps, and what many tell."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from django.test import Client

from tests.web.traces import AFTERWARDS, MS, Recorder, arrive, serial_tools, worked_example
from tracebudget import answers, learning, models
from tracebudget.core.diagnosis import Loss, Queueing, diagnose
from tracebudget.core.finding import State
from tracebudget.models import Verdict
from tracebudget.queries.apps import AppReport, Scope, app_report
from tracebudget.queries.traces import window

APP = "/p/shop/apps/shop/"


def report(project: models.Project) -> AppReport:
    scope = Scope(project, window("all", now=AFTERWARDS), app=models.App.objects.get(slug="shop"))
    return app_report(scope, now=AFTERWARDS)


def said(page: Client) -> str:
    content = page.get(APP, {"range": "all"}).content.decode()
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", content))


def growing(trace: int, *, known: bool = True) -> Recorder:
    """Three turns, 900 tokens more in each, and 100 ms for 1,000 tokens."""
    made = Recorder(trace, at_ms=trace * 1000)
    root = made.agent("support", 0, 3000)
    for turn in range(3):
        start, tokens = turn * 1000, 1000 + 900 * turn
        ttft = {"ttft": tokens / 10} if known else {}
        asks = {"asks": [("look", f"c{turn}")]} if turn < 2 else {}
        made.chat(start, start + 600, root, tokens=(tokens, 50), **ttft, **asks)
        if turn < 2:
            made.tool("look", start + 600, start + 700, root, call_id=f"c{turn}")
    return made


# --- findings -------------------------------------------------------------------------------------


def test_a_finding_says_what_it_cost_and_what_it_is_about(project: models.Project) -> None:
    arrive(project, serial_tools(1), serial_tools(2, at_ms=50), worked_example(3))
    row = report(project).found.open[0]
    assert (row.code, row.step, row.requests, row.turns) == ("serial_tools", 3, 2, {1: 2})
    assert [thing.subject for thing in row.things] == [
        "search_invoice, search_order, search_shipment"
    ]
    assert (row.lost_ns, row.p95_ns) == (2 * 1318 * MS, 1318 * MS)


def test_findings_stand_in_the_order_of_the_time_lost(project: models.Project) -> None:
    arrive(project, serial_tools(1), *(growing(n) for n in range(2, 5)))
    lost = [row.lost_ns or 0 for row in report(project).found.open]
    assert len(lost) > 1
    assert lost == sorted(lost, reverse=True)


def test_answered_ones_stand_apart(page: Client, project: models.Project) -> None:
    arrive(project, serial_tools(1))
    row = report(project).found.open[0]
    answers.answer(
        models.App.objects.get(slug="shop"), row.code, row.things[0].subject,
        verdict=Verdict.DEPENDENT, note="so it is", user=None, now=AFTERWARDS,
    )  # fmt: skip
    found = report(project).found
    assert "serial_tools" not in {row.code for row in found.open}
    assert [row.code for row in found.answered] == ["serial_tools"]
    assert "1 finding is answered" in said(page)


def test_a_tools_retries_are_counted(project: models.Project) -> None:
    made = Recorder()
    root = made.agent("support", 0, 2000)
    made.chat(0, 500, root, ttft=100, tokens=(1000, 50), asks=[("look", "c1")])
    made.tool("look", 500, 600, root, call_id="c1", error="boom")
    made.tool("look", 610, 700, root, call_id="c1")
    made.chat(700, 1900, root, ttft=100, tokens=(1100, 50))
    arrive(project, made)
    (tool,) = report(project).tools
    assert (tool.calls, tool.errors, tool.retries) == (2, 1, 1)


# --- the six steps --------------------------------------------------------------------------------


def test_a_step_is_unknown_with_the_share_that_cannot_tell(
    page: Client, project: models.Project
) -> None:
    arrive(project, worked_example(1), *(growing(n, known=False) for n in range(2, 9)))
    states = {row.step: (str(row.state), row.why) for row in report(project).triage}
    assert states[2] == states[4] == ("unknown", "ttft_unknown")
    assert (states[3], states[5]) == (("clear", None), ("unknown", "no_server_spans"))
    words = said(page)
    assert "TTFT known for 8.7 % of calls: cannot tell." in words
    assert "In 100 % of requests: The inference server sent no spans" in words


def test_a_step_is_found_whatever_others_cannot_tell(project: models.Project) -> None:
    arrive(project, serial_tools(1), *(growing(n, known=False) for n in range(2, 9)))
    steps = {row.step: row for row in report(project).triage}
    assert [row.code for row in steps[3].found] == ["serial_tools"]


# --- what only many requests tell -----------------------------------------------------------------


def test_before_the_first_look_nothing_is_said_of_many(
    page: Client, project: models.Project
) -> None:
    arrive(project, worked_example())
    assert "The worker has not looked at them yet." in said(page)


def test_growth_over_many_requests_is_shown_with_its_slope(
    page: Client, project: models.Project
) -> None:
    arrive(project, *(growing(n) for n in range(1, 13)))
    learning.learn(lambda: AFTERWARDS + timedelta(minutes=5))
    words = said(page)
    assert "last turn's first token comes 180 ms later than the first turn's" in words.replace(
        "&#x27;", "'"
    )
    assert "in the median of 12 runs; its prompt is 2.8 times as long" in words
    assert "100 ms for 1,000 more tokens, of lpx" in words
    assert "There are calls in too few hours" in words


def test_with_hidden_first_tokens_many_cannot_tell(page: Client, project: models.Project) -> None:
    arrive(project, growing(1), *(growing(n, known=False) for n in range(2, 13)))
    learning.learn(lambda: AFTERWARDS + timedelta(minutes=5))
    assert "TTFT known for 8.33 % of calls: cannot tell." in said(page)


def test_a_diagnosis_of_another_version_is_not_shown(page: Client, project: models.Project) -> None:
    arrive(project, worked_example())
    kept = diagnose([]).document()
    models.Learned.objects.update(diagnosis=kept | {"growth": kept["growth"] | {"dropped": 1}})
    assert "Does the first token come later" not in said(page)


@pytest.mark.parametrize("answered", [False, True])
def test_what_only_many_show_is_a_finding_unless_answered(
    project: models.Project, answered: bool
) -> None:
    """Busy hours, found in a sample of one request in three."""
    arrive(project, worked_example())
    app = models.App.objects.get(slug="shop")
    waits = Queueing(State.FOUND, lost=Loss(4, 2000 * MS, 700 * MS))
    diagnosis = replace(diagnose([], weight=3), queueing=waits)
    models.Learned.objects.filter(app=app).update(diagnosis=diagnosis.document())
    if answered:
        answers.answer(
            app, "queueing", "", verdict=Verdict.ACCEPTED, note="", user=None, now=AFTERWARDS
        )
    found = {row.code: row for row in report(project).found.open}
    assert ("queueing" in found) is not answered
    if not answered:
        row = found["queueing"]
        assert (row.requests, row.lost_ns, row.p95_ns) == (12, 6000 * MS, 700 * MS)
        assert row.is_sampled
