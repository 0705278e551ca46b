"""What the latest requests of an app say of the settings that its owner declares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tracebudget import models
from tracebudget.core.declaration import Observed, Request, observe
from tracebudget.core.gateway import MS, Gateway
from tracebudget.models import Level
from tracebudget.queries import samples
from tracebudget.queries.apps import NO_FIGURES, Scope
from tracebudget.queries.rollups import percentiles, read
from tracebudget.series import MODEL_TPOT
from tracebudget.store import declared_of, gateway_of


class Consequence(NamedTuple):
    """What a setting allows in the worst case, against what is promised. ns; None: not promised."""

    code: str
    worst_ns: int
    limit_ns: int | None

    @property
    def is_over(self) -> bool:
        return self.limit_ns is not None and self.worst_ns > self.limit_ns


@dataclass(frozen=True, slots=True)
class Comparison:
    """Settings against traces: what was seen in `requests` requests."""

    gateway: Gateway
    observed: list[Observed]
    requests: int
    consequences: list[Consequence]

    def count(self, state: str) -> int:
        return sum(1 for item in self.observed if item.state == state)


def compare(scope: Scope) -> Comparison:
    """Declared against observed, over the latest requests of the scope's app. Eight queries."""
    assert scope.app is not None
    gateway = gateway_of(scope.app)
    traces = samples.latest(scope) if gateway.settings() else []
    documents, spans = samples.documents(traces), samples.spans(traces)
    requests = [
        Request(document, tuple(spans.get(trace, ()))) for trace, document in documents.items()
    ]
    return Comparison(
        gateway,
        observe(gateway, requests, declared_of(scope.app)),
        len(requests),
        _consequences(scope, gateway),
    )


def _consequences(scope: Scope, gateway: Gateway) -> list[Consequence]:
    budgets = models.Budget.objects.filter(app=scope.app, metric__in=["tool", "end_to_end"])
    limits = {budget.metric: budget.limit for budget in budgets}
    found = []
    if gateway.timeout_ms is not None:
        tries = 1 + (gateway.retry or 0)
        worst = gateway.timeout_ms * MS * tries
        found.append(Consequence("worst_tool", worst, limits.get("tool")))
    tpot_ns = _usual_tpot_ns(scope) if gateway.max_tokens is not None else None
    if gateway.max_tokens is not None and tpot_ns is not None:
        worst = gateway.max_tokens * tpot_ns
        found.append(Consequence("worst_answer", worst, limits.get("end_to_end")))
    return found


def _usual_tpot_ns(scope: Scope) -> int | None:
    assert scope.app is not None
    figures = read(scope.rollups(Level.DAY).filter(metric=MODEL_TPOT))
    calls = figures.get(scope.app.pk, NO_FIGURES).all_of(MODEL_TPOT)
    return percentiles(calls).p50
