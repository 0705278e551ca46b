"""Silences: who is not told, for how long, and what comes after."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.alerts.readers import Mailbox
from tests.alerts.traffic import MINUTE, NOW, Traffic, promise
from tracebudget import models
from tracebudget.alerts import channel as channels
from tracebudget.alerts.dispatch import deliver_due
from tracebudget.alerts.telling import end_silence
from tracebudget.alerts.watch import check_budgets

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def mail(project: models.Project, mail_server: Mailbox) -> Mailbox:
    channels.create_email(project, "ops", "ops@shop.example", app=None)
    return mail_server


def silence(
    project: models.Project, app: models.App | None = None, *, until: datetime = NOW + HOUR
) -> models.Silence:
    return models.Silence.objects.create(project=project, app=app, reason="move", until=until)


def look(now: datetime) -> None:
    check_budgets(now=now)
    deliver_due(lambda: now)


def heard(mail: Mailbox) -> list[str]:
    return [str(one["Subject"]).removeprefix("[Tracebudget] shop ") for one in mail.mails]


OPENED, RECOVERED = "breaks its promise: end-to-end over 2 s", "is back within: end-to-end"


def test_alert_that_outlasts_the_silence_is_told_after_it(
    project: models.Project, app: models.App, traffic: Traffic, mail: Mailbox
) -> None:
    promise(app)
    silence(project)
    traffic.arrive("xxx", last_at=NOW)
    look(NOW)
    look(NOW + 59 * MINUTE)
    assert models.Alert.objects.get().closed_at is None
    assert heard(mail) == []
    look(NOW + HOUR)
    assert heard(mail) == [OPENED]


def test_alert_within_the_silence_is_told_to_nobody(
    project: models.Project, app: models.App, traffic: Traffic, mail: Mailbox
) -> None:
    promise(app)
    silence(project, app)
    traffic.arrive("xxx", last_at=NOW)
    look(NOW)
    traffic.arrive("o" * 18, last_at=NOW + 18 * MINUTE)
    look(NOW + 18 * MINUTE)
    look(NOW + 28 * MINUTE)
    look(NOW + 2 * HOUR)
    assert heard(mail) == []
    states = models.Delivery.objects.values_list("event__change", "state")
    assert set(states) == {("opened", "silenced"), ("recovered", "silenced")}


def test_who_heard_of_the_breach_hears_of_the_recovery_after_the_silence(
    project: models.Project, app: models.App, traffic: Traffic, mail: Mailbox
) -> None:
    promise(app)
    traffic.arrive("xxx", last_at=NOW)
    look(NOW)
    silence(project)
    traffic.arrive("o" * 18, last_at=NOW + 18 * MINUTE)
    look(NOW + 18 * MINUTE)
    look(NOW + 28 * MINUTE)
    assert heard(mail) == [OPENED]
    look(NOW + HOUR)
    assert heard(mail) == [OPENED, RECOVERED]


def test_silence_of_another_app_holds_nothing(
    project: models.Project, app: models.App, traffic: Traffic, mail: Mailbox
) -> None:
    promise(app)
    silence(project, models.App.objects.create(project=project, name="other", slug="other"))
    silence(project, app, until=NOW)
    traffic.arrive("xxx", last_at=NOW)
    look(NOW)
    assert heard(mail) == [OPENED]


def test_ending_a_silence_tells_at_once_unless_another_lasts(
    project: models.Project, app: models.App, traffic: Traffic, mail: Mailbox
) -> None:
    promise(app)
    first, second = silence(project), silence(project, app, until=NOW + HOUR / 2)
    traffic.arrive("xxx", last_at=NOW)
    look(NOW)
    end_silence(first, now=NOW + MINUTE)
    look(NOW + MINUTE)
    assert heard(mail) == []
    end_silence(second, now=NOW + 2 * MINUTE)
    look(NOW + 2 * MINUTE)
    assert heard(mail) == [OPENED]
