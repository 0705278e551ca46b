"""The outbox: each message arrives, in order, is tried again, and is given up when that is vain."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from pytest_django import Settings

from tests.alerts.readers import Mailbox, Receiver, say
from tests.alerts.traffic import MINUTE, NOW, SECOND
from tracebudget import models
from tracebudget.alerts import channel as channels
from tracebudget.alerts import dispatch
from tracebudget.alerts.dispatch import LEASE_MARGIN, deliver_due, next_try
from tracebudget.alerts.errors import DeliveryError
from tracebudget.alerts.vault import seal

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("open_loopback")]
DAY = timedelta(days=1)


@pytest.fixture
def channel(project: models.Project, receiver: Receiver) -> models.Channel:
    return channels.create_webhook(project, "ops", receiver.url, app=None)[0]


def run(now: datetime) -> int:
    return deliver_due(lambda: now)


def write(channel: models.Channel, change: str = "opened", now: datetime = NOW) -> models.Delivery:
    """A line of history of the project's one alert, and its message in the outbox."""
    alert, _ = models.Alert.objects.get_or_create(
        project=channel.project,
        defaults={
            "app_name": "shop", "metric": "ttft", "limit": 1, "objective": 95, "opened_at": NOW,
            "judged_at": NOW, "judged": 3, "over": 3, "worst": 2, "evidence": [],
        },
    )  # fmt: skip
    event = models.AlertEvent.objects.create(alert=alert, change=change, at=now, facts={})
    return models.Delivery.objects.create(
        channel=channel, event=event, created_at=now, next_try_at=now
    )


def log(delivery: models.Delivery) -> list[str]:
    return list(delivery.log.order_by("pk").values_list("answer", flat=True))


def test_due_message_is_sent_once(channel: models.Channel, receiver: Receiver) -> None:
    delivery = write(channel)
    assert run(NOW) == 1
    assert run(NOW + DAY) == 0
    delivery.refresh_from_db()
    assert (delivery.state, delivery.tries, delivery.next_try_at) == ("sent", 1, None)
    assert delivery.ended_at == NOW
    assert [call.id for call in receiver.calls] == [str(delivery.pk)]
    assert log(delivery) == ["HTTP 204"]


def test_message_is_not_sent_before_its_time(channel: models.Channel, receiver: Receiver) -> None:
    write(channel)
    assert run(NOW - SECOND) == 0
    assert receiver.calls == []


def test_failed_try_is_repeated_with_the_same_id_after_growing_pauses(
    channel: models.Channel, receiver: Receiver
) -> None:
    receiver.answer = say(503, "busy")
    delivery = write(channel)
    now, pauses = NOW, []
    for _ in range(4):
        assert run(now) == 1
        assert run(now) == 0
        delivery.refresh_from_db()
        assert delivery.next_try_at is not None
        pauses.append((delivery.next_try_at - now).total_seconds())
        now = delivery.next_try_at
    for pause, expected in zip(pauses, (10, 20, 40, 80), strict=True):
        assert 0.8 * expected <= pause <= 1.2 * expected
    receiver.answer = say(200)
    run(now)
    delivery.refresh_from_db()
    assert (delivery.state, delivery.tries) == ("sent", 5)
    assert {call.id for call in receiver.calls} == {str(delivery.pk)}
    assert log(delivery) == ["HTTP 503 busy"] * 4 + ["HTTP 200"]


def test_permanent_error_stops_at_once(channel: models.Channel, receiver: Receiver) -> None:
    receiver.answer = say(410, "gone")
    delivery = write(channel)
    run(NOW)
    assert run(NOW + DAY) == 0
    delivery.refresh_from_db()
    assert (delivery.state, delivery.next_try_at) == ("failed", None)
    assert log(delivery) == ["HTTP 410 gone"]


def test_old_news_is_given_up(channel: models.Channel, receiver: Receiver) -> None:
    receiver.answer = say(500)
    delivery = write(channel, now=NOW - DAY)
    run(NOW)
    delivery.refresh_from_db()
    assert (delivery.state, delivery.tries) == ("failed", 1)


def test_pause_is_as_long_as_the_other_side_asks(
    channel: models.Channel, receiver: Receiver
) -> None:
    receiver.answer = say(429, Retry__After="600")
    delivery = write(channel)
    run(NOW)
    delivery.refresh_from_db()
    assert delivery.next_try_at == NOW + 600 * SECOND


def test_pauses_grow_to_an_hour_and_scatter() -> None:
    delivery = models.Delivery(created_at=NOW, tries=15)
    pauses = {next_try(delivery, DeliveryError("x"), now=NOW) for _ in range(20)}
    assert len(pauses) > 1
    for at in pauses:
        assert at is not None
        assert 0.8 * 3600 <= (at - NOW).total_seconds() <= 1.2 * 3600


