"""Alerts in templates: their changes in words, and how long they lasted."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from django import template
from django.utils import timezone

from tracebudget import models
from tracebudget.alerts.words import CHANGES
from tracebudget.core.alerting import Watch
from tracebudget.templatetags.duration import duration

register = template.Library()


@register.filter
def change(code: str) -> str:
    """A line of history in a word or two."""
    return str(CHANGES.get(code, code))


@register.filter
def lasted(alert: models.Alert) -> str:
    """How long an alert was open, or has been until now."""
    end = alert.closed_at or timezone.now()
    return duration((end - alert.opened_at).total_seconds() * 1e9)


@register.filter
def watch_lasted(watch: Watch) -> str:
    """The same of an alert that would have been; a dash for one that would be open still."""
    return duration(None if watch.closed_ns is None else watch.closed_ns - watch.opened_ns)


@register.filter
def moment(unix_ns: int) -> datetime:
    return datetime.fromtimestamp(unix_ns / 1e9, UTC)


@register.filter
def iso(text: str) -> datetime:
    """A moment that history keeps as text."""
    return datetime.fromisoformat(text)


@register.filter
def uuid(hex_id: str) -> UUID:
    """A trace id as addresses want it."""
    return UUID(hex_id)
