"""Charts as tables, for whoever cannot or will not use the picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django import template
from django.utils.translation import gettext

from tracebudget.templatetags.duration import UNKNOWN

register = template.Library()


@dataclass(frozen=True, slots=True)
class Row:
    """A place on the axis, its `moment` if it is one, and what each line or bar says there."""

    label: str
    moment: datetime | None
    values: list[str]


@dataclass(frozen=True, slots=True)
class Table:
    axis: str
    names: list[str]
    rows: list[Row]


@register.filter
def table_of(figure: Mapping[str, Any]) -> Table | None:
    """The numbers of a figure of bars or lines; None for a cloud of dots, which has no rows."""
    traces = figure["data"]
    if not traces or any(trace["x"] != traces[0]["x"] for trace in traces):
        return None
    rows = [
        _row(str(label), [_text(trace, index) for trace in traces])
        for index, label in enumerate(traces[0]["x"])
    ]
    title = figure["layout"]["xaxis"].get("title", {"text": gettext("time")})
    return Table(title["text"], [trace["name"] for trace in traces], rows)


def _row(label: str, values: Sequence[str]) -> Row:
    try:
        moment = datetime.fromisoformat(label) if "T" in label else None
    except ValueError:
        moment = None
    return Row(label, moment, list(values))


def _text(trace: Mapping[str, Any], index: int) -> str:
    """What the pointer would be told."""
    if "customdata" in trace:
        return str(trace["customdata"][index])
    value = trace["y"][index]
    return UNKNOWN if value is None else str(value)
