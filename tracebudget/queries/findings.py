"""Findings of an app over a window, one row for each thing to fix, answered ones apart."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count, F, Sum

from tracebudget import answers, models
from tracebudget.core.finding import DETECTORS
from tracebudget.queries.apps import Scope

Key = tuple[str, str]  # code, subject


@dataclass(frozen=True, slots=True)
class FoundRow:
    """A finding: in how many requests, what it cost together, and where it was worst."""

    code: str
    kind: str
    subject: str
    requests: int
    saving_ns: int | None
    worst: UUID | None
    answer: models.FindingAnswer | None

    @property
    def step(self) -> int | None:
        """Its place in the order of investigation; None for data quality."""
        return DETECTORS[self.code].step if self.code in DETECTORS else None


@dataclass(frozen=True, slots=True)
class Found:
    """`open` ones by the time they cost, data quality last; `answered` ones alike."""

    open: list[FoundRow]
    answered: list[FoundRow]


def found(scope: Scope) -> Found:
    """The findings of the scope's app. Three queries."""
    assert scope.app is not None
    standing = answers.standing([scope.app])
    worst = _worst(scope)
    grouped = scope.rows(models.Finding).order_by().values("code", "kind", "subject")
    rows = [
        FoundRow(
            row["code"],
            row["kind"],
            row["subject"],
            row["requests"],
            row["saving"],
            worst.get((row["code"], row["subject"])),
            standing.get((scope.app.pk, row["code"], row["subject"])),
        )
        for row in grouped.annotate(requests=Count("trace", distinct=True), saving=Sum("saving_ns"))
    ]
    rows.sort(key=lambda row: (row.kind != "performance", -(row.saving_ns or 0), -row.requests))
    return Found(
        [row for row in rows if row.answer is None],
        [row for row in rows if row.answer is not None],
    )


def _worst(scope: Scope) -> dict[Key, UUID]:
    """The request in which each finding cost the most."""
    rows = scope.rows(models.Finding).order_by(
        "code", "subject", F("saving_ns").desc(nulls_last=True), "-started_at"
    )
    worst = rows.distinct("code", "subject").values_list("code", "subject", "trace__trace_id")
    return {(code, subject): trace_id for code, subject, trace_id in worst}
