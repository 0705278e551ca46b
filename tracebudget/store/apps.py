"""What the core has to know of apps beside their spans: promises, declared settings, marks, and
what is usual in them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from django.db.models import Q

from tracebudget import models
from tracebudget.core.app import App
from tracebudget.core.budget import Budget
from tracebudget.core.declared import Declared
from tracebudget.core.gateway import NO_GATEWAY, Gateway, declared_by
from tracebudget.core.profile import Profile

KNOWN_SETTINGS = frozenset(field.name for field in fields(Gateway))


class Mark(NamedTuple):
    """The nature of a tool."""

    is_read_only: bool = False
    is_dependent: bool = False


def load_apps(project_ids: Iterable[int]) -> dict[int, dict[str, App]]:
    """What is known of the apps of some projects, by project and name. Three queries."""
    described = models.App.objects.filter(project__in=set(project_ids)).filter(
        Q(budgets__isnull=False)
        | Q(gateway__isnull=False)
        | Q(tool_marks__isnull=False)
        | Q(learned__profile__isnull=False)
    )
    related = described.distinct().select_related("gateway", "learned")
    apps: defaultdict[int, dict[str, App]] = defaultdict(dict)
    related = related.defer("learned__diagnosis")
    for app in related.prefetch_related("budgets", "tool_marks"):
        budgets = [Budget(b.metric, b.limit, float(b.objective)) for b in app.budgets.all()]
        apps[app.project_id][app.name] = App(tuple(budgets), declared_of(app), _profile_of(app))
    return apps


def _profile_of(app: models.App) -> Profile | None:
    learned: models.Learned | None = getattr(app, "learned", None)
    return None if learned is None or learned.profile is None else Profile.of(learned.profile)


def declared_of(app: models.App) -> Declared:
    """What detectors read of settings and marks. Two queries where the app came without them."""
    marks = marks_of(app)
    return declared_by(
        gateway_of(app),
        read_only=[tool for tool, mark in marks.items() if mark.is_read_only],
        dependent=[tool for tool, mark in marks.items() if mark.is_dependent],
    )


def gateway_of(app: models.App) -> Gateway:
    """The declared settings. One query where the app came without them."""
    return gateway_in(getattr(app, "gateway", None))


def gateway_in(row: models.GatewaySettings | None) -> Gateway:
    return NO_GATEWAY if row is None else Gateway(**_known(row.settings))


def _known(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Without what only a later version knows."""
    return {name: value for name, value in settings.items() if name in KNOWN_SETTINGS}


def marks_of(app: models.App) -> dict[str, Mark]:
    """The marked tools. One query where the app came without them."""
    return {row.tool: Mark(row.is_read_only, row.is_dependent) for row in app.tool_marks.all()}
