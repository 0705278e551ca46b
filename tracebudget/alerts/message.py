"""What is told: a message, made from a line of an alert's history, for every kind of channel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext

from tracebudget import models
from tracebudget.alerts import words
from tracebudget.templatetags.duration import amount

MAX_SUBJECT_CHARS = 200  # mail programs show half of it


@dataclass(frozen=True, slots=True)
class Message:
    """One delivery's content. It is the same with every try.

    `id` tells a reader whether he has had it already; `thread` ties the messages of one alert.
    """

    id: UUID
    thread: str
    subject: str
    text: str
    html: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Link:
    """A request to look at."""

    url: str
    name: str
    value: str
    started: str


def compose(delivery: models.Delivery) -> Message:
    """The message of a delivery. It reads what history says, never an analysis."""
    if delivery.event is None:
        return _test(delivery)
    event, alert = delivery.event, delivery.event.alert
    headline = words.headline(alert, event.change)
    context = {
        "headline": headline,
        "lines": words.lines(event),
        "advice": words.advice(event.facts),
        "links": _links(event),
        "url": alert_url(alert),
        "project": alert.project.name,
    }
    return Message(
        id=delivery.pk,
        thread=f"alert-{alert.pk}",
        subject=_subject(headline),
        text=_text(context),
        html=render_to_string("mail/alert.html", context),
        payload=_payload(event, headline),
    )


def _text(context: Mapping[str, Any]) -> str:
    return render_to_string("mail/alert.txt", dict(context)).strip() + "\n"


def alert_url(alert: models.Alert) -> str:
    return settings.URL + reverse("alert", args=[alert.project.slug, alert.pk])


def _links(event: models.AlertEvent) -> list[Link]:
    alert = event.alert
    return [
        Link(
            _request_url(alert.project, request["trace_id"]),
            request["name"] or request["trace_id"],
            amount(request["value"], alert.metric),
            words.moment(request["started_at"]),
        )
        for request in event.facts.get("requests", ())
    ]


def _request_url(project: models.Project, trace_id: str) -> str:
    return settings.URL + reverse("request", args=[project.slug, UUID(trace_id)])


def _subject(text: str) -> str:
    return f"[Tracebudget] {text}"[:MAX_SUBJECT_CHARS]


def _payload(event: models.AlertEvent, headline: str) -> dict[str, Any]:
    """For programs: facts as they are, docs/alerts.md says what each is."""
    alert, facts = event.alert, event.facts
    requests = [
        request | {"url": _request_url(alert.project, request["trace_id"])}
        for request in facts.get("requests", ())
    ]
    return {
        "type": f"alert.{event.change}",
        "timestamp": event.at.isoformat(),
        "data": {
            "summary": headline,
            "project": alert.project.slug,
            "app": alert.app_name,
            "metric": alert.metric,
            "alert": {
                "id": alert.pk,
                "url": alert_url(alert),
                "opened_at": alert.opened_at.isoformat(),
                "is_open": event.change in {"opened", "reopened"},
            },
            "facts": {**facts, "requests": requests},
        },
    }


def _test(delivery: models.Delivery) -> Message:
    channel = delivery.channel
    text = gettext("This is a test of the channel “%(name)s”. It works.") % {"name": channel.name}
    subject = gettext("Test")
    context = {"headline": text, "project": channel.project.name}
    return Message(
        id=delivery.pk,
        thread=f"test-{channel.pk}",
        subject=_subject(subject),
        text=_text(context),
        html=render_to_string("mail/alert.html", context),
        payload={
            "type": "test",
            "timestamp": delivery.created_at.isoformat(),
            "data": {"summary": text, "project": channel.project.slug},
        },
    )
