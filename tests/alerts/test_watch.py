"""From requests to alerts: looks at an app's budgets, in a real database.

In the pictures a letter is a request a minute, `x` over its budget, `o` within.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta

import pytest
from pytest_django import DjangoAssertNumQueries, Settings

from tests.alerts.traffic import LIMIT_NS, MINUTE, MS, NOW, SECOND, Traffic, promise, unix_ns
from tracebudget import models, partition
from tracebudget.alerts import channel as channels
from tracebudget.alerts.watch import check_budgets
from tracebudget.alerts.windows import LATEST, count_windows
from tracebudget.core.alerting import DEFAULT_RULE, HOUR_NS, JudgedRequest, Window

pytestmark = pytest.mark.django_db


def changes(alert: models.Alert) -> list[str]:
    return list(alert.events.order_by("pk").values_list("change", flat=True))


# --- one alert and its history --------------------------------------------------------------------


def test_third_request_over_opens_one_alert(app: models.App, traffic: Traffic) -> None:
    promise(app)
    traffic.arrive("oooxx", last_at=NOW - MINUTE)
    check_budgets(now=NOW - MINUTE)
    assert not models.Alert.objects.exists()
    traffic.arrive("x", last_at=NOW)
    check_budgets(now=NOW)
    alert = models.Alert.objects.get()
    assert (alert.app, alert.app_name, alert.metric) == (app, "shop", "end_to_end")
    assert (alert.limit, float(alert.objective)) == (LIMIT_NS, 95.0)
    assert (alert.judged, alert.over, alert.worst) == (6, 3, 4_300 * MS)
    assert (alert.opened_at, alert.closed_at) == (NOW, None)
    assert changes(alert) == ["opened"]


def test_more_of_the_same_is_the_same_alert(app: models.App, traffic: Traffic) -> None:
    promise(app)
    traffic.arrive("xxx", last_at=NOW)
    check_budgets(now=NOW)
    traffic.arrive("x" * 30, last_at=NOW + 30 * MINUTE)
    check_budgets(now=NOW + 30 * MINUTE)
    alert = models.Alert.objects.get()
    assert changes(alert) == ["opened"]
    assert (alert.judged, alert.over) == (33, 33)


def test_each_budget_has_its_own(app: models.App, traffic: Traffic) -> None:
    promise(app)
    promise(app, "tool", 1_000 * MS)
    promise(app, "ttft", 1_000 * MS)
    traffic.arrive("xxx", last_at=NOW)
    check_budgets(now=NOW)
    assert set(models.Alert.objects.values_list("metric", flat=True)) == {"end_to_end", "tool"}


def test_recovery_closes_it(app: models.App, traffic: Traffic) -> None:
    promise(app)
    traffic.arrive("xxx", last_at=NOW)
    check_budgets(now=NOW)
    traffic.arrive("o" * 18, last_at=NOW + 18 * MINUTE)
    check_budgets(now=NOW + 18 * MINUTE)
    alert = models.Alert.objects.get()
    assert alert.kept_since == NOW + 18 * MINUTE
    check_budgets(now=NOW + 27 * MINUTE)
    alert.refresh_from_db()
    assert alert.closed_at is None
    check_budgets(now=NOW + 28 * MINUTE)
    alert.refresh_from_db()
    assert alert.closed_at == NOW + 28 * MINUTE
    assert changes(alert) == ["opened", "recovered"]


def test_return_within_the_hour_goes_on_with_the_same_alert(
    app: models.App, traffic: Traffic
) -> None:
    promise(app)
    traffic.arrive("xxx", last_at=NOW)
    check_budgets(now=NOW)
    traffic.arrive("o" * 18, last_at=NOW + 18 * MINUTE)
    check_budgets(now=NOW + 18 * MINUTE)
    check_budgets(now=NOW + 28 * MINUTE)
    traffic.arrive("xxx", last_at=NOW + 40 * MINUTE)
    check_budgets(now=NOW + 40 * MINUTE)
    alert = models.Alert.objects.get()
    assert changes(alert) == ["opened", "recovered", "reopened"]
    assert (alert.closed_at, alert.reopenings) == (None, 1)


def test_return_after_the_hour_is_a_new_alert(app: models.App, traffic: Traffic) -> None:
    promise(app)
    traffic.arrive("xxx", last_at=NOW)
    check_budgets(now=NOW)
    traffic.arrive("o" * 18, last_at=NOW + 18 * MINUTE)
    check_budgets(now=NOW + 18 * MINUTE)
    check_budgets(now=NOW + 28 * MINUTE)
    later = NOW + timedelta(hours=3)
    traffic.arrive("xxx", last_at=later)
    check_budgets(now=later)
    assert models.Alert.objects.count() == 2


# --- what counts ----------------------------------------------------------------------------------


def test_requests_judged_by_an_older_budget_do_not_count(app: models.App, traffic: Traffic) -> None:
    """They kept, or broke, another promise; until they are judged again nothing is known."""
    budget = promise(app)
    traffic.arrive("xxx", last_at=NOW)
    models.Budget.objects.filter(pk=budget.pk).update(updated_at=NOW + 2 * MINUTE)
    check_budgets(now=NOW + 3 * MINUTE)
    assert not models.Alert.objects.exists()


def test_requests_that_cannot_be_judged_do_not_count(app: models.App, traffic: Traffic) -> None:
    promise(app)
    traffic.arrive("xxx" + "o" * 40, last_at=NOW)
    latest = models.Trace.objects.order_by("-started_at")[:40]
    models.Trace.objects.filter(pk__in=latest).update(unjudged=["end_to_end"])
    check_budgets(now=NOW)
    assert models.Alert.objects.get().judged == 3


def test_long_run_counts_when_it_ends(app: models.App, traffic: Traffic) -> None:
    """Started two hours ago and just over, in both senses."""
    promise(app)
    traffic.arrive("xxx", last_at=NOW)
    models.Trace.objects.update(
        started_at=NOW - timedelta(hours=2), end_to_end_ns=2 * HOUR_NS - MINUTE.seconds * 10**9
    )
    check_budgets(now=NOW)
    assert models.Alert.objects.get().over == 3


def test_senders_clock_that_is_ahead_does_not_hide_its_requests(
    app: models.App, traffic: Traffic
) -> None:
    """They count when they arrived: the hour does not wait for the sender's future."""
    promise(app)
    traffic.arrive("xxx", last_at=NOW)
    models.Trace.objects.update(started_at=NOW + timedelta(hours=5))
    check_budgets(now=NOW)
    assert models.Alert.objects.get().over == 3


