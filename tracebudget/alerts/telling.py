"""Whom to tell of what happened to an alert, and when: channels that listen, silences that hold.

While a silence lasts, messages wait in the outbox for its end. What opened and closed within it is
told to nobody.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import Max, Q, QuerySet

from tracebudget import models
from tracebudget.alerts.evidence import Facts

SILENCED = models.DeliveryState.SILENCED


def tell(alert: models.Alert, change: str, facts: Facts, *, now: datetime) -> None:
    """A line of history, and a message for each channel that listens to the app."""
    event = models.AlertEvent.objects.create(alert=alert, change=change, at=now, facts=facts)
    unheard = _silence_what_is_held(alert, now=now) if alert.closed_at is not None else set()
    at = silenced_until(alert.project_id, alert.app_id, now=now) or now
    models.Delivery.objects.bulk_create(
        _silenced(event, channel, now)
        if channel.pk in unheard
        else models.Delivery(channel=channel, event=event, created_at=now, next_try_at=at)
        for channel in _listening(alert)
    )


def _silenced(event: models.AlertEvent, channel: models.Channel, now: datetime) -> models.Delivery:
    return models.Delivery(
        channel=channel, event=event, created_at=now, ended_at=now, state=SILENCED
    )


def _silence_what_is_held(alert: models.Alert, *, now: datetime) -> set[int]:
    """Drop messages that wait for the end of a silence; the channels that heard nothing so far."""
    held = list(_held(now).filter(event__alert=alert))
    ids = [delivery.pk for delivery in held]
    models.Delivery.objects.filter(pk__in=ids).update(
        state=SILENCED, next_try_at=None, ended_at=now
    )
    return {delivery.channel_id for delivery in held}


def _held(now: datetime) -> QuerySet[models.Delivery]:
    """What was never tried is only ever due at once, but for a silence."""
    waiting = models.Delivery.objects.filter(state=models.DeliveryState.WAITING, tries=0)
    return waiting.filter(next_try_at__gt=now)


def _listening(alert: models.Alert) -> QuerySet[models.Channel]:
    mine = Q(app=None) | Q(app=alert.app_id) if alert.app_id else Q(app=None)
    return models.Channel.objects.filter(
        mine, project=alert.project_id, is_on=True, removed_at=None
    ).order_by("pk")


def silenced_until(project_id: int, app_id: int | None, *, now: datetime) -> datetime | None:
    """When the silence over an app ends; None if there is none."""
    silences = models.Silence.objects.filter(
        Q(app=None) | Q(app=app_id), project=project_id, until__gt=now
    )
    until: datetime | None = silences.aggregate(last=Max("until"))["last"]
    return until


@transaction.atomic
def end_silence(silence: models.Silence, *, now: datetime) -> None:
    """Tell at once what it held, unless another silence does."""
    silence.until = now
    silence.save(update_fields=["until"])
    held = _held(now).filter(event__alert__project=silence.project_id)
    for delivery in held.select_related("event__alert"):
        assert delivery.event is not None  # tests are never held
        alert = delivery.event.alert
        delivery.next_try_at = silenced_until(alert.project_id, alert.app_id, now=now) or now
        delivery.save(update_fields=["next_try_at"])
