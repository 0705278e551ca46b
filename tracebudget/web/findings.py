"""Findings of an app, and what the team says to them."""

from __future__ import annotations

from typing import cast

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST, require_safe

from tracebudget import answers
from tracebudget.finding_words import ALL
from tracebudget.models import Verdict
from tracebudget.queries import findings as finding_queries
from tracebudget.queries import traces as trace_queries
from tracebudget.release.words import VERDICTS
from tracebudget.web.access import app_for, project_for
from tracebudget.web.forms import MAX_TEXT, ScopeForm

MAX_NOTE = 2_000
MAX_HISTORY = 100


@require_safe
def findings_page(request: HttpRequest, project: str, app: str) -> HttpResponse:
    """What was found, and what have we said to it?"""
    mine = project_for(request.user, project)
    its = app_for(mine, app)
    form = ScopeForm(request.GET)
    scope = form.scope(mine, its, now=timezone.now())
    context = {
        "project": mine,
        "app": its,
        "form": form,
        "scope": scope,
        "names": trace_queries.names(mine, its),
        "found": finding_queries.found(scope),
        "history": answers.history(its)[:MAX_HISTORY],
    }
    return render(request, "findings/list.html", context)


class AnswerForm(forms.Form):
    """What the team says to a finding, and why."""

    code = forms.CharField(max_length=MAX_TEXT)
    subject = forms.CharField(max_length=MAX_TEXT, required=False, strip=False)
    verdict = forms.ChoiceField(choices=list(VERDICTS.items()))
    note = forms.CharField(
        max_length=MAX_NOTE,
        error_messages={"required": _("Write a note, for those who wonder.")},
    )

    def clean_code(self) -> str:
        code: str = self.cleaned_data["code"]
        if code not in ALL:
            raise forms.ValidationError(_("There is no such finding."), code="no_finding")
        return code

    def clean(self) -> dict[str, object]:
        data: dict[str, object] = super().clean() or {}
        if {"code", "verdict"} <= data.keys() and not answers.fits(
            Verdict(cast(str, data["verdict"])), cast(str, data["code"])
        ):
            self.add_error("verdict", gettext("That is no answer to this finding."))
        return data


@require_POST
def answer(request: HttpRequest, project: str, app: str) -> HttpResponse:
    """Answer a finding, or open it again."""
    mine = project_for(request.user, project)
    its = app_for(mine, app)
    form = AnswerForm(request.POST)
    if form.is_valid():
        data = form.cleaned_data
        answers.answer(
            its,
            data["code"],
            data["subject"],
            verdict=Verdict(data["verdict"]),
            note=data["note"],
            user=cast(User, request.user),
            now=timezone.now(),
        )
        messages.success(request, gettext("Your answer stands."))
    else:
        said = [str(error) for errors in form.errors.values() for error in errors]
        messages.error(request, " ".join([gettext("Nothing was saved."), *said]))
    place = "open" if request.POST.get("verdict") == Verdict.OPEN else "answered"
    return redirect(f"{reverse('findings', args=[mine.slug, its.slug])}?range=all#{place}")
