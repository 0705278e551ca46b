"""Pictures of shares and trends: bars as SVG attributes, charts as plain dicts for Plotly.

Colours are named by CSS variable; the script puts in what the theme says. Ignorance (model time
that is not split, time that no span explains) is a bar of its own, hatched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

from django.utils.translation import gettext

from tracebudget.queries.apps import Bucket
from tracebudget.queries.rollups import Percentiles
from tracebudget.queries.sessions import Call
from tracebudget.series import OBSERVED
from tracebudget.templatetags.duration import duration
from tracebudget.web.waterfall import percent
from tracebudget.wording import PARTS, SEGMENTS

Figure = dict[str, Any]

MS, SECOND = 1_000_000, 1_000_000_000
SECONDS_FROM = 5 * SECOND  # charts that reach so high are labelled in seconds


@dataclass(frozen=True, slots=True)
class Share:
    """A stretch of a share bar. `code` names its segment, or the part that is told apart."""

    code: str
    css: str
    fill: str
    ns: int
    share: float
    offset: float
    x: str
    width: str

    @property
    def name(self) -> str:
        return str(PARTS[self.code] if self.code in PARTS else SEGMENTS[self.code])


# In the order in which bars show them: code, segment, whether it is hatched.
KINDS: tuple[tuple[str, str, bool], ...] = (
    ("prefill", "prefill", False),
    ("decode", "decode", False),
    ("unsplit", "decode", True),
    ("tool", "tool", False),
    ("framework", "framework", False),
    ("unattributed", "framework", True),
    ("wait", "wait", False),
)


def told_apart(ns: Mapping[str, int]) -> dict[str, int]:
    """ns by code from ns by segment and part: what is not known is taken off its segment."""
    unsplit = min(ns["unsplit"], ns["decode"])
    unattributed = min(ns["unattributed"], ns["framework"])
    return {
        **ns,
        "decode": ns["decode"] - unsplit,
        "unsplit": unsplit,
        "framework": ns["framework"] - unattributed,
        "unattributed": unattributed,
    }


def of_columns(columns: Mapping[str, int | None]) -> dict[str, int]:
    """ns by code from summary columns like `decode_ns` and `unsplit_ns`.

    Without waiting for a person: beside it nothing else could be seen.
    """
    ns = {code: columns[f"{code}_ns"] or 0 for code, _segment, _hatched in KINDS}
    return told_apart({**ns, "wait": 0})


def shares(ns: Mapping[str, int]) -> list[Share]:
    """A share bar over the sum; nothing for nothing."""
    total = sum(ns.values())
    bars, x = [], 0.0
    for code, segment, hatched in KINDS:
        if not ns[code]:
            continue
        share = ns[code] / total
        fill = f"url(#hatch-{code})" if hatched else ""
        css = f"seg {segment}" + (f" part-{code}" if hatched else "")
        bars.append(Share(code, css, fill, ns[code], share, x, percent(x), percent(share)))
        x += share
    return bars


# --- charts --------------------------------------------------------------------------------------

# Colour and dash of each percentile: the dash tells them apart without colour.
LINES = {
    "p50": ("var(--decode)", "solid"),
    "p95": ("var(--prefill)", "dash"),
    "p99": ("var(--tool)", "dot"),
}


def layout(**more: Any) -> Figure:
    """What all charts share: no frame, our font, colours of the theme."""
    axis = {"gridcolor": "var(--line)", "linecolor": "var(--line-strong)", "zeroline": False}
    return {
        "autosize": True,
        "height": 300,
        "margin": {"l": 56, "r": 12, "t": 12, "b": 84},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "var(--muted)", "size": 12, "family": "var(--sans)"},
        "legend": {"orientation": "h", "y": -0.28, "x": 0, "traceorder": "normal"},
        "hovermode": "x unified",
        "xaxis": axis,
        "yaxis": {**axis, "rangemode": "tozero"},
        **more,
    }


def turns_figure(turns: Sequence[Mapping[str, int]], labels: Sequence[str]) -> Figure:
    """Stacked bars: each turn's segments. `turns` hold ns by code, where there are any."""
    return _stacked(turns, labels, title=gettext("turn"))


