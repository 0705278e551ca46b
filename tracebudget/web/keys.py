"""Keys of a project: what exporters send with, and what programs read with."""

from __future__ import annotations

from collections.abc import Mapping

from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from tracebudget import keys, models
from tracebudget.web.access import is_owner, project_for, require_owner
from tracebudget.web.audit import Change, note
from tracebudget.web.settings_forms import IngestKeyForm, KeyForm
from tracebudget.web.setup import doors

CHANGED = {"ingest": models.Changed.INGEST_KEY, "api": models.Changed.API_TOKEN}
KINDS: Mapping[str, type[models.IngestKey] | type[models.ApiToken]] = {
    "ingest": models.IngestKey,
    "api": models.ApiToken,
}


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def keys_page(request: HttpRequest, project: str) -> HttpResponse:
    """Who may send, and who may read?"""
    mine = project_for(request.user, project)
    posted = request.POST.get("kind")
    forms: dict[str, KeyForm] = {
        "ingest": _form(IngestKeyForm, "ingest", request),
        "api": _form(KeyForm, "api", request),
    }
    if request.method == "POST":
        require_owner(request.user, mine)
        if posted in forms and forms[posted].is_valid():
            return _create(request, mine, posted, forms[posted])
    context = {
        "project": mine,
        "is_owner": is_owner(request.user, mine),
        "ingest_keys": _keys(mine, models.IngestKey),
        "api_tokens": _keys(mine, models.ApiToken),
        "forms": forms,
        "server_limit": settings.MAX_SPANS_PER_SECOND,
    }
    status = 400 if request.method == "POST" else 200
    return render(request, "settings/keys.html", context, status=status)


def _form(form: type[KeyForm], kind: str, request: HttpRequest) -> KeyForm:
    data = request.POST if request.POST.get("kind") == kind else None
    return form(data, prefix=kind, label_suffix="")


def _keys(
    project: models.Project, kind: type[models.IngestKey] | type[models.ApiToken]
) -> list[models.Key]:
    """Live ones first, the newest on top."""
    found: list[models.Key] = list(kind._default_manager.filter(project=project).order_by("-pk"))
    return sorted(found, key=lambda key: key.revoked_at is not None)


@transaction.atomic
def _create(
    request: HttpRequest, project: models.Project, kind: str, form: KeyForm
) -> HttpResponse:
    """The secret is in the answer itself, so that it is kept nowhere."""
    name = form.cleaned_data["name"]
    if kind == "api":
        token, secret = keys.create_key(project, name, models.ApiToken)
        prefix = token.prefix
    else:
        row, secret = keys.create_key(project, name, models.IngestKey)
        row.max_spans_per_second = form.cleaned_data["max_spans_per_second"]
        row.save(update_fields=["max_spans_per_second"])
        prefix = row.prefix
    change = Change(CHANGED[kind], None, prefix, name)
    note(request, project, change, now=timezone.now())
    context = {"project": project, "name": name, "kind": kind, "secret": secret}
    return render(request, "settings/key_made.html", context | {"doors": doors(request)})


@require_POST
def revoke_key(request: HttpRequest, project: str, kind: str, key: int) -> HttpResponse:
    """From now on it opens nothing."""
    mine = project_for(request.user, project)
    require_owner(request.user, mine)
    if kind not in KINDS:
        raise Http404(f"no kind of key {kind!r}")
    _revoke(request, mine, kind, key)
    keys.forget_all()
    said = gettext("The key is revoked: within %(seconds)s seconds nothing accepts it any more.")
    messages.success(request, said % {"seconds": settings.KEY_CACHE_SECONDS})
    return redirect("keys", mine.slug)


@transaction.atomic
def _revoke(request: HttpRequest, project: models.Project, kind: str, key: int) -> None:
    live = KINDS[kind]._default_manager.filter(project=project, pk=key, revoked_at=None)
    row = live.select_for_update().first()
    if row is None:
        raise Http404(f"no live key {key} in this project")
    row.revoked_at = timezone.now()
    row.save(update_fields=["revoked_at"])
    change = Change(CHANGED[kind], row.prefix, None, row.name)
    note(request, project, change, now=row.revoked_at)
