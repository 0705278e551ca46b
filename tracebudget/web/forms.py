"""What people fill in: filters of lists, scopes of figures, budgets."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext_lazy as _

from tracebudget import models
from tracebudget.core.budget import METRICS, TOOL_CALL
from tracebudget.queries.apps import Scope
from tracebudget.queries.traces import CONDITIONS, ORDER_WORDS, WINDOWS, TraceFilter, window
from tracebudget.templatetags.duration import is_count
from tracebudget.web.budgets import DEFAULT_OBJECTIVE, Limit
from tracebudget.wording import STATES

NS_PER_UNIT = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "min": 60 * 10**9,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
NUMBER_AND_UNIT = re.compile(rf"(\d+(?:[.,]\d+)?)\s*({'|'.join(NS_PER_UNIT)})")
DURATION = re.compile(rf"(?:{NUMBER_AND_UNIT.pattern}\s*)+")
MAX_NS = 30 * 24 * NS_PER_UNIT["h"]  # no request is promised to take longer than a month
MAX_COUNT = 10**9
MAX_TEXT = 200  # names are cut there when they are stored

DEFAULT_RANGE = "24h"  # of figures: yesterday's are history
DEFAULT_LIST_RANGE = "all"  # of lists: the newest come first anyway


def parse_duration(text: str) -> int:
    """A time like `900 ms`, `1.2s` or `2 min 30 s` in ns. Raises forms.ValidationError."""
    if not DURATION.fullmatch(text):
        raise forms.ValidationError(
            _("“%(text)s” is no time. Write a number and its unit, like 900 ms or 2.5 s."),
            code="no_duration",
            params={"text": text},
        )
    parts = NUMBER_AND_UNIT.findall(text)
    ns = int(sum(Decimal(number.replace(",", ".")) * NS_PER_UNIT[unit] for number, unit in parts))
    if not 0 < ns <= MAX_NS:
        raise forms.ValidationError(_("Choose a time above 0 and up to 30 days."), code="range")
    return ns


def parse_count(text: str) -> int:
    """A whole number, thousands separated or not. Raises forms.ValidationError."""
    digits = re.sub(r"[ ,._']", "", text)
    if not (digits.isascii() and digits.isdigit() and 0 < int(digits) <= MAX_COUNT):
        raise forms.ValidationError(
            _("“%(text)s” is no count. Write a whole number above 0, like 5 or 8,000."),
            code="no_count",
            params={"text": text},
        )
    return int(digits)


class DurationField(forms.CharField):
    """A time with its unit; the value is ns, or None when left empty."""

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        return parse_duration(text) if text else None


def _optional(label: Any) -> forms.CharField:
    return forms.CharField(label=label, required=False, max_length=MAX_TEXT)


class ScopeForm(forms.Form):
    """Time range and environment of figures."""

    range = forms.ChoiceField(
        label=_("time"),
        required=False,
        choices=[(name, words) for name, (_length, words) in WINDOWS.items()],
    )
    environment = _optional(_("environment"))

    def scope(self, project: models.Project, app: models.App | None, *, now: datetime) -> Scope:
        """What is asked for; where a field makes no sense, its default."""
        self.is_valid()
        name = self.cleaned_data.get("range") or DEFAULT_RANGE
        environment = self.cleaned_data.get("environment") or ""
        return Scope(project, window(name, now=now), environment, app)


class FilterForm(forms.Form):
    """Which requests to list, and in which order. Its fields are the conditions of the list."""

    range = ScopeForm.base_fields["range"]
    app = _optional(_("app"))
    environment = _optional(_("environment"))
    version = _optional(_("release"))
    state = forms.ChoiceField(
        label=_("state"),
        required=False,
        choices=[("", _("any")), *STATES.items(), ("error", _("with an error"))],
    )
    breach = _optional(_("over budget"))
    finding = _optional(_("finding"))
    model = _optional(_("model"))
    tool = _optional(_("tool"))
    agent = _optional(_("agent"))
    session = _optional(_("session"))
    longer = DurationField(label=_("at least"), required=False, max_length=40)
    shorter = DurationField(label=_("at most"), required=False, max_length=40)
    text = _optional(_("name contains"))
    before = forms.DateTimeField(required=False)
    sort = forms.ChoiceField(
        label=_("order"),
        required=False,
        choices=[
            (f"{'-' if descending else ''}{name}", words)
            for (name, descending), words in ORDER_WORDS.items()
        ],
    )

    def clean_sort(self) -> str:
        return self.cleaned_data["sort"] or "-time"

    def trace_filter(self, project: models.Project, *, now: datetime) -> TraceFilter:
        """Of a valid form."""
        data = self.cleaned_data
        return TraceFilter(
            project=project,
            window=window(data["range"] or DEFAULT_LIST_RANGE, now=now),
            values={key: data[key] for key in CONDITIONS if data[key]},
            sort=data["sort"].lstrip("-"),
            descending=data["sort"].startswith("-"),
            before=data["before"],
        )


class BudgetRow(forms.Form):
    """One metric's promise. Without a limit nothing is promised."""

    metric = forms.CharField(max_length=len(TOOL_CALL) + MAX_TEXT, widget=forms.HiddenInput)
    limit = forms.CharField(required=False, max_length=40)
    objective = forms.DecimalField(
        required=False, min_value=50, max_value=100, max_digits=5, decimal_places=2
    )

    def clean_metric(self) -> str:
        metric: str = self.cleaned_data["metric"]
        names_tool = metric.startswith(TOOL_CALL) and metric != TOOL_CALL
        if metric not in METRICS and not names_tool:
            raise forms.ValidationError(_("There is no such metric."), code="no_metric")
        return metric

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        if data.get("limit") and "metric" in data:
            parse = parse_count if is_count(data["metric"]) else parse_duration
            try:
                data["limit"] = parse(data["limit"])
            except forms.ValidationError as error:
                self.add_error("limit", error)
        return data


if TYPE_CHECKING:
    BaseRows = forms.BaseFormSet[BudgetRow]
else:
    BaseRows = forms.BaseFormSet  # Django's own cannot be subscripted at run time


class BudgetRows(BaseRows):
    """The rows of the budgets page, a metric each."""

    def clean(self) -> None:
        metrics = [form.cleaned_data.get("metric") for form in self.forms]
        if len(set(metrics)) < len(metrics):
            raise forms.ValidationError(_("One metric stands here twice."), code="twice")


MAX_BUDGET_ROWS = 200  # more tools than a person would promise anything for
BudgetFormSet = forms.formset_factory(
    BudgetRow, formset=BudgetRows, extra=0, max_num=MAX_BUDGET_ROWS, validate_max=True
)


def limits_of(rows: forms.BaseFormSet[BudgetRow]) -> dict[str, Limit]:
    """What valid rows promise."""
    promised = [form.cleaned_data for form in rows.forms if form.cleaned_data.get("limit")]
    return {
        row["metric"]: Limit(row["limit"], row["objective"] or DEFAULT_OBJECTIVE)
        for row in promised
    }