def segments_figure(trend: Sequence[Bucket]) -> Figure:
    """Stacked bars: mean segments of a request over time, without waiting for a person."""
    means = [
        {code: ns // max(1, bucket.requests) for code, ns in of_columns(bucket.sums).items()}
        for bucket in trend
    ]
    return _stacked(means, [bucket.start.isoformat() for bucket in trend])


def percentiles_figure(trend: Sequence[Bucket], limit_ns: int | None) -> Figure:
    """Lines: end-to-end p50, p95 and p99 over time, and the budget."""
    times = [bucket.start.isoformat() for bucket in trend]
    unit = _unit(max((bucket.active.p99 or 0 for bucket in trend), default=0))
    chart = layout()
    chart["yaxis"] = {**chart["yaxis"], "ticksuffix": f" {unit.name}"}
    if limit_ns is not None:
        chart |= _budget_line(limit_ns, unit)
    lines = [
        _line(name, [_value(bucket.active, name) for bucket in trend], times, unit)
        for name in LINES
    ]
    return {"data": lines, "layout": chart}


def calls_figure(labels: Sequence[str], calls: Sequence[Call]) -> Figure:
    """TTFT of each call of a session as bars, and above them its prompt as a line."""
    ttfts = [call["ttft_ns"] if call["ttft_source"] in OBSERVED else None for call in calls]
    unit = _unit(max((ns or 0 for ns in ttfts), default=0))
    bars = {
        "type": "bar",
        "name": "TTFT",
        "x": list(labels),
        "y": [None if ns is None else ns / unit.ns for ns in ttfts],
        "customdata": [duration(ns) for ns in ttfts],
        "hovertemplate": "%{customdata}",
        "marker": {"color": "var(--prefill)"},
    }
    line = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": gettext("input tokens"),
        "x": list(labels),
        "y": [call["input_tokens"] for call in calls],
        "yaxis": "y2",
        "hovertemplate": "%{y:,}",
        "line": {"color": "var(--tool)", "width": 2, "dash": "dot"},
        "marker": {"size": 5},
    }
    chart = layout(bargap=0.25)
    chart["margin"] = {**chart["margin"], "r": 56}
    chart["yaxis"] = {**chart["yaxis"], "ticksuffix": f" {unit.name}"}
    chart["yaxis2"] = {
        "overlaying": "y", "side": "right", "rangemode": "tozero", "showgrid": False,
        "zeroline": False, "tickmode": "auto", "nticks": 5,
    }  # fmt: skip
    # "1.10" is a name, no number.
    named = {"type": "category", "title": {"text": gettext("request.turn")}}
    chart["xaxis"] = {**chart["xaxis"], **named}
    return {"data": [bars, line], "layout": chart}


def prompts_figure(points: Sequence[tuple[int, int]], ns_per_token: float | None) -> Figure:
    """A dot for each call: TTFT against the tokens that were read; and the slope, where it is
    known, through the median of them.
    """
    unit = _unit(max(ns for _, ns in points))
    dots = {
        "type": "scatter",
        "mode": "markers",
        "name": gettext("calls"),
        "x": [tokens for tokens, _ in points],
        "y": [ns / unit.ns for _, ns in points],
        "customdata": [duration(ns) for _, ns in points],
        "hovertemplate": "%{customdata}",
        "marker": {"color": "var(--prefill)", "size": 5, "opacity": 0.6},
    }
    chart = layout(hovermode="closest")
    chart["xaxis"] = {**chart["xaxis"], "title": {"text": gettext("input tokens, uncached")}}
    chart["yaxis"] = {**chart["yaxis"], "ticksuffix": f" {unit.name}"}
    slopes = [] if ns_per_token is None else [_slope(points, ns_per_token, unit)]
    return {"data": [dots, *slopes], "layout": chart}