def test_recovery_waits_for_the_breach_before_it(
    channel: models.Channel, receiver: Receiver
) -> None:
    receiver.answer = say(500)
    breach, recovery = write(channel, "opened"), write(channel, "recovered")
    run(NOW)
    receiver.answer = say(200)
    run(NOW + 5 * SECOND)  # the breach pauses, and the recovery with it
    assert receiver.ids() == [str(breach.pk)]
    run(NOW + 15 * SECOND)
    assert [call.id for call in receiver.calls] == [str(i.pk) for i in (breach, breach, recovery)]


def test_recovery_is_told_though_the_breach_was_given_up(
    channel: models.Channel, receiver: Receiver
) -> None:
    receiver.answer = say(400)
    write(channel, "opened")
    run(NOW)
    receiver.answer = say(200)
    recovery = write(channel, "recovered")
    run(NOW)
    assert receiver.calls[-1].id == str(recovery.pk)


def test_channel_in_trouble_does_not_hold_up_another(
    project: models.Project, channel: models.Channel, mail_server: Mailbox, settings: Settings
) -> None:
    """Side by side: both wait for the network at the same time."""
    other = channels.create_email(project, "mail", "ops@shop.example", app=None)
    settings.DELIVERY_SECONDS = 1
    dead, alive = write(channel), write(other)
    models.Channel.objects.filter(pk=channel.pk).update(
        config=seal({"url": "http://127.0.0.1:9/", "secret": "whsec_AAAA"})
    )
    run(NOW)
    dead.refresh_from_db()
    alive.refresh_from_db()
    assert (dead.state, alive.state) == ("waiting", "sent")
    assert mail_server.ids() == [f"<{alive.pk}@127.0.0.1>"]


def test_claim_that_was_never_answered_is_due_again_after_its_lease(
    channel: models.Channel, receiver: Receiver, settings: Settings
) -> None:
    """As when the worker is killed: test_worker does it for real."""
    delivery = write(channel)
    assert [claimed.pk for claimed in dispatch._claim(now=NOW)] == [delivery.pk]
    assert run(NOW) == 0
    lease = timedelta(seconds=settings.DELIVERY_SECONDS) + LEASE_MARGIN
    assert run(NOW + lease) == 1
    delivery.refresh_from_db()
    assert (delivery.state, delivery.tries) == ("sent", 2)


def test_late_failure_does_not_undo_another_workers_success(
    channel: models.Channel, receiver: Receiver
) -> None:
    delivery = write(channel)
    (mine,) = dispatch._claim(now=NOW)
    run(NOW + MINUTE)  # the lease ran out, and somebody else sent it
    failed = dispatch.Outcome(60_000, "too late", DeliveryError("too late", is_permanent=True))
    dispatch._record(mine, failed, now=NOW + 2 * MINUTE)
    delivery.refresh_from_db()
    assert delivery.state == "sent"
    assert log(delivery) == ["HTTP 204", "too late"]


def test_fault_of_ours_is_tried_again(channel: models.Channel, receiver: Receiver) -> None:
    delivery = write(channel, "no such change")
    run(NOW)
    delivery.refresh_from_db()
    assert delivery.state == "waiting"
    assert log(delivery) == ["KeyError: 'no such change'"]


def test_channel_that_cannot_be_opened_is_given_up(channel: models.Channel) -> None:
    models.Channel.objects.update(config=b"sealed under another key")
    delivery = write(channel)
    run(NOW)
    delivery.refresh_from_db()
    assert delivery.state == "failed"
    assert "enter the channel anew" in log(delivery)[0]


def test_nothing_secret_is_in_the_log(channel: models.Channel, receiver: Receiver) -> None:
    receiver.answer = say(500, "no")
    delivery = write(channel)
    run(NOW)
    assert "secret-path" not in "".join(log(delivery))


# --- what owners do -------------------------------------------------------------------------------


def test_removed_channel_gets_nothing_more(channel: models.Channel, receiver: Receiver) -> None:
    delivery = write(channel)
    channels.remove(channel, now=NOW)
    assert run(NOW) == 0
    delivery.refresh_from_db()
    channel.refresh_from_db()
    assert (delivery.state, bytes(channel.config)) == ("failed", b"")


def test_tests_keep_a_distance(channel: models.Channel) -> None:
    channels.send_test(channel, now=NOW)
    with pytest.raises(channels.TooSoonError):
        channels.send_test(channel, now=NOW + 5 * SECOND)
    channels.send_test(channel, now=NOW + channels.TEST_PAUSE)
