"""What messages say, and that nothing in a name can break out of its place."""

from __future__ import annotations

import email.policy
from email.message import EmailMessage

import pytest
from django.core.mail import EmailMultiAlternatives
from django.utils.translation import override

from tests.alerts.traffic import MINUTE, NOW, Traffic, promise
from tracebudget import models
from tracebudget.alerts import channel as channels
from tracebudget.alerts import words
from tracebudget.alerts.message import Message, compose
from tracebudget.alerts.watch import check_budgets
from tracebudget.wording import explain

pytestmark = pytest.mark.django_db


@pytest.fixture
def channel(project: models.Project) -> models.Channel:
    return channels.create_email(project, "ops", "ops@shop.example", app=None)


@pytest.fixture
def breach(app: models.App, traffic: Traffic, channel: models.Channel) -> models.Delivery:
    """Three requests over the limit, four within."""
    promise(app)
    traffic.arrive("ooooxxx", last_at=NOW)
    check_budgets(now=NOW)
    return models.Delivery.objects.get()


def test_a_message_speaks_the_language_of_the_server(breach: models.Delivery) -> None:
    with override("zh-hans"):
        text = compose(breach).text
    assert "shop 未达到承诺：端到端 超过 2 s" in text
    assert "同一次回答中的工具串行执行" in text


def test_text_tells_what_an_engineer_needs(breach: models.Delivery) -> None:
    first, second, third = models.AlertEvent.objects.get().facts["requests"]
    alert = models.Alert.objects.get()
    serial = explain(models.AlertEvent.objects.get().facts["finding"])
    here = "http://127.0.0.1:8000/p/shop"
    assert (
        compose(breach).text
        == f"""\
shop breaks its promise: end-to-end over 2 s

How much: 3 of 7 requests of the last 1 h over 2 s, typically 4.3 s, at worst 4.3 s. \
57.1 % kept it; 95 % are promised.
Since: 2026-01-01 11:57:55 UTC
Segment: tool: 4 s of 4.3 s on average; 500 ms in requests within
Turn: turn 0 of support, 4.2 s
Tool: search_order, 3 s

First thing to do: {serial.title}
{serial.text}
{serial.remedy}
It would save 1 s on average in 3 requests.

Requests that show it:
- 4.3 s  invoke_agent support, {words.moment(first["started_at"])}
  {here}/requests/{first["trace_id"]}/
- 4.3 s  invoke_agent support, {words.moment(second["started_at"])}
  {here}/requests/{second["trace_id"]}/
- 4.3 s  invoke_agent support, {words.moment(third["started_at"])}
  {here}/requests/{third["trace_id"]}/

The alert and its history: {here}/alerts/{alert.pk}/

--{" "}
Tracebudget, project Shop
"""
    )


def test_recovery_says_how_long_it_lasted(
    breach: models.Delivery, app: models.App, traffic: Traffic
) -> None:
    traffic.arrive("o" * 18, last_at=NOW + 18 * MINUTE)
    check_budgets(now=NOW + 18 * MINUTE)
    check_budgets(now=NOW + 28 * MINUTE)
    message = compose(models.Delivery.objects.exclude(pk=breach.pk).get())
    assert message.subject == "[Tracebudget] shop is back within: end-to-end"
    assert "It lasted: 28 min\nAt worst: 4.3 s" in message.text
    assert message.thread == compose(breach).thread
    assert message.payload["type"] == "alert.recovered"
    assert message.payload["data"]["alert"]["is_open"] is False


def test_program_gets_facts_and_addresses(breach: models.Delivery) -> None:
    payload = compose(breach).payload
    assert payload["type"] == "alert.opened"
    assert payload["timestamp"] == NOW.isoformat()
    data = payload["data"]
    assert (data["project"], data["app"], data["metric"]) == ("shop", "shop", "end_to_end")
    assert data["alert"]["url"].startswith("http://127.0.0.1:8000/p/shop/alerts/")
    assert (data["facts"]["over"], data["facts"]["judged"]) == (3, 7)
    assert [set(request) for request in data["facts"]["requests"]] == [
        {"trace_id", "name", "started_at", "value", "url"}
    ] * 3


def test_every_try_has_the_same_content(breach: models.Delivery) -> None:
    assert compose(breach) == compose(models.Delivery.objects.get())


def test_it_reads_history_alone(breach: models.Delivery) -> None:
    before = compose(breach)
    models.Trace.objects.all().delete()
    models.Analysis.objects.all().delete()
    models.Budget.objects.all().delete()
    assert compose(models.Delivery.objects.get()) == before


NASTY = 'shop\r\nBcc: all@victims.example\r\n\r\n<script>alert("x")</script>{{ 7|add:7 }}%(app)s'


@pytest.fixture
def nasty(breach: models.Delivery) -> Message:
    models.Alert.objects.update(app_name=NASTY)
    event = models.AlertEvent.objects.get()
    event.facts["requests"][0]["name"] = NASTY
    event.facts["tool"]["name"] = event.facts["turn"]["agent"] = NASTY
    event.save()
    return compose(models.Delivery.objects.get())


def test_no_name_becomes_a_header(nasty: Message) -> None:
    assert "\n" not in nasty.subject
    mail = EmailMultiAlternatives(
        nasty.subject, nasty.text, "us@shop.example", ["ops@shop.example"]
    )
    sent = email.message_from_bytes(mail.message().as_bytes(), policy=email.policy.default)
    assert isinstance(sent, EmailMessage)
    assert sent["Bcc"] is None
    assert sent["To"] == "ops@shop.example"


def test_no_name_becomes_html_or_template(nasty: Message) -> None:
    assert "<script" not in nasty.html
    assert "&lt;script&gt;" in nasty.html
    assert "14" not in nasty.subject
    assert "%(app)s" in nasty.subject


def test_subject_is_bounded(breach: models.Delivery) -> None:
    models.Alert.objects.update(app_name="x" * 10_000)
    assert len(compose(models.Delivery.objects.get()).subject) <= 200


def test_test_says_that_it_is_one(channel: models.Channel) -> None:
    message = compose(channels.send_test(channel, now=NOW))
    assert message.subject == "[Tracebudget] Test"
    assert message.text.startswith("This is a test of the channel “ops”. It works.\n")
    assert message.payload["type"] == "test"
