"""Pages of settings: what is stored of what comes in, what came, and how long it stays."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_safe

from tracebudget import models, store
from tracebudget.queries.disk import disk_forecast
from tracebudget.queries.receipts import latest_receipts, names_in
from tracebudget.queries.traces import pinned, pinned_count
from tracebudget.web.access import is_owner, project_for, require_owner
from tracebudget.web.audit import Change, note
from tracebudget.web.settings_forms import PrivacyForm


@require_http_methods(["GET", "HEAD", "POST"])
def privacy_page(request: HttpRequest, project: str) -> HttpResponse:
    """What is stored of what we send?"""
    mine = project_for(request.user, project)
    if request.method == "POST":
        require_owner(request.user, mine)
        return _save_privacy(request, mine)
    context = {
        "project": mine,
        "is_owner": is_owner(request.user, mine),
        "delay": settings.KEY_CACHE_SECONDS,
        "max_chars": settings.MAX_VALUE_CHARS,
    }
    return render(request, "settings/privacy.html", context)


def _save_privacy(request: HttpRequest, project: models.Project) -> HttpResponse:
    form = PrivacyForm(request.POST)
    if not form.is_valid():
        messages.error(request, gettext("There is no such mode. Choose one of the three."))
    elif form.cleaned_data["privacy"] == project.privacy:
        messages.info(request, gettext("Nothing changed."))
    else:
        _change_privacy(request, project, form.cleaned_data["privacy"])
        said = gettext("Saved. It holds for what arrives from now on; what is stored stays.")
        messages.success(request, said)
    return redirect("privacy", project.slug)


@transaction.atomic
def _change_privacy(request: HttpRequest, project: models.Project, privacy: str) -> None:
    change = Change(models.Changed.PRIVACY, project.privacy, privacy)
    project.privacy = privacy
    project.save(update_fields=["privacy"])
    note(request, project, change, now=timezone.now())


@require_safe
def received_page(request: HttpRequest, project: str) -> HttpResponse:
    """What was received, kept and dropped?"""
    mine = project_for(request.user, project)
    receipts = latest_receipts(mine)
    context = {"project": mine, "receipts": receipts, "names": names_in(receipts)}
    return render(request, "settings/received.html", context)


@require_safe
def retention_page(request: HttpRequest, project: str) -> HttpResponse:
    """How long does it stay, and when is the disk full?"""
    mine = project_for(request.user, project)
    now = timezone.now()
    context: dict[str, Any] = {
        "project": mine,
        "days": settings.RETENTION_DAYS,
        "disk": disk_forecast(now=now),
        "pinned": pinned(mine),
        "pinned_count": pinned_count(mine),
    }
    try:
        context["next_run"] = store.prune(now=now, dry_run=True)
    except store.PruneError as error:
        context["in_the_way"] = str(error)
    return render(request, "settings/retention.html", context)
