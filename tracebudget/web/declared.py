"""Declared settings of an app, the nature of its tools, and what traces say of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_http_methods, require_POST

from tracebudget import models, store
from tracebudget.core.declaration import Example, Observed
from tracebudget.core.gateway import written
from tracebudget.queries import traces as trace_queries
from tracebudget.queries.apps import Scope
from tracebudget.release import words
from tracebudget.release.declaration import Consequence, compare
from tracebudget.release.gateway_file import (
    MAX_CHARS,
    GatewayFileError,
    Problem,
    read_gateway,
    write_gateway,
)
from tracebudget.store import Mark, gateway_of, marks_of
from tracebudget.web.access import app_for, is_owner, project_for, require_owner
from tracebudget.web.forms import MAX_TEXT, ScopeForm

MAX_CHANGES = 100  # of the history shown
MAX_TOOLS = 200  # an agent with more tools cannot choose among them


@dataclass(frozen=True, slots=True)
class Line:
    """A declared setting as the page shows it."""

    path: str
    text: str
    value: str
    state: str
    said: str
    examples: Sequence[Example]


@require_http_methods(["GET", "HEAD", "POST"])
def declared_page(request: HttpRequest, project: str, app: str) -> HttpResponse:
    """What is declared, and is it so?"""
    mine = project_for(request.user, project)
    its = app_for(mine, app)
    text, problems = write_gateway(gateway_of(its)), []
    if request.method == "POST":
        require_owner(request.user, mine)
        text = request.POST.get("settings", "")[: MAX_CHARS + 1]
        try:
            return _save(request, its, text)
        except GatewayFileError as error:
            problems = error.problems
    return _show(request, its, text=text, problems=problems)


def _save(request: HttpRequest, app: models.App, text: str) -> HttpResponse:
    changes = store.save_gateway(
        app, read_gateway(text), user=cast(User, request.user), now=timezone.now()
    )
    messages.success(request, _changed(len(changes)))
    return redirect("declared", app.project.slug, app.slug)


def _changed(number: int) -> str:
    if not number:
        return gettext("Nothing changed.")
    said = ngettext("%(n)s declaration changed.", "%(n)s declarations changed.", number)
    return said % {"n": number}


@require_POST
def mark_tools(request: HttpRequest, project: str, app: str) -> HttpResponse:
    """Say which tools only read, and which need the one before them."""
    mine = project_for(request.user, project)
    its = app_for(mine, app)
    require_owner(request.user, mine)
    rows = MarkFormSet(request.POST, prefix="tools")
    if rows.is_valid():
        changes = store.mark_tools(
            its, marks_in(rows), user=cast(User, request.user), now=timezone.now()
        )
        messages.success(request, _changed(len(changes)))
    else:
        messages.error(request, gettext("Nothing was saved: the form was not whole."))
    return redirect("declared", mine.slug, its.slug)


class MarkRow(forms.Form):
    """One tool and its nature."""

    tool = forms.CharField(max_length=MAX_TEXT, strip=False, widget=forms.HiddenInput)
    is_read_only = forms.BooleanField(required=False)
    is_dependent = forms.BooleanField(required=False)


MarkFormSet = forms.formset_factory(MarkRow, extra=0, max_num=MAX_TOOLS, validate_max=True)


def marks_in(rows: forms.BaseFormSet[MarkRow]) -> dict[str, Mark]:
    """What valid rows say."""
    return {
        row["tool"]: Mark(row["is_read_only"], row["is_dependent"])
        for row in (form.cleaned_data for form in rows.forms)
    }


def _show(
    request: HttpRequest, app: models.App, *, text: str, problems: Sequence[Problem]
) -> HttpResponse:
    form = ScopeForm(request.GET)
    scope = form.scope(app.project, app, now=timezone.now())
    comparison = compare(scope)
    context = {
        "project": app.project,
        "app": app,
        "form": form,
        "scope": scope,
        "names": trace_queries.names(app.project, app),
        "comparison": comparison,
        "lines": [_line(observed) for observed in comparison.observed],
        "consequences": [_consequence(item) for item in comparison.consequences],
        "text": text,
        "problems": problems,
        "marks": MarkFormSet(prefix="tools", initial=_mark_rows(app)),
        "repeats": _repeats(scope),
        "is_owner": is_owner(request.user, app.project),
        "changes": _changes(app),
    }
    return render(request, "declared/page.html", context, status=400 if problems else 200)


def _line(observed: Observed) -> Line:
    return Line(
        words.setting_path(observed.setting),
        str(words.SETTING_TEXTS[observed.setting]),
        written(observed.declared),
        observed.state,
        words.observed_words(observed),
        observed.examples,
    )


def _consequence(item: Consequence) -> tuple[str, str]:
    """What may happen, and why that is too much, or ""."""
    said = {"worst_ns": item.worst_ns, "limit_ns": item.limit_ns}
    over = words.fill(words.CONSEQUENCES_OVER[item.code], said) if item.is_over else ""
    return words.fill(words.CONSEQUENCES[item.code], said), over


def _mark_rows(app: models.App) -> list[dict[str, Any]]:
    marks = marks_of(app)
    seen = trace_queries.names(app.project, app).tools
    tools = sorted({*seen, *marks})[:MAX_TOOLS]
    return [{"tool": tool, **marks.get(tool, Mark())._asdict()} for tool in tools]


def _repeats(scope: Scope) -> dict[str, int]:
    """In how many requests each tool was asked again with equal arguments."""
    rows = scope.rows(models.Finding).filter(code="repeated_tool_call").order_by()
    counted = rows.values("subject").annotate(requests=Count("trace", distinct=True))
    return {row["subject"]: row["requests"] for row in counted}


def _changes(app: models.App) -> list[models.DeclarationChange]:
    rows = models.DeclarationChange.objects.filter(app=app).select_related("changed_by")
    return list(rows.order_by("-changed_at", "what")[:MAX_CHANGES])
