"""The whole way, with a real worker, mail server and webhook receiver; and with the worker killed
in the middle of a delivery.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from subprocess import Popen

import orjson
import pytest
from django.conf import settings
from django.utils import timezone

from tests.alerts.readers import Mailbox, Receiver, say, wait_until
from tests.alerts.traffic import MINUTE, Traffic, promise
from tracebudget import models, tasks
from tracebudget.alerts import channel as channels
from tracebudget.runtime import programs
from tracebudget.runtime.child import Command, kill_group

RunProgram = Callable[[Command], "Popen[bytes]"]

pytestmark = pytest.mark.usefixtures("open_loopback")
KILLS = 3


@pytest.fixture
def key_for_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that the test starts open channels with the test's own key."""
    monkeypatch.setenv("TRACEBUDGET_CHANNEL_KEY_FILE", str(settings.CHANNEL_KEY_FILE))


@pytest.fixture
def told(project: models.Project, receiver: Receiver, mail_server: Mailbox) -> None:
    """A webhook and a mail address."""
    channels.create_webhook(project, "hook", receiver.url, app=None)
    channels.create_email(project, "mail", "ops@shop.example", app=None)


@pytest.mark.usefixtures("told", "key_for_programs")
def test_one_breach_is_one_alert_at_each_reader_and_one_recovery(
    run_program: RunProgram, app: models.App, traffic: Traffic, receiver: Receiver,
    mail_server: Mailbox,
) -> None:  # fmt: skip
    """The clock is the world's own: an alert that is calm for ten minutes is set back by ten."""
    promise(app)
    run_program(programs.worker())
    now = timezone.now()
    traffic.arrive("ooxxxxx", last_at=now - MINUTE)
    for _ in range(3):  # however often somebody looks
        tasks.check_budgets.delay()
        tasks.deliver_due.delay()
    wait_until(lambda: bool(receiver.calls and mail_server.mails))
    traffic.arrive("o" * 40, last_at=now, every=timedelta(seconds=1))
    tasks.check_budgets.delay()
    wait_until(lambda: models.Alert.objects.filter(kept_since__isnull=False).exists())
    models.Alert.objects.update(kept_since=now - 10 * MINUTE)
    tasks.check_budgets.delay()
    wait_until(lambda: models.Delivery.objects.count() == 4)
    tasks.deliver_due.delay()
    wait_until(lambda: not models.Delivery.objects.filter(state="waiting").exists())
    kinds = [orjson.loads(call.body)["type"] for call in receiver.calls]
    assert kinds == ["alert.opened", "alert.recovered"]
    assert [mail["Subject"] for mail in mail_server.mails] == [
        "[Tracebudget] shop breaks its promise: end-to-end over 2 s",
        "[Tracebudget] shop is back within: end-to-end",
    ]


@pytest.mark.usefixtures("key_for_programs")
def test_killed_worker_loses_nothing_and_repeats_under_one_id(
    run_program: RunProgram, project: models.Project, receiver: Receiver, mail_server: Mailbox
) -> None:
    """Killed again and again while the readers have the message and the worker not the answer."""
    hook, _ = channels.create_webhook(project, "hook", receiver.url, app=None)
    mail = channels.create_email(project, "mail", "ops@shop.example", app=None)
    hang = threading.Event()
    receiver.answer = lambda handler: hang.wait(20)
    mail_server.before_answer = lambda: hang.wait(20)
    written = [channels.send_test(each, now=timezone.now()) for each in (hook, mail)]
    for killed in range(1, KILLS + 1):
        worker = run_program(programs.worker())
        tasks.deliver_due.delay()
        wait_until(partial(_both_got, receiver, mail_server, killed))
        kill_group(worker)
        hang.set()
        _pass_leases()
        hang.clear()
    receiver.answer, mail_server.before_answer = say(204), lambda: None
    run_program(programs.worker())
    tasks.deliver_due.delay()
    wait_until(lambda: models.Delivery.objects.filter(state="sent").count() == len(written))
    assert receiver.ids() == [str(written[0].pk)]
    assert mail_server.ids() == [f"<{written[1].pk}@127.0.0.1>"]
    assert len(receiver.calls) == len(mail_server.mails) == KILLS + 1
    tasks.deliver_due.delay()
    assert {delivery.tries for delivery in models.Delivery.objects.all()} == {KILLS + 1}


def _both_got(receiver: Receiver, mailbox: Mailbox, number: int) -> bool:
    return len(receiver.calls) == len(mailbox.mails) == number


def _pass_leases() -> None:
    models.Delivery.objects.filter(state="waiting").update(next_try_at=timezone.now())
