"""The release checklist of an app: what traces say of each item, and what people have ticked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import User

from tracebudget import models
from tracebudget.core import checklist
from tracebudget.core.checklist import State, Verdict
from tracebudget.queries.releases import Release, Sample
from tracebudget.release.facts import facts_of


@dataclass(frozen=True, slots=True)
class Item:
    """An item, what traces say of it, and the ticks: of this release, and the last of another."""

    name: str
    number: int
    verdict: Verdict
    tick: models.ChecklistTick | None = None
    earlier: models.ChecklistTick | None = None

    @property
    def state(self) -> State:
        """A tick counts only where traces cannot tell."""
        if self.verdict.state != State.UNKNOWN or self.tick is None:
            return self.verdict.state
        return State.DONE if self.tick.is_done else State.NOT_DONE

    @property
    def is_by_hand(self) -> bool:
        return self.verdict.state == State.UNKNOWN and self.tick is not None


@dataclass(frozen=True, slots=True)
class Checklist:
    release: Release
    requests: int
    items: Sequence[Item]

    def count(self, state: str) -> int:
        return sum(1 for item in self.items if item.state == state)


def checklist_of(release: Release, taken: Sample) -> Checklist:
    """Every item for a release. Twelve queries."""
    verdicts = checklist.check(facts_of(release, taken))
    ticks, earlier = _ticks(release)
    items = [
        Item(name, number, verdict, ticks.get(name), earlier.get(name))
        for number, (name, verdict) in enumerate(verdicts.items(), 1)
    ]
    return Checklist(release, len(taken.rows), items)


def tick(  # noqa: PLR0913  (a tick has as many sides)
    release: Release, item: str, *, is_done: bool, note: str, user: User | None, now: datetime
) -> models.ChecklistTick:
    """Say of an item whether it is done. It stands until the next tick."""
    return models.ChecklistTick.objects.create(
        app=release.app,
        release=release.version,
        item=item,
        is_done=is_done,
        note=note,
        ticked_by=user,
        ticked_at=now,
    )


def history(app: models.App) -> list[models.ChecklistTick]:
    """All ticks, the latest first. One query."""
    rows = models.ChecklistTick.objects.filter(app=app).select_related("ticked_by")
    return list(rows.order_by("-id"))


Ticks = dict[str, models.ChecklistTick]


def _ticks(release: Release) -> tuple[Ticks, Ticks]:
    """The standing tick of each item: of this release, and the last of another. One query."""
    mine: Ticks = {}
    others: Ticks = {}
    for row in history(release.app):
        (mine if row.release == release.version else others).setdefault(row.item, row)
    return mine, others
