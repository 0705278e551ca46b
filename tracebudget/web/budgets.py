"""Changing what an app promises: in one transaction, with a line of history for each change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from django.contrib.auth.models import User
from django.db import transaction
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from tracebudget import models
from tracebudget.core.budget import METRICS
from tracebudget.queries.observed import Observations
from tracebudget.queries.rollups import Percentiles
from tracebudget.store import judge_again
from tracebudget.templatetags.duration import count, duration
from tracebudget.wording import metric_name

MS, SECOND = 10**6, 10**9

DEFAULT_OBJECTIVE = Decimal(95)


class Limit(NamedTuple):
    """A promise: `limit` in the metric's unit, kept by `objective` percent of requests."""

    limit: int
    objective: Decimal = DEFAULT_OBJECTIVE


@dataclass(frozen=True, slots=True)
class Template:
    """Limits to begin with, and where they come from."""

    name: str | Promise
    source: str | Promise
    limits: Mapping[str, Limit]


TEMPLATES: dict[str, Template] = {
    "interactive": Template(
        _("Interactive"),
        _(
            "Somebody waits. TTFT, time per token, tools and framework are the upper ends of the"
            " usual ranges for agent loops (50–300 ms, 15–60 ms a token, 50 ms–2 s, 5–50 ms a"
            " turn, up to 5 turns); turn and total are what is left of a conversation's patience."
        ),
        {
            "end_to_end": Limit(3 * SECOND),
            "turn": Limit(900 * MS),
            "ttft": Limit(300 * MS),
            "tpot": Limit(60 * MS),
            "tool": Limit(2 * SECOND),
            "framework": Limit(250 * MS),
            "turns": Limit(5),
        },
    ),
    "batch": Template(
        _("Batch"),
        _(
            "Nobody waits. Loose limits of our own that tell a stuck run from a slow one, with an"
            " objective that lets one request in ten miss them."
        ),
        {
            "end_to_end": Limit(10 * 60 * SECOND, Decimal(90)),
            "tool": Limit(5 * 60 * SECOND, Decimal(90)),
            "framework": Limit(30 * SECOND, Decimal(90)),
            "turns": Limit(30, Decimal(90)),
        },
    ),
}


MIN_SUGGESTED_FROM = 20  # values: below, a p95 is but the slowest one
MIN_COVERAGE = 0.5  # of requests that tell a metric: below, the rest may be quite different


def suggest(seen: Observations) -> dict[str, Limit]:
    """Limits that nearly all of the observed requests keep: their p95, rounded up."""
    return {
        metric: Limit(round_up(seen.metrics[metric].values.p95 or 1))
        for metric in METRICS
        if metric in seen.metrics and _is_enough(seen.metrics[metric].values)
    }


def _is_enough(values: Percentiles) -> bool:
    return values.count >= MIN_SUGGESTED_FROM and values.count >= MIN_COVERAGE * values.total


def round_up(value: int) -> int:
    """To two digits, as people write limits: 4_431 -> 4_500."""
    step: int = 10 ** max(0, len(str(value)) - 2)
    return -(-value // step) * step


def doubts(limits: Mapping[str, Limit]) -> list[str]:
    """Promises that do not go together."""
    said: list[str] = []
    total = limits.get("end_to_end")
    if total is None:
        return said
    if "turn" in limits and "turns" in limits:
        turns, each = limits["turns"].limit, limits["turn"].limit
        if turns * each > total.limit:
            words = gettext(
                "%(turns)s turns of %(turn)s take %(sum)s: more than the %(total)s of the whole"
                " request."
            )
            said.append(
                words
                % {
                    "turns": count(turns),
                    "turn": duration(each),
                    "sum": duration(turns * each),
                    "total": duration(total.limit),
                }
            )
    said += [_looser(metric, limits[metric], total) for metric in PARTS if metric in limits]
    return [doubt for doubt in said if doubt]


# What lies within a request, and can take no longer than it.
PARTS = ("turn", "ttft", "first_visible", "tool", "framework")


def _looser(metric: str, part: Limit, whole: Limit) -> str:
    if part.limit <= whole.limit:
        return ""
    words = gettext("“%(metric)s” may take %(part)s, longer than the whole request: %(whole)s.")
    names = {"metric": metric_name(metric), "part": duration(part.limit)}
    return words % (names | {"whole": duration(whole.limit)})


@transaction.atomic
def save_budgets(
    app: models.App, wanted: Mapping[str, Limit], *, user: User, now: datetime
) -> list[models.BudgetChange]:
    """Make `wanted` the app's budgets, the only ones. The changes that this took, maybe none."""
    models.App.objects.select_for_update().get(pk=app.pk)  # two editors at once: one after another
    present = {budget.metric: budget for budget in models.Budget.objects.filter(app=app)}
    changes = list(_changes(app, present, wanted, user))
    for change in changes:
        _apply(change)
    models.BudgetChange.objects.bulk_create(changes)
    if changes:
        judge_again(app, now=now)
    return changes


def _changes(
    app: models.App,
    present: Mapping[str, models.Budget],
    wanted: Mapping[str, Limit],
    user: User,
) -> Iterable[models.BudgetChange]:
    for metric in sorted({*present, *wanted}):
        old, new = present.get(metric), wanted.get(metric)
        if old is not None and new is not None and (old.limit, old.objective) == new:
            continue
        yield models.BudgetChange(
            app=app,
            metric=metric,
            old_limit=old.limit if old is not None else None,
            old_objective=old.objective if old is not None else None,
            new_limit=new.limit if new is not None else None,
            new_objective=new.objective if new is not None else None,
            changed_by=user,
        )


def _apply(change: models.BudgetChange) -> None:
    if change.new_limit is None or change.new_objective is None:
        models.Budget.objects.filter(app=change.app, metric=change.metric).delete()
    else:
        models.Budget.objects.update_or_create(
            app=change.app,
            metric=change.metric,
            defaults={"limit": change.new_limit, "objective": change.new_objective},
        )
