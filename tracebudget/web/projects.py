"""The projects of a reader, and new ones."""

from __future__ import annotations

from itertools import count
from typing import cast

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.text import slugify
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_safe

from tracebudget import models
from tracebudget.queries.projects import project_lines
from tracebudget.web.access import owns_any, projects_of
from tracebudget.web.settings_forms import ProjectForm

SLUG_CHARS = 40  # of the column's 50: room for a number behind it


@require_safe
def home_page(request: HttpRequest) -> HttpResponse:
    """A member of one project goes there at once."""
    projects = projects_of(request.user)
    return redirect("apps", projects[0].slug) if len(projects) == 1 else redirect("projects")


@require_http_methods(["GET", "HEAD", "POST"])
def projects_page(request: HttpRequest) -> HttpResponse:
    """Where do I belong, and where is something to look at? Owners make new ones here."""
    form = ProjectForm(request.POST or None, label_suffix="")
    may_make = owns_any(request.user)
    if request.method == "POST":
        if not may_make:
            raise PermissionDenied(gettext("Only owners of a project may make another."))
        if form.is_valid():
            return redirect("setup", _make(request, form.cleaned_data["name"]).slug)
    lines = project_lines(projects_of(request.user))
    context = {"lines": lines, "form": form, "may_make": may_make}
    return render(request, "home.html", context, status=400 if form.errors else 200)


@transaction.atomic
def _make(request: HttpRequest, name: str) -> models.Project:
    """With its maker as the owner."""
    project = models.Project.objects.create(name=name, slug=_free_slug(name))
    maker = cast(User, request.user)
    models.Membership.objects.create(project=project, user=maker, role=models.Role.OWNER)
    return project


def _free_slug(name: str) -> str:
    """Made of the name, with a number behind it where another project has that."""
    slug = slugify(name)[:SLUG_CHARS].strip("-") or "project"
    taken = set(models.Project.objects.filter(slug__startswith=slug).values_list("slug", flat=True))
    numbered = (f"{slug}-{number}" for number in count(2))
    return slug if slug not in taken else next(s for s in numbered if s not in taken)
