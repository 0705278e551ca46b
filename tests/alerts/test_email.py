"""Mail, handed to a real SMTP server: both bodies, headers, and what the server says."""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from uuid import UUID

import pytest
from pytest_django import Settings

from tests.alerts.readers import Mailbox
from tracebudget.alerts import email
from tracebudget.alerts.errors import DeliveryError
from tracebudget.alerts.message import Message

MESSAGE = Message(
    id=UUID("6f0d3d4e-0000-4000-8000-000000000001"),
    thread="alert-1",
    subject="[Tracebudget] shop bricht sein Versprechen ✓",
    text="as text",
    html="<p>as HTML</p>",
    payload={},
)
TO = {"address": "ops@shop.example"}


def send(message: Message = MESSAGE) -> str:
    return email.send(TO, message, now=datetime(2026, 1, 1, tzinfo=UTC))


def test_mail_arrives_whole(mail_server: Mailbox) -> None:
    assert send() == "taken by 127.0.0.1"
    (mail,) = mail_server.mails
    assert mail["Subject"] == MESSAGE.subject
    assert mail["To"] == "ops@shop.example"
    assert mail["Message-ID"] == f"<{MESSAGE.id}@127.0.0.1>"
    assert mail["References"] == "<alert-1@127.0.0.1>"
    assert mail["Auto-Submitted"] == "auto-generated"
    bodies = {part.get_content_type(): part.get_content().strip() for part in mail.iter_parts()}
    assert bodies == {"text/plain": "as text", "text/html": "<p>as HTML</p>"}


def test_message_id_is_the_same_with_every_try(mail_server: Mailbox) -> None:
    send()
    send()
    assert len(mail_server.mails) == 2
    assert len(mail_server.ids()) == 1


@pytest.mark.parametrize(("code", "is_permanent"), [(550, True), (450, False)])
def test_refused_recipient(mail_server: Mailbox, code: int, is_permanent: bool) -> None:
    mail_server.refuse_recipient = f"{code} no such user"
    with pytest.raises(DeliveryError, match=f"^SMTP {code} no such user$") as failed:
        send()
    assert failed.value.is_permanent is is_permanent


@pytest.mark.parametrize(("code", "is_permanent"), [(554, True), (451, False)])
def test_refused_content(mail_server: Mailbox, code: int, is_permanent: bool) -> None:
    mail_server.answer = f"{code} not like this"
    with pytest.raises(DeliveryError, match=f"^SMTP {code} not like this$") as failed:
        send()
    assert failed.value.is_permanent is is_permanent


def test_server_that_is_away_may_come_back(settings: Settings) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        settings.EMAIL_HOST, settings.EMAIL_PORT = taken.getsockname()
        with pytest.raises(DeliveryError) as failed:
            send()
    assert not failed.value.is_permanent


def test_sign_in_that_fails_is_the_operators_to_mend(
    mail_server: Mailbox, settings: Settings
) -> None:
    settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "us", "wrong"
    with pytest.raises(DeliveryError) as failed:
        send()
    assert not failed.value.is_permanent


def test_no_mail_server_is_said_so() -> None:
    with pytest.raises(DeliveryError, match="TRACEBUDGET_SMTP_HOST") as failed:
        send()
    assert failed.value.is_permanent
