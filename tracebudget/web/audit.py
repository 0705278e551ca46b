"""The audit log of a project: every change that owners make on its pages of settings."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import cast

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from tracebudget import models
from tracebudget.web.access import project_for

SHOWN = 200  # changes of a project's settings are few


@dataclass(frozen=True, slots=True)
class Change:
    """From what to what; None: there was, or is, none."""

    what: models.Changed
    old: str | None
    new: str | None
    subject: str = ""


def note(request: HttpRequest, project: models.Project, change: Change, *, now: datetime) -> None:
    """Write a change down. In the transaction that makes it: neither is there without the other."""
    models.ProjectChange.objects.create(
        project=project,
        what=change.what,
        subject=change.subject,
        old=change.old,
        new=change.new,
        changed_by=cast(User, request.user),
        changed_at=now,
    )


@require_safe
def audit_page(request: HttpRequest, project: str) -> HttpResponse:
    """Who changed what?"""
    mine = project_for(request.user, project)
    changes = models.ProjectChange.objects.filter(project=mine).select_related("changed_by")
    context = {"project": mine, "changes": changes.order_by("-id")[:SHOWN], "shown": SHOWN}
    return render(request, "settings/audit.html", context)