def test_old_requests_that_retention_kept_do_not_count(app: models.App, traffic: Traffic) -> None:
    """They are kept because they were slow: they would call a rare app slow for ever."""
    promise(app)
    traffic.arrive("xx", last_at=NOW - timedelta(days=40))
    models.Trace.objects.update(day=partition.KEPT)
    traffic.arrive("x", last_at=NOW)
    check_budgets(now=NOW)
    assert not models.Alert.objects.exists()


def test_busy_app_is_judged_by_the_latest_of_its_hour(
    app: models.App, traffic: Traffic, settings: Settings
) -> None:
    settings.CHECK_MAX_REQUESTS = 5
    budget = promise(app)
    traffic.arrive("oooooxxxxx", last_at=NOW)
    assert count_windows([budget], DEFAULT_RULE, now=NOW)["end_to_end"].window == Window(5, 5, 5)


@pytest.mark.parametrize("seed", range(5))
def test_counts_are_what_the_definition_says(
    project: models.Project, app: models.App, seed: int
) -> None:
    draw = random.Random(seed)
    budget = promise(app, at=NOW - timedelta(days=2))
    models.Trace.objects.bulk_create(_drawn(project, app, draw) for _ in range(LATEST // 2))
    (seen,) = count_windows([budget], DEFAULT_RULE, now=NOW).values()
    judged = sorted(
        JudgedRequest(_ended_ns(trace), budget.metric in (trace.breached or ()))
        for trace in models.Trace.objects.filter(analyzed_at__gte=budget.updated_at)
        if budget.metric not in (trace.unjudged or ())
    )
    inside = [r for r in judged if r.ended_ns > unix_ns(NOW) - HOUR_NS]
    expected = (sum(r.is_over for r in judged[-20:]), len(inside), sum(r.is_over for r in inside))
    assert seen.window == Window(*expected)


def _drawn(project: models.Project, app: models.App, draw: random.Random) -> models.Trace:
    ended_at = NOW - timedelta(seconds=draw.uniform(0, 7_200))
    length = timedelta(seconds=draw.choice([1, 30, 3_000]) * draw.random())
    return models.Trace(
        project=project,
        app=app,
        trace_id=f"{draw.getrandbits(128):032x}",
        day=NOW.date(),
        started_at=ended_at - length,
        end_to_end_ns=length // timedelta(microseconds=1) * 1000,
        first_seen_at=ended_at,
        last_seen_at=ended_at - draw.choice([0, 0, 300]) * SECOND,
        analyzed_at=draw.choice([NOW, NOW - timedelta(days=3)]),
        breached=draw.choice([[], ["tool"], ["end_to_end"], ["end_to_end", "tool"]]),
        unjudged=draw.choice([None, [], ["ttft"], ["end_to_end"]]),
    )


def _ended_ns(trace: models.Trace) -> int:
    assert trace.started_at is not None
    assert trace.end_to_end_ns is not None
    ended_at = trace.started_at + timedelta(microseconds=trace.end_to_end_ns / 1000)
    return unix_ns(min(ended_at, trace.last_seen_at))


# --- rules and budgets that change ----------------------------------------------------------------


def rule(app: models.App, **changed: int | bool) -> None:
    fields = {"over": 3, "of_last": 20, "window_minutes": 60, "recovery_minutes": 10}
    models.AlertRule.objects.update_or_create(app=app, defaults={**fields, **changed})


def test_apps_own_rule_holds(app: models.App, traffic: Traffic) -> None:
    promise(app)
    rule(app, over=5)
    traffic.arrive("xxxx", last_at=NOW)
    check_budgets(now=NOW)
    assert not models.Alert.objects.exists()
    rule(app, over=4)
    check_budgets(now=NOW)
    assert models.Alert.objects.count() == 1


def test_rule_that_is_switched_off_calls_its_alerts_off(app: models.App, traffic: Traffic) -> None:
    promise(app)
    traffic.arrive("xxx", last_at=NOW)
    check_budgets(now=NOW)
    rule(app, is_on=False)
    check_budgets(now=NOW + MINUTE)
    assert changes(models.Alert.objects.get()) == ["opened", "called_off"]
    check_budgets(now=NOW + 2 * MINUTE)
    assert models.Alert.objects.count() == 1


def test_budget_that_is_removed_calls_its_alert_off(app: models.App, traffic: Traffic) -> None:
    budget = promise(app)
    traffic.arrive("xxx", last_at=NOW)
    check_budgets(now=NOW)
    budget.delete()
    check_budgets(now=NOW + MINUTE)
    assert changes(models.Alert.objects.get()) == ["opened", "called_off"]


def test_alert_outlives_its_app(app: models.App, traffic: Traffic) -> None:
    promise(app)
    traffic.arrive("xxx", last_at=NOW)
    check_budgets(now=NOW)
    models.Trace.objects.all().delete()
    app.delete()
    check_budgets(now=NOW + MINUTE)
    alert = models.Alert.objects.get()
    assert (alert.app, alert.app_name, alert.closed_at) == (None, "shop", NOW + MINUTE)
    check_budgets(now=NOW + 2 * MINUTE)
    assert changes(alert) == ["opened", "called_off"]


def test_alert_outlives_another_analysis(app: models.App, traffic: Traffic) -> None:
    """A later judgement changes the counts, never what the alert has told."""
    promise(app)
    traffic.arrive("xxx", last_at=NOW)
    check_budgets(now=NOW)
    facts = models.AlertEvent.objects.get().facts
    models.Trace.objects.update(breached=[])
    models.Breach.objects.all().delete()
    models.Analysis.objects.all().delete()
    check_budgets(now=NOW + MINUTE)
    assert models.AlertEvent.objects.get().facts == facts


# --- what it knows, and whom it tells -------------------------------------------------------------


def test_facts_say_how_much_since_when_where_and_what_would_help(
    app: models.App, traffic: Traffic
) -> None:
    promise(app)
    traffic.arrive("ooooxxx", last_at=NOW)
    check_budgets(now=NOW)
    alert = models.Alert.objects.get()
    facts = models.AlertEvent.objects.get().facts
    assert (facts["limit"], facts["objective"]) == (LIMIT_NS, 95.0)
    assert (facts["judged"], facts["over"]) == (7, 3)
    assert (facts["worst"], facts["typical"]) == (4_300 * MS, 4_300 * MS)
    started = NOW - 2 * MINUTE - timedelta(milliseconds=4_300)
    assert datetime.fromisoformat(facts["since"]) == started
    assert facts["segment"] == {
        "name": "tool",
        "ns": 4_000 * MS,
        "usual_ns": 500 * MS,
        "end_to_end_ns": 4_300 * MS,
    }
    assert facts["turn"] == {"index": 0, "agent": "support", "duration_ns": 4_200 * MS}
    assert facts["tool"] == {"name": "search_order", "duration_ns": 3_000 * MS}
    finding = facts["finding"]
    assert (finding["code"], finding["requests"]) == ("serial_tools", 3)
    assert finding["saving_ns"] == 1_000 * MS
    assert finding["evidence"]["calls"] == 2
    assert len(facts["requests"]) == 3
    assert {request["value"] for request in facts["requests"]} == {4_300 * MS}
    assert [str(id_.hex) for id_ in alert.evidence] == [r["trace_id"] for r in facts["requests"]]


def test_every_channel_that_listens_is_told_once(
    project: models.Project, app: models.App, traffic: Traffic
) -> None:
    other = models.App.objects.create(project=project, name="other", slug="other")
    stranger = models.Project.objects.create(slug="stranger", name="Stranger")
    every = channels.create_email(project, "every", "a@shop.example", app=None)
    mine = channels.create_email(project, "mine", "b@shop.example", app=app)
    off = channels.create_email(project, "off", "c@shop.example", app=None)
    models.Channel.objects.filter(pk=off.pk).update(is_on=False)
    gone = channels.create_email(project, "gone", "d@shop.example", app=None)
    channels.remove(gone, now=NOW)
    channels.create_email(project, "other's", "e@shop.example", app=other)
    channels.create_email(stranger, "stranger's", "f@shop.example", app=None)
    promise(app)
    traffic.arrive("xxx", last_at=NOW)
    check_budgets(now=NOW)
    check_budgets(now=NOW)
    told = models.Delivery.objects.values_list("channel_id", flat=True)
    assert sorted(told) == sorted([every.pk, mine.pk])


def test_one_app_that_cannot_be_checked_does_not_silence_the_next(
    project: models.Project, app: models.App, traffic: Traffic
) -> None:
    """The analyses of the first are damaged on disk."""
    broken = models.App.objects.create(project=project, name="a", slug="a")
    promise(broken)
    Traffic(project, service="a").arrive("xxx", last_at=NOW)
    models.Analysis.objects.update(document=b"damaged")
    promise(app)
    traffic.arrive("xxx", last_at=NOW)
    check_budgets(now=NOW)
    assert models.Alert.objects.get().app == app


def test_a_quiet_look_costs_few_queries(
    app: models.App,
    traffic: Traffic,
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    promise(app)
    promise(app, "tool", 10**12)
    traffic.arrive("ooo", last_at=NOW)
    with django_assert_max_num_queries(9):  # two of them open and end the transaction
        check_budgets(now=NOW)
