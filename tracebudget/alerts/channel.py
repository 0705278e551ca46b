"""Channels: the kinds there are, and what their owners may do with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from django.db import transaction

from tracebudget import models
from tracebudget.alerts import email, webhook
from tracebudget.alerts.errors import DeliveryError
from tracebudget.alerts.message import Message
from tracebudget.alerts.vault import VaultError, seal, unseal

Config = Mapping[str, Any]
Send = Callable[..., str]

SENDERS: dict[str, Send] = {
    models.ChannelKind.EMAIL.value: email.send,
    models.ChannelKind.WEBHOOK.value: webhook.send,
}

# A test is a message that we send wherever an owner says: not a tool to flood somebody with.
TEST_PAUSE = timedelta(seconds=30)


class TooSoonError(Exception):
    """The last test of the channel is too young."""


def can_mail() -> bool:
    """Whether the operator has named a mail server."""
    return email.is_set_up()


def send(channel: models.Channel, message: Message, *, now: datetime) -> str:
    """Send a message; what the other side said. Raises DeliveryError."""
    try:
        config = unseal(channel)
    except VaultError as error:
        raise DeliveryError(str(error), is_permanent=True) from error
    return SENDERS[channel.kind](config, message, now=now)


def create_email(
    project: models.Project, name: str, address: str, *, app: models.App | None
) -> models.Channel:
    return models.Channel.objects.create(
        project=project,
        app=app,
        kind=models.ChannelKind.EMAIL,
        name=name,
        destination=address,
        config=seal({"address": address}),
    )


def create_webhook(
    project: models.Project, name: str, url: str, *, app: models.App | None
) -> tuple[models.Channel, str]:
    """The channel and its signing secret, which is shown once."""
    secret = webhook.new_secret()
    channel = models.Channel.objects.create(
        project=project,
        app=app,
        kind=models.ChannelKind.WEBHOOK,
        name=name,
        destination=_host(url),
        config=seal({"url": url, "secret": secret}),
    )
    return channel, secret


def change_address(channel: models.Channel, address: str) -> None:
    """Send elsewhere from now on; a webhook keeps its secret. The caller saves nothing else."""
    config = unseal(channel)
    if channel.kind == models.ChannelKind.EMAIL:
        config["address"], channel.destination = address, address
    else:
        config["url"], channel.destination = address, _host(address)
    channel.config = seal(config)
    channel.save(update_fields=["config", "destination"])


def change_secret(channel: models.Channel, *, now: datetime) -> str:
    """A new signing secret, shown once. The old one signs along for `webhook.OVERLAP`."""
    config, secret = unseal(channel), webhook.new_secret()
    config |= {
        "secret": secret,
        "secret_before": config["secret"],
        "before_until": (now + webhook.OVERLAP).isoformat(),
    }
    channel.config = seal(config)
    channel.save(update_fields=["config"])
    return secret


@transaction.atomic
def remove(channel: models.Channel, *, now: datetime) -> None:
    """Forget the address and what is still to be sent there; the delivery log stays."""
    channel.removed_at, channel.config = now, b""
    channel.save(update_fields=["removed_at", "config"])
    waiting = channel.deliveries.filter(state=models.DeliveryState.WAITING)
    waiting.update(state=models.DeliveryState.FAILED, next_try_at=None, ended_at=now)


def send_test(channel: models.Channel, *, now: datetime) -> models.Delivery:
    """Put a test into the outbox. Raises TooSoonError."""
    recent = channel.deliveries.filter(event=None, created_at__gt=now - TEST_PAUSE)
    if recent.exists():
        raise TooSoonError
    return models.Delivery.objects.create(channel=channel, created_at=now, next_try_at=now)


def _host(url: str) -> str:
    """What may be shown of a webhook's address: paths and queries often are secrets."""
    return urlsplit(url).netloc
