"""What the gate says, in words."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from tracebudget import models
from tracebudget.core.baseline import figures_in
from tracebudget.core.gate import Check, MoreOften
from tracebudget.finding_words import Text
from tracebudget.templatetags.duration import amount, count, duration, percent
from tracebudget.wording import finding_title, metric_name

OUTCOMES: dict[str, Text] = {
    "better": _("better"),
    "same": _("as before"),
    "worse": _("worse"),
    "unknown": _("cannot tell"),
    "new": _("nothing to compare"),
}
BUDGET_OUTCOMES: dict[str, Text] = {
    "same": _("kept"),
    "worse": _("missed"),
    "unknown": _("cannot tell"),
}

COMPARED = _("{before} before, {now} now; surely between {low} and {high}.")
WITH_ERRORS = _("{before} of requests had an error in them, now {now}; surely {low} to {high}.")
WITHIN = _("{within} of {requests} requests kept {limit}; {objective} % are promised.")
WHYS: dict[str, Text] = {
    "better": COMPARED,
    "same": COMPARED,
    "worse": COMPARED,
    "errors_better": WITH_ERRORS,
    "errors_same": WITH_ERRORS,
    "errors_worse": WITH_ERRORS,
    "kept": WITHIN,
    "missed": WITHIN,
    "not_in_baseline": _("The baseline does not tell it."),
    "too_few": _("Known for {known} of {requests} requests: too few to tell."),
    "no_requests": _("There are no whole requests."),
    "less_known": _(
        "Known for {known} of requests, {known_before} in the baseline: what is missing may be "
        "what was slow."
    ),
    "too_few_kept": _("{requests} requests are too few to prove {objective} %."),
    "unjudged_decide": _(
        "{within} of {requests} requests kept {limit}, {over} did not, and {unjudged} have no "
        "figure: those decide whether the promised {objective} % did."
    ),
    "no_baseline": _("No other release has a frozen baseline in this environment."),
    "first": _("No other release has a frozen baseline: this one is to be the first."),
}
GROWN = _("%(title)s%(subject)s: in %(share)s of requests, %(before)s before.")
GROWN_AND_COSTS = _(
    "%(title)s%(subject)s: in %(share)s of requests, %(before)s before; each loses %(lost)s."
)
BASELINE = _(
    "release %(release)s%(where)s, %(requests)s requests, end-to-end p95 %(p95)s, frozen %(at)s"
)
SHARES = frozenset({"errors_better", "errors_same", "errors_worse", "less_known"})
VALUES = frozenset({"before", "now", "low", "high", "limit"})


def check_name(check: Check) -> str:
    """What was looked at."""
    if check.kind == "metric":
        return f"{metric_name(check.name)} {check.quantile}"
    if check.kind == "budget":
        return gettext("budget of %(metric)s") % {"metric": metric_name(check.name)}
    return gettext("errors") if check.kind == "errors" else gettext("baseline")


def check_outcome(check: Check) -> str:
    words = BUDGET_OUTCOMES if check.kind == "budget" else OUTCOMES
    return str(words[check.outcome])


def check_words(check: Check) -> str:
    """Why the gate says so, with its figures."""
    said = {key: _figure(check, key, value) for key, value in check.evidence.items()}
    return str(WHYS[check.why]).format_map(said)


def _figure(check: Check, key: str, value: Any) -> str:
    if check.why in SHARES:
        return percent(value)
    if key in VALUES:
        return amount(value, check.name)
    return count(value) if isinstance(value, int) else f"{value:g}"


def change(check: Check) -> str:
    """By how much, in percent of the baseline's value; "" for nothing."""
    before, now = check.evidence.get("before"), check.evidence.get("now")
    if check.kind != "metric" or not before or now is None or before == now:
        return ""
    return f"{(now - before) / before:+.1%}".replace("-", "−").replace("%", " %")


def grown_words(item: MoreOften) -> str:
    """A finding that came or grew."""
    found = item.found
    said = {
        "title": finding_title(found.code),
        "subject": f" ({found.subject})" if found.subject else "",
        "share": percent(item.share),
        "before": percent(item.share_before),
        "lost": duration(found.saving_ns // found.requests) if found.saving_ns else "",
    }
    return str(GROWN_AND_COSTS if found.saving_ns else GROWN) % said


def baseline_words(baseline: models.Baseline) -> str:
    """A baseline in a line."""
    figures = figures_in(baseline.figures)
    p95 = figures.metrics["end_to_end"].p95
    said = {
        "release": baseline.release,
        "where": f" ({baseline.environment})" if baseline.environment else "",
        "requests": count(figures.requests),
        "p95": duration(p95.value if p95 is not None else None),
        "at": f"{baseline.frozen_at:%Y-%m-%d %H:%M} UTC",
    }
    return str(BASELINE) % said
