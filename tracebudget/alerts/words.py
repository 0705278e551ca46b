"""Alerts in words: the same sentences in mails, on pages and for webhooks that show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from tracebudget import models
from tracebudget.core.alerting import Change, Rule
from tracebudget.finding_words import Text
from tracebudget.templatetags.duration import amount, count, duration, percent, share_of
from tracebudget.wording import SEGMENTS, Sentence, explain, metric_name

Facts = Mapping[str, Any]

CHANGES: dict[str, Text] = {
    Change.OPENED.value: _("opened"),
    Change.REOPENED.value: _("came back"),
    Change.RECOVERED.value: _("recovered"),
    Change.WENT_QUIET.value: _("closed: no requests for a week"),
    "called_off": _("closed: no longer watched"),
}

HEADLINES: dict[str, Text] = {
    Change.OPENED.value: _("%(app)s breaks its promise: %(metric)s over %(limit)s"),
    Change.REOPENED.value: _("%(app)s breaks its promise again: %(metric)s over %(limit)s"),
    Change.RECOVERED.value: _("%(app)s is back within: %(metric)s"),
    Change.WENT_QUIET.value: _("%(app)s: no word on %(metric)s for a week, alert closed"),
    "called_off": _("%(app)s: %(metric)s is no longer watched, alert closed"),
}


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that an alert tells."""

    label: str
    text: str


def headline(alert: models.Alert, change: str) -> str:
    """One line, whatever is in an app's name: it becomes the subject of a mail."""
    text = str(HEADLINES[change]) % {
        "app": alert.app_name,
        "metric": metric_name(alert.metric),
        "limit": amount(alert.limit, alert.metric),
    }
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def lines(event: models.AlertEvent) -> list[Line]:
    """How much, since when, where: what is known of it."""
    facts, metric = event.facts, event.alert.metric
    told = [
        (gettext("How much"), _how_much(facts, metric)),
        (gettext("Since"), moment(facts.get("since"))),
        (gettext("Segment"), _segment(facts.get("segment"))),
        (gettext("Turn"), _turn(facts.get("turn"))),
        (gettext("Tool"), _tool(facts.get("tool"))),
    ]
    if event.change in {Change.RECOVERED, Change.WENT_QUIET}:
        told = [
            (gettext("It lasted"), _lasted(event)),
            (gettext("At worst"), amount(event.alert.worst, metric)),
        ]
    return [Line(label, text) for label, text in told if text]


def _how_much(facts: Facts, metric: str) -> str:
    if "worst" not in facts:
        return ""
    kept = percent(share_of(facts["judged"] - facts["over"], facts["judged"]))
    return gettext(
        "%(over)s of %(judged)s requests of the last %(window)s over %(limit)s, typically "
        "%(typical)s, at worst %(worst)s. %(kept)s kept it; %(objective)s are promised."
    ) % {
        "over": count(facts["over"]),
        "judged": count(facts["judged"]),
        "window": duration(facts["window_ns"]),
        "limit": amount(facts["limit"], metric),
        "typical": amount(facts["typical"], metric),
        "worst": amount(facts["worst"], metric),
        "kept": kept,
        "objective": percent(facts["objective"] / 100),
    }


def moment(iso: str | None) -> str:
    return "" if iso is None else f"{datetime.fromisoformat(iso):%Y-%m-%d %H:%M:%S} UTC"


def _segment(segment: Facts | None) -> str:
    if segment is None or not segment["ns"]:
        return ""
    said = {
        "segment": SEGMENTS[segment["name"]],
        "ns": duration(segment["ns"]),
        "total": duration(segment["end_to_end_ns"]),
        "usual": duration(segment["usual_ns"]),
    }
    if segment["usual_ns"] is None:
        return gettext("%(segment)s: %(ns)s of %(total)s on average") % said
    return (
        gettext("%(segment)s: %(ns)s of %(total)s on average; %(usual)s in requests within") % said
    )


def _turn(turn: Facts | None) -> str:
    if turn is None:
        return ""
    return gettext("turn %(n)s of %(agent)s, %(ns)s") % {
        "n": turn["index"],
        "agent": turn["agent"],
        "ns": duration(turn["duration_ns"]),
    }


def _tool(tool: Facts | None) -> str:
    return "" if tool is None else f"{tool['name']}, {duration(tool['duration_ns'])}"


def _lasted(event: models.AlertEvent) -> str:
    return duration((event.at - event.alert.opened_at).total_seconds() * 1e9)


@dataclass(frozen=True, slots=True)
class Advice:
    """The finding that would give the most time back."""

    finding: Sentence
    saving: str


def advice(facts: Facts) -> Advice | None:
    finding = facts.get("finding")
    if finding is None:
        return None
    return Advice(explain(finding), _saving(finding))


def _saving(finding: Facts) -> str:
    said = {"ns": duration(finding["saving_ns"]), "n": count(finding["requests"])}
    if not finding["saving_ns"]:
        return (
            ngettext("Seen in %(n)s request.", "Seen in %(n)s requests.", finding["requests"])
            % said
        )
    return (
        ngettext(
            "It would save %(ns)s in %(n)s request.",
            "It would save %(ns)s on average in %(n)s requests.",
            finding["requests"],
        )
        % said
    )


def rule_words(rule: Rule) -> tuple[str, str]:
    """When an alert opens, and when it closes."""
    opens = gettext(
        "An alert opens when at least %(over)s of the last %(of_last)s judged requests are over "
        "the limit, and the objective is missed in the last %(window)s."
    ) % {
        "over": rule.over,
        "of_last": rule.of_last,
        "window": duration(rule.window_ns),
    }
    closes = gettext(
        "It closes when the budget has been kept for %(recovery)s; after a return within "
        "%(window)s the same alert goes on, and must be calm for twice as long."
    ) % {"recovery": duration(rule.recovery_ns), "window": duration(rule.window_ns)}
    return opens, closes
