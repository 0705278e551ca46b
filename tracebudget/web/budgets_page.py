"""The page of an app's budgets: what did we promise, and could we keep it?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, cast

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_http_methods, require_safe

from tracebudget import models
from tracebudget.budget_file import ALL_APPS, BudgetFileError, read_budgets, write_budgets
from tracebudget.core.budget import METRICS, TOOL_CALL, Budget
from tracebudget.queries.observed import Observations, observe
from tracebudget.queries.traces import names
from tracebudget.templatetags.duration import count, exact
from tracebudget.web.access import app_for, is_owner, project_for, require_owner
from tracebudget.web.budgets import TEMPLATES, Limit, doubts, save_budgets, suggest
from tracebudget.web.forms import BudgetFormSet, BudgetRow, limits_of

MAX_CHANGES = 100  # of a budget's history; what was promised before that interests an audit only
MAX_FILE_CHARS = 100_000  # of a pasted file: 200 budgets take a tenth of it
OBSERVED = "observed"  # the template that is made of what was observed
PREFIX = "budgets"


@dataclass(frozen=True, slots=True)
class Draft:
    """What stands in the form, and why: `source` is said above it while it is not saved.

    `pasted` is a file that could not be read, `fault` says why.
    """

    rows: forms.BaseFormSet[BudgetRow]
    limits: Mapping[str, Limit] = field(default_factory=dict)
    source: str = ""
    pasted: str = ""
    fault: str = ""

    @property
    def is_faulty(self) -> bool:
        return bool(self.fault) or (self.rows.is_bound and not self.rows.is_valid())


@require_http_methods(["GET", "HEAD", "POST"])
def budgets_page(request: HttpRequest, project: str, app: str) -> HttpResponse:
    """What did we promise?"""
    mine = project_for(request.user, project)
    its = app_for(mine, app)
    now = timezone.now()
    if request.method != "POST":
        return _show(request, its, _begun(request.GET.get("template", ""), its, now), now)
    require_owner(request.user, mine)
    if request.POST.get("do") == "read":
        return _show(request, its, _pasted(request.POST.get("file", ""), its), now)
    rows = BudgetFormSet(request.POST, prefix=PREFIX)
    limits = limits_of(rows) if rows.is_valid() else {}
    if request.POST.get("do") == "try" or not rows.is_valid():
        return _show(request, its, Draft(rows, limits), now)
    return _save(request, its, limits, now)


def _begun(template: str, app: models.App, now: datetime) -> Draft:
    """What is promised, or what a template would promise."""
    if template == OBSERVED:
        seen = observe(app, {}, now=now)
        words = gettext(
            "The p95 of the latest %(n)s requests of the last 7 days, rounded up; without metrics"
            " that fewer than half of them tell. A promise is what users need, though, not what"
            " they get."
        )
        return _filled(app, suggest(seen), words % {"n": count(seen.requests)})
    if template in TEMPLATES:
        chosen = TEMPLATES[template]
        return _filled(app, chosen.limits, f"{chosen.name}: {chosen.source}")
    return _filled(app, _present(app))


def _present(app: models.App) -> dict[str, Limit]:
    budgets = models.Budget.objects.filter(app=app)
    return {budget.metric: Limit(budget.limit, budget.objective) for budget in budgets}


def _filled(app: models.App, limits: Mapping[str, Limit], source: str = "") -> Draft:
    """A form with these limits. It has a row for every metric and for every tool that was seen."""
    tools = [f"{TOOL_CALL}{name}" for name in names(app.project, app).tools]
    metrics = dict.fromkeys([*METRICS, *sorted({*limits, *tools} - set(METRICS))])
    initial = [_row(metric, limits.get(metric)) for metric in metrics]
    return Draft(BudgetFormSet(prefix=PREFIX, initial=initial), limits, source)


def _row(metric: str, limit: Limit | None) -> dict[str, Any]:
    if limit is None:
        return {"metric": metric}
    return {"metric": metric, "limit": exact(limit.limit, metric), "objective": limit.objective}


def _pasted(text: str, app: models.App) -> Draft:
    """A form with the limits of a file, to look at before they are saved."""
    try:
        budgets = _of_app(text[:MAX_FILE_CHARS], app)
    except BudgetFileError as error:
        draft = _filled(app, _present(app))
        return Draft(draft.rows, draft.limits, pasted=text[:MAX_FILE_CHARS], fault=str(error))
    limits = {b.metric: Limit(b.limit, Decimal(str(b.objective))) for b in budgets}
    return _filled(app, limits, gettext("From the file that you pasted."))


def _of_app(text: str, app: models.App) -> tuple[Budget, ...]:
    """As `analyze --budgets` does it: those for all apps and those of this one."""
    file = read_budgets(text)
    budgets = file.get(ALL_APPS, ()) + file.get(app.name, ())
    if not budgets:
        others = ", ".join(file) or "—"
        raise BudgetFileError(
            gettext("The file has budgets of %(others)s, and none of %(app)s.")
            % {"others": others, "app": app.name}
        )
    return budgets


def _show(request: HttpRequest, app: models.App, draft: Draft, now: datetime) -> HttpResponse:
    seen = observe(app, {m: limit.limit for m, limit in draft.limits.items()}, now=now)
    lines = [_line(row, seen) for row in draft.rows]
    tools = [line for line in lines if line["metric"] not in METRICS]
    changes = models.BudgetChange.objects.filter(app=app).select_related("changed_by")
    context = {
        "project": app.project,
        "app": app,
        "draft": draft,
        "rows": draft.rows,
        "lines": [line for line in lines if line["metric"] in METRICS],
        "tools": tools,
        "tools_open": any(line["form"]["limit"].value() for line in tools),
        "doubts": doubts(draft.limits),
        "requests": seen.requests,
        "templates": TEMPLATES,
        "is_owner": is_owner(request.user, app.project),
        "judged_again": settings.JUDGE_AGAIN_REQUESTS,
        "changes": changes.order_by("-changed_at", "metric")[:MAX_CHANGES],
    }
    return render(request, "budgets/edit.html", context, status=400 if draft.is_faulty else 200)


def _line(form: BudgetRow, seen: Observations) -> dict[str, Any]:
    """A metric's fields, beside what was observed of it."""
    metric = str(form["metric"].value())
    objective = form["objective"].value() or 0
    return {
        "form": form,
        "metric": metric,
        "seen": seen.of(metric),
        "would_miss": seen.would_miss(metric, float(objective)) if not form.errors else False,
    }


def _save(
    request: HttpRequest, app: models.App, limits: dict[str, Limit], now: datetime
) -> HttpResponse:
    changes = save_budgets(app, limits, user=cast(User, request.user), now=now)
    said = ngettext("%(n)s budget changed.", "%(n)s budgets changed.", len(changes))
    messages.success(
        request, said % {"n": len(changes)} if changes else gettext("Nothing changed.")
    )
    return redirect("budgets", app.project.slug, app.slug)


@require_safe
def budgets_file(request: HttpRequest, project: str, app: str) -> HttpResponse:
    """The budgets as a file, which `manage.py analyze --budgets` and this page read."""
    its = app_for(project_for(request.user, project), app)
    limits = _present(its)
    order = [*METRICS, *sorted(set(limits) - set(METRICS))]
    budgets = [
        Budget(metric, limits[metric].limit, float(limits[metric].objective))
        for metric in order
        if metric in limits
    ]
    headers = {"Content-Disposition": f'attachment; filename="{its.slug}-budgets.yaml"'}
    text = write_budgets({its.name: budgets})
    return HttpResponse(text, content_type="text/yaml; charset=utf-8", headers=headers)
