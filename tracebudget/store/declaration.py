"""What an app's owner declares: settings of its gateway, marks on its tools. Each change leaves a
line of history, and makes the latest requests due: the analysis reads what is declared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from tracebudget import models
from tracebudget.core.gateway import Gateway, written
from tracebudget.store.apps import Mark, gateway_in
from tracebudget.store.queue import judge_again

TOOL = "tool:"  # before a tool's name in a line of history
UNMARKED = Mark()
Changes = list[models.DeclarationChange]


@transaction.atomic
def save_gateway(app: models.App, gateway: Gateway, *, user: User | None, now: datetime) -> Changes:
    """Make these the app's settings, the only ones. The changes that this took, maybe none."""
    _lock(app)
    old = gateway_in(models.GatewaySettings.objects.filter(app=app).first()).settings()
    new = gateway.settings()
    models.GatewaySettings.objects.update_or_create(app=app, defaults={"settings": new})
    return _noted(app, _differences(old, new), user=user, now=now)


@transaction.atomic
def mark_tools(
    app: models.App, marks: Mapping[str, Mark], *, user: User | None, now: datetime
) -> Changes:
    """Mark these tools so; others stay as they are. The changes that this took, maybe none."""
    _lock(app)
    old = {row.tool: Mark(row.is_read_only, row.is_dependent) for row in _marked(app, marks)}
    for tool, mark in marks.items():
        if mark == UNMARKED:
            models.ToolMark.objects.filter(app=app, tool=tool).delete()
        else:
            models.ToolMark.objects.update_or_create(app=app, tool=tool, defaults=mark._asdict())
    said = [{TOOL + tool: _said(mark) for tool, mark in side.items()} for side in (old, marks)]
    return _noted(app, _differences(*said), user=user, now=now)


def _marked(app: models.App, tools: Mapping[str, Mark]) -> Iterator[models.ToolMark]:
    return models.ToolMark.objects.filter(app=app, tool__in=list(tools)).iterator()


def _said(mark: Mark) -> str | None:
    """A mark as history keeps it."""
    return " ".join(name.removeprefix("is_") for name, is_so in mark._asdict().items() if is_so)


def _lock(app: models.App) -> None:
    """Two editors at once: one after another."""
    models.App.objects.select_for_update(no_key=True).get(pk=app.pk)


def _differences(
    old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[tuple[str, str | None, str | None]]:
    for what in dict.fromkeys([*old, *new]):
        before, after = (_text(side.get(what)) for side in (old, new))
        if before != after:
            yield what, before, after


def _text(value: Any) -> str | None:
    """As the file writes it."""
    if value is None or value == "":
        return None
    return written(value)


def _noted(
    app: models.App,
    differences: Iterator[tuple[str, str | None, str | None]],
    *,
    user: User | None,
    now: datetime,
) -> Changes:
    changes = [
        models.DeclarationChange(
            app=app, what=what, old=old, new=new, changed_by=user, changed_at=now
        )
        for what, old, new in differences
    ]
    models.DeclarationChange.objects.bulk_create(changes)
    if changes:
        judge_again(app, now=now)
    return changes