def _slope(points: Sequence[tuple[int, int]], ns_per_token: float, unit: _Unit) -> Figure:
    base = median(ns - ns_per_token * tokens for tokens, ns in points)
    ends = [min(tokens for tokens, _ in points), max(tokens for tokens, _ in points)]
    words = gettext("%(time)s for 1,000 tokens") % {"time": duration(round(ns_per_token * 1000))}
    return {
        "type": "scatter",
        "mode": "lines",
        "name": words,
        "x": ends,
        "y": [max(0.0, base + ns_per_token * tokens) / unit.ns for tokens in ends],
        "hoverinfo": "skip",
        "line": {"color": "var(--tool)", "width": 2},
    }


class _Unit(NamedTuple):
    """Of a chart's axis."""

    ns: int
    name: str


def _unit(highest_ns: int) -> _Unit:
    return _Unit(SECOND, "s") if highest_ns >= SECONDS_FROM else _Unit(MS, "ms")


def _value(percentiles: Percentiles, name: str) -> int | None:
    return {"p50": percentiles.p50, "p95": percentiles.p95, "p99": percentiles.p99}[name]


def _stacked(
    rows: Sequence[Mapping[str, int]], x: Sequence[str], *, title: str | None = None
) -> Figure:
    """A bar for each row, a colour for each code that any row has."""
    unit = _unit(max((sum(row.values()) for row in rows), default=0))
    chart = layout(barmode="stack", bargap=0.25)
    chart["yaxis"] = {**chart["yaxis"], "ticksuffix": f" {unit.name}"}
    if title is not None:
        chart["xaxis"] = {**chart["xaxis"], "title": {"text": title}}
    codes = [code for code, _segment, _hatched in KINDS if any(row.get(code) for row in rows)]
    bars = [_bars(code, [row.get(code, 0) for row in rows], x, unit) for code in codes]
    return {"data": bars, "layout": chart}


def _bars(code: str, values: Sequence[int], x: Sequence[str], unit: _Unit) -> Figure:
    segment, hatched = next((s, h) for c, s, h in KINDS if c == code)
    marker: Figure = {"color": f"var(--{segment})"}
    if hatched:
        marker["pattern"] = {
            "shape": "/",
            "fillmode": "replace",
            "fgcolor": f"var(--{segment})",
            "bgcolor": "var(--card)",
            "size": 7,
            "solidity": 0.5,
        }
    return {
        "type": "bar",
        "name": str(PARTS[code] if code in PARTS else SEGMENTS[code]),
        "x": list(x),
        "y": [ns / unit.ns for ns in values],
        "customdata": [duration(ns) for ns in values],
        "hovertemplate": "%{customdata}",
        "marker": marker,
    }


def _line(name: str, values: Sequence[int | None], x: Sequence[str], unit: _Unit) -> Figure:
    colour, dash = LINES[name]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": list(x),
        "y": [None if ns is None else ns / unit.ns for ns in values],
        "customdata": [duration(ns) for ns in values],
        "hovertemplate": "%{customdata}",
        "connectgaps": False,
        "line": {"color": colour, "dash": dash, "width": 2},
        "marker": {"size": 5},
    }


def _budget_line(limit_ns: int, unit: _Unit) -> Figure:
    at = limit_ns / unit.ns
    line = {"color": "var(--over)", "dash": "dash", "width": 1.5}
    words = gettext("budget %(limit)s") % {"limit": duration(limit_ns)}
    return {
        "shapes": [
            {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": at, "y1": at, "line": line}
        ],
        "annotations": [
            {
                "xref": "paper", "x": 0, "xanchor": "left", "y": at, "yanchor": "bottom",
                "text": words, "showarrow": False, "font": {"color": "var(--over)"},
                "bgcolor": "var(--card)",
            }
        ],
    }  # fmt: skip
