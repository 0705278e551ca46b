"""The gate over rows: a release against a baseline that was frozen, and against the budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import User

from tracebudget import models
from tracebudget.core import gate
from tracebudget.core.baseline import Figures, figures_in
from tracebudget.core.gate import TOLERANCE, Check, MoreOften, Outcome
from tracebudget.queries import releases
from tracebudget.queries.releases import Release, Sample

NO_BASELINE = Check("baseline", "", "", Outcome.UNKNOWN, "no_baseline")
FIRST = Check("baseline", "", "", Outcome.NEW, "first")


class TooFewError(Exception):
    """A release has too few whole requests for a baseline: nothing could be compared with it."""

    def __init__(self, requests: int) -> None:
        super().__init__(f"{requests} whole requests are too few to tell a p95")
        self.requests = requests


@dataclass(frozen=True, slots=True)
class Rules:
    """How strict the gate is, and whether what passes becomes a baseline."""

    tolerance: float = TOLERANCE
    unknown_passes: bool = False
    freezes: bool = False


USUAL_RULES = Rules()


@dataclass(frozen=True, slots=True)
class Judged:
    """What the gate says of a release. `grown` is no reason to fail; it says where to look."""

    release: Release
    rules: Rules
    figures: Figures
    left_out: int
    baseline: models.Baseline | None
    checks: Sequence[Check]
    grown: Sequence[MoreOften]
    is_passed: bool


def judge(
    release: Release,
    taken: Sample,
    baseline: models.Baseline | None,
    *,
    rules: Rules,
) -> Judged:
    """Hold a release against its baseline and the budgets. Four queries.

    Without a baseline the release cannot be judged, unless it is to become the first.
    """
    now = releases.figures(release.app, taken)
    checks = [gate.judge(kept) for kept in releases.kept(release.app, taken)]
    grown: list[MoreOften] = []
    if baseline is None:
        checks.append(FIRST if rules.freezes else NO_BASELINE)
    else:
        before = figures_in(baseline.figures)
        checks += gate.compare(before, now, tolerance=rules.tolerance)
        grown = gate.more_often(before, now)
    return Judged(
        release,
        rules,
        now,
        taken.left_out,
        baseline,
        checks,
        grown,
        gate.passes(checks, unknown_passes=rules.unknown_passes),
    )


def freeze(release: Release, taken: Sample, *, user: User | None, now: datetime) -> models.Baseline:
    """Keep the figures of a release as they are. Raises TooFewError."""
    figures = releases.figures(release.app, taken)
    if not figures.tells:
        raise TooFewError(len(taken.rows))
    return models.Baseline.objects.create(
        app=release.app,
        release=release.version,
        environment=release.environment,
        figures=figures.document(),
        since=taken.since,
        until=taken.until,
        frozen_by=user,
        frozen_at=now,
    )
