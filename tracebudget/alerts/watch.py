"""Looks at every app's budgets, and writes what changed: alerts, their history, and the outbox.

One transaction an app, under a lock of its row: of two looks at once, one passes by.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from tracebudget import models
from tracebudget.alerts.evidence import Facts, gather
from tracebudget.alerts.rule import rule_of
from tracebudget.alerts.telling import tell
from tracebudget.alerts.windows import Seen, count_windows
from tracebudget.core.alerting import Change, Rule, Watch, check_window, look

logger = logging.getLogger(__name__)

CALLED_OFF = "called_off"  # nobody watches any more: the budget is gone, or the rule is off
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def check_budgets(*, now: datetime) -> None:
    """Look at every app that promises something, or has an alert open."""
    watched = Q(budgets__isnull=False) | Q(alert__closed_at=None, alert__isnull=False)
    for pk in models.App.objects.filter(watched).values_list("pk", flat=True).distinct():
        try:
            _check_app(pk, now=now)
        except Exception:  # one app's trouble must not keep another's alert from opening
            logger.exception("The budgets of app %s could not be checked", pk)
    for alert in models.Alert.objects.filter(app=None, closed_at=None):
        _call_off(alert, now)


@transaction.atomic
def _check_app(pk: int, *, now: datetime) -> None:
    locked = models.App.objects.select_for_update(skip_locked=True, no_key=True).filter(pk=pk)
    app = locked.first()
    if app is None:
        return
    rule = rule_of(app)
    budgets = list(models.Budget.objects.filter(app=app)) if rule else []
    last = _last_alerts(app)
    if rule is not None:
        for metric, seen in count_windows(budgets, rule, now=now).items():
            budget = next(budget for budget in budgets if budget.metric == metric)
            _look_at(_Case(app, budget, rule, seen, last.get(metric)), now)
    promised = {budget.metric for budget in budgets}
    for metric, alert in last.items():
        if metric not in promised and alert.closed_at is None:
            _call_off(alert, now)


def _last_alerts(app: models.App) -> dict[str, models.Alert]:
    """The last alert of each metric, open or not."""
    alerts = models.Alert.objects.filter(app=app).order_by("metric", "-opened_at", "-pk")
    return {alert.metric: alert for alert in alerts.distinct("metric")}


class _Case(NamedTuple):
    """A budget to look at, and what is known of it."""

    app: models.App
    budget: models.Budget
    rule: Rule
    seen: Seen
    alert: models.Alert | None  # the last one, open or not


def _look_at(case: _Case, now: datetime) -> None:
    objective = float(case.budget.objective)
    verdict = check_window(case.seen.window, objective=objective, rule=case.rule)
    before = None if case.alert is None else _remembered(case.alert)
    watch, change = look(before, verdict, now_ns=_unix_ns(now), rule=case.rule)
    if watch is None or (change is None and (case.alert is None or case.alert.closed_at)):
        return
    facts = gather(case.budget, case.seen, rule=case.rule) if change else {}
    alert = _saved(case, watch, facts, is_new=change == Change.OPENED)
    if change is not None:
        tell(alert, change, facts, now=now)


def _saved(case: _Case, watch: Watch, facts: Facts, *, is_new: bool) -> models.Alert:
    """The alert as it is now, in its row."""
    alert = _new_alert(case) if is_new or case.alert is None else case.alert
    alert.opened_at = _moment(watch.opened_ns)
    alert.closed_at = None if watch.closed_ns is None else _moment(watch.closed_ns)
    alert.kept_since = None if watch.kept_since_ns is None else _moment(watch.kept_since_ns)
    alert.judged_at = _moment(watch.judged_ns)
    alert.reopenings = watch.reopenings
    alert.limit, alert.objective = case.budget.limit, case.budget.objective
    alert.judged, alert.over = case.seen.window.judged, case.seen.window.over
    alert.worst = max(alert.worst, facts.get("worst", 0))
    shown = [UUID(request["trace_id"]) for request in facts.get("requests", ())]
    alert.evidence = list(dict.fromkeys([*alert.evidence, *shown]))
    alert.save()
    return alert


def _new_alert(case: _Case) -> models.Alert:
    return models.Alert(
        project_id=case.app.project_id,
        app=case.app,
        app_name=case.app.name,
        metric=case.budget.metric,
        worst=0,
        evidence=[],
    )


@transaction.atomic
def _call_off(alert: models.Alert, now: datetime) -> None:
    """Close it, unless another look just did: without an app there is no row to lock."""
    if models.Alert.objects.filter(pk=alert.pk, closed_at=None).update(closed_at=now):
        alert.closed_at = now
        tell(alert, CALLED_OFF, {}, now=now)


def _remembered(alert: models.Alert) -> Watch:
    return Watch(
        opened_ns=_unix_ns(alert.opened_at),
        closed_ns=None if alert.closed_at is None else _unix_ns(alert.closed_at),
        kept_since_ns=None if alert.kept_since is None else _unix_ns(alert.kept_since),
        judged_ns=_unix_ns(alert.judged_at),
        reopenings=alert.reopenings,
    )


def _unix_ns(moment: datetime) -> int:
    """Exact, where a float of seconds would not be."""
    return (moment - EPOCH) // MICROSECOND * 1000


def _moment(unix_ns: int) -> datetime:
    return EPOCH + timedelta(microseconds=unix_ns // 1000)
