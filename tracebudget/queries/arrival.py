"""Has anything come yet, and if not, what is in the way? For the page that waits for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tracebudget import models


class Stage(StrEnum):
    """How far the first trace of a project has come, the furthest first."""

    ANALYZED = "analyzed"
    ARRIVED = "arrived"  # and waits for its analysis
    REFUSED = "refused"  # exports came, and none could be read
    IGNORED = "ignored"  # logs or metrics came, and no traces
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Arrival:
    """`latest` is the newest analysed request; `errors` say why exports were refused, and how often
    each; `ignored` are the signals that came and are not stored.
    """

    stage: Stage
    latest: models.Trace | None
    errors: list[tuple[str, int]]
    ignored: list[models.Signal]


def arrival(project: models.Project) -> Arrival:
    """Three queries, each by an index."""
    analyzed = models.Trace.objects.filter(project=project, started_at__isnull=False)
    latest = analyzed.select_related("app").order_by("-started_at", "-id").first()
    has_traces = models.Trace.objects.filter(project=project).exists()
    receipts = list(models.Receipt.objects.filter(project=project).order_by("-id"))
    errors = _errors(receipts)
    ignored = sorted({models.Signal(r.signal) for r in receipts} - {models.Signal.TRACES})
    stages = {
        Stage.ANALYZED: latest is not None,
        Stage.ARRIVED: has_traces,
        Stage.REFUSED: bool(errors),
        Stage.IGNORED: bool(ignored),
    }
    stage = next((stage for stage, is_reached in stages.items() if is_reached), Stage.NOTHING)
    return Arrival(stage, latest, errors.most_common(), ignored)


def _errors(receipts: Iterable[models.Receipt]) -> Counter[str]:
    """Exports refused whole, and spans refused one by one, by reason."""
    errors: Counter[str] = Counter()
    for receipt in receipts:
        errors.update(receipt.errors)
        errors.update(receipt.refused)
    return errors
