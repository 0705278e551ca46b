"""Webhooks: signed by the specification, the same with every try, and what answers mean."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from uuid import UUID

import orjson
import pytest
from standardwebhooks import Webhook

from tests.alerts.readers import Receiver, say
from tracebudget.alerts import webhook
from tracebudget.alerts.errors import DeliveryError
from tracebudget.alerts.message import Message

pytestmark = pytest.mark.usefixtures("open_loopback")
MESSAGE = Message(
    id=UUID("6f0d3d4e-0000-4000-8000-000000000001"),
    thread="alert-1",
    subject="",
    text="",
    html="",
    payload={"type": "alert.opened", "data": {"app": "shop ✓"}},
)


def config(receiver: Receiver, **more: str) -> dict[str, str]:
    return {"url": receiver.url, "secret": webhook.new_secret(), **more}


def test_any_library_of_the_specification_verifies_it(receiver: Receiver) -> None:
    channel = config(receiver)
    assert webhook.send(channel, MESSAGE, now=datetime.now(UTC)) == "HTTP 204"
    call = receiver.calls[0]
    assert Webhook(channel["secret"]).verify(call.body, call.headers) == MESSAGE.payload
    assert call.headers["webhook-id"] == str(MESSAGE.id)
    assert call.path == "/hook/secret-path"


def test_signature_is_what_the_specification_says(receiver: Receiver) -> None:
    """HMAC-SHA256 under the decoded secret of `id.timestamp.body`, in base64."""
    channel, now = config(receiver), datetime(2026, 1, 1, tzinfo=UTC)
    webhook.send(channel, MESSAGE, now=now)
    signed = f"{MESSAGE.id}.{int(now.timestamp())}.".encode() + orjson.dumps(MESSAGE.payload)
    key = base64.b64decode(channel["secret"].removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert receiver.calls[0].headers["webhook-signature"] == f"v1,{expected}"


def test_old_secret_signs_along_for_a_day(receiver: Receiver) -> None:
    now = datetime.now(UTC)
    old, until = webhook.new_secret(), now + webhook.OVERLAP
    channel = config(receiver, secret_before=old, before_until=until.isoformat())
    webhook.send(channel, MESSAGE, now=now)
    webhook.send(channel, MESSAGE, now=until + timedelta(seconds=1))
    signatures = [call.headers["webhook-signature"].split(" ") for call in receiver.calls]
    assert [len(several) for several in signatures] == [2, 1]
    for secret in (old, channel["secret"]):
        Webhook(secret).verify(receiver.calls[0].body, receiver.calls[0].headers)


@pytest.mark.parametrize("status", [301, 302, 307, 400, 401, 403, 404, 410, 422])
def test_answer_that_will_not_change_is_permanent(receiver: Receiver, status: int) -> None:
    receiver.answer = say(status, "no such hook")
    with pytest.raises(DeliveryError, match=f"^HTTP {status} no such hook$") as failed:
        webhook.send(config(receiver), MESSAGE, now=datetime.now(UTC))
    assert failed.value.is_permanent


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_answer_that_may_change_is_not(receiver: Receiver, status: int) -> None:
    receiver.answer = say(status, Retry__After="7")
    with pytest.raises(DeliveryError) as failed:
        webhook.send(config(receiver), MESSAGE, now=datetime.now(UTC))
    assert not failed.value.is_permanent
    assert failed.value.retry_after == 7


def test_secrets_have_256_random_bits() -> None:
    secret = webhook.new_secret()
    assert len(base64.b64decode(secret.removeprefix("whsec_"))) == 32
    assert secret != webhook.new_secret()
