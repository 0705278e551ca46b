"""Webhooks, signed as the Standard Webhooks specification says: any of its libraries can verify."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any

import orjson
from standardwebhooks import Webhook

from tracebudget.alerts.errors import DeliveryError
from tracebudget.alerts.message import Message
from tracebudget.alerts.outbound import Answer, post

SECRET_BYTES = 32
# After a change of the secret both sign, so that a reader can change his without missing one.
OVERLAP = timedelta(hours=24)
SHOWN_CHARS = 200  # of an answer, in the delivery log

SUCCESS, FINAL = 2, {3, 4}  # the first digit of an answer
# Of the answers that blame us, those that may change by themselves.
TRY_AGAIN = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}


def new_secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def send(config: Mapping[str, Any], message: Message, *, now: datetime) -> str:
    """POST the message; what the other side said. Raises DeliveryError."""
    body = orjson.dumps(message.payload)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Tracebudget",
        "webhook-id": str(message.id),
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": _signatures(config, message, body, now),
    }
    answer = post(config["url"], body, headers)
    said = f"HTTP {answer.status} {answer.text[:SHOWN_CHARS]}".strip()
    if answer.status // 100 != SUCCESS:
        raise DeliveryError(said, is_permanent=_is_final(answer), retry_after=answer.retry_after)
    return said


def _signatures(config: Mapping[str, Any], message: Message, body: bytes, now: datetime) -> str:
    now = now.astimezone(UTC)
    return " ".join(
        Webhook(secret).sign(str(message.id), now, body.decode())
        for secret in valid_secrets(config, now)
    )


def valid_secrets(config: Mapping[str, Any], now: datetime) -> list[str]:
    """The secret, and the one before it for as long as both hold."""
    if "secret_before" not in config or now >= datetime.fromisoformat(config["before_until"]):
        return [config["secret"]]
    return [config["secret"], config["secret_before"]]


def _is_final(answer: Answer) -> bool:
    """A redirect is not followed: whoever owns the address has to enter the new one."""
    return answer.status // 100 in FINAL and answer.status not in TRY_AGAIN
