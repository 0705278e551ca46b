"""What an alert tells of the requests that broke a promise: how much, since when, where, and what
would help. Codes and numbers, copied into the alert's history: they outlive the analyses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median_low
from typing import Any

import orjson
from django.db.models import Avg, Count, QuerySet, Sum
from django.db.models.functions import Coalesce

from tracebudget import answers, models
from tracebudget.alerts.windows import Seen
from tracebudget.core.alerting import Rule
from tracebudget.packing import decompress

Facts = dict[str, Any]
Document = Mapping[str, Any]

# The latest requests over, and as many within to compare with: enough for means, cheap to read.
SAMPLE = 1_000
SHOWN = 3  # requests that a message links to

SEGMENTS = ("prefill", "decode", "tool", "framework")  # waiting for a person breaks no promise
TIMES = tuple(f"{segment}_ns" for segment in SEGMENTS)


@dataclass(frozen=True, slots=True)
class Offender:
    """A request over the budget."""

    trace: models.Trace
    value: int
    span_id: str | None


def gather(budget: models.Budget, seen: Seen, *, rule: Rule) -> Facts:
    """How a budget stands, and what the requests of its window tell. Nine queries at most."""
    offenders = _offenders(budget, seen.earliest)
    if not offenders:
        return {**_counts(budget, seen, rule), "requests": []}
    worst = sorted(offenders, key=lambda o: (-o.value, o.trace.pk))[:SHOWN]
    documents = _documents([offender.trace for offender in worst])
    return {
        **_counts(budget, seen, rule),
        "since": min(started for o in offenders if (started := o.trace.started_at)).isoformat(),
        "worst": worst[0].value,
        "typical": median_low(offender.value for offender in offenders),
        "segment": _segment(budget, offenders, seen.earliest),
        **_place(documents.get(worst[0].trace.pk), worst[0].span_id),
        "finding": _finding(budget.app, offenders, documents.values()),
        "requests": [_request(offender) for offender in worst],
    }


def _counts(budget: models.Budget, seen: Seen, rule: Rule) -> Facts:
    return {
        "limit": budget.limit,
        "objective": float(budget.objective),
        "judged": seen.window.judged,
        "over": seen.window.over,
        "window_ns": rule.window_ns,
    }


def _request(offender: Offender) -> Facts:
    trace = offender.trace
    return {
        "trace_id": trace.trace_id.hex,
        "name": trace.name,
        "started_at": trace.started_at.isoformat() if trace.started_at else None,
        "value": offender.value,
    }


def _offenders(budget: models.Budget, earliest: datetime) -> list[Offender]:
    traces = list(
        _requests(budget, earliest)
        .filter(breached__contains=[budget.metric])
        .order_by("-started_at")[:SAMPLE]
    )
    breaches = _rows_of(models.Breach, traces).filter(metric=budget.metric)
    values = {breach.trace_id: breach for breach in breaches}
    return [
        Offender(trace, values[trace.pk].value, values[trace.pk].span_id)
        for trace in traces
        if trace.pk in values
    ]


def _requests(budget: models.Budget, earliest: datetime) -> QuerySet[models.Trace]:
    return models.Trace.objects.filter(
        app=budget.app_id, started_at__gt=earliest, analyzed_at__gte=budget.updated_at
    )


def _rows_of(model: type[models.DayPartitioned], traces: Sequence[models.Trace]) -> QuerySet[Any]:
    """Their days tell Postgres which partitions to look into."""
    days = {trace.day for trace in traces}
    return model._default_manager.filter(day__in=days, trace__in=[trace.pk for trace in traces])


def _documents(traces: Sequence[models.Trace]) -> dict[int, Document]:
    rows = _rows_of(models.Analysis, traces)
    return {row.trace_id: orjson.loads(decompress(bytes(row.document))) for row in rows}


def _segment(budget: models.Budget, offenders: Sequence[Offender], earliest: datetime) -> Facts:
    """The segment that takes most more than in requests within; without such, that takes most."""
    within = _requests(budget, earliest).exclude(breached__contains=[budget.metric])
    usual = within.order_by("-started_at")[:SAMPLE].aggregate(**{t: Avg(t) for t in TIMES})
    mean = {time: _mean(getattr(o.trace, time) for o in offenders) for time in TIMES}
    time = max(TIMES, key=lambda t: mean[t] - (usual[t] or 0))
    return {
        "name": time.removesuffix("_ns"),
        "ns": mean[time],
        "usual_ns": None if usual[time] is None else int(usual[time]),
        "end_to_end_ns": _mean(o.trace.end_to_end_ns for o in offenders),
    }


def _mean(values: Any) -> int:
    known = [value or 0 for value in values]
    return sum(known) // len(known)


def _place(document: Document | None, span_id: str | None) -> Facts:
    """Turn and tool of the worst request: those of the offending step, else the longest ones."""
    if document is None:
        return {"turn": None, "tool": None}
    steps = document["steps"]
    offending = next((step for step in steps if step["span_id"] == span_id), None)
    tools = [step for step in steps if step["kind"] == "tool_call" and step["critical_ns"]]
    if offending is not None and offending["kind"] == "tool_call":
        tools = [offending]
    tool = max(tools, key=lambda step: step["critical_ns"], default=None)
    return {
        "turn": _turn(document, offending),
        "tool": tool and {"name": tool["name"], "duration_ns": tool["duration_ns"]},
    }


def _turn(document: Document, step: Document | None) -> Facts | None:
    turns = document["turns"]
    turn = turns[step["turn"]] if step is not None and step["turn"] is not None else None
    turn = turn or max(turns, key=lambda turn: turn["on_path_ns"], default=None)
    if turn is None:
        return None
    return {key: turn[key] for key in ("index", "agent", "duration_ns")}


def _finding(app: models.App, offenders: Sequence[Offender], documents: Any) -> Facts | None:
    """The finding that would give these requests the most time back, with its evidence in one of
    them; without such, the most frequent one. None that the team has answered.
    """
    rows = _rows_of(models.Finding, [offender.trace for offender in offenders])
    rows = rows.exclude(answers.answered(answers.standing([app])))
    counted = rows.filter(kind="performance").values("code")
    counted = counted.annotate(
        requests=Count("trace", distinct=True),
        mean=Avg("saving_ns"),
        total=Coalesce(Sum("saving_ns"), 0),
    )
    top = counted.order_by("-total", "-requests", "code").first()
    if top is None:
        return None
    found = [f for document in documents for f in document["findings"] if f["code"] == top["code"]]
    return {
        "code": top["code"],
        "requests": top["requests"],
        "saving_ns": None if top["mean"] is None else int(top["mean"]),
        "evidence": found[0]["evidence"] if found else {},
    }
