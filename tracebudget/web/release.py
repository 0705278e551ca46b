"""Is this release ready? Its checklist, the gate, and the baselines that were frozen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.text import slugify
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST, require_safe

from tracebudget import models
from tracebudget.core.checklist import ITEMS, State
from tracebudget.core.gate import Check, Outcome, worst_first
from tracebudget.queries import releases
from tracebudget.queries import traces as trace_queries
from tracebudget.queries.releases import Release, Sample, SeenRelease
from tracebudget.release import checklist, gate
from tracebudget.release.checklist import Checklist
from tracebudget.release.checklist_file import write_markdown
from tracebudget.release.gate import Judged
from tracebudget.web.access import app_for, is_owner, project_for, require_owner
from tracebudget.web.forms import MAX_TEXT

MAX_NOTE = 2_000
MAX_HISTORY = 100
NOTHING_TOLD = frozenset({Outcome.SAME, Outcome.NEW})


@dataclass(frozen=True, slots=True)
class Look:
    """What the page shows of a release; nothing where no request tells one."""

    app: models.App
    environment: str
    seen: Sequence[SeenRelease]
    baselines: Sequence[models.Baseline]
    release: Release | None = None
    baseline: models.Baseline | None = None  # compared with
    checklist: Checklist | None = None
    judged: Judged | None = None

    @property
    def is_among_seen(self) -> bool:
        """Whether it is one of the latest releases."""
        return any(self.release and self.release.version == seen.version for seen in self.seen)


def _look(app: models.App, query: QueryDict) -> Look:
    """The release that is asked for, or the newest. Raises Http404 for one that was never seen."""
    environment = query.get("environment", "")[:MAX_TEXT]
    seen = releases.releases(app, environment)
    frozen = releases.baselines(app)
    release = _asked_for(app, environment, query.get("release", "")[:MAX_TEXT], seen)
    if release is None:
        return Look(app, environment, seen, frozen)
    taken = releases.sample(release)
    baseline = _baseline(release, frozen, query.get("baseline", ""))
    return Look(
        app,
        environment,
        seen,
        frozen,
        release,
        baseline,
        checklist.checklist_of(release, taken),
        gate.judge(release, taken, baseline, rules=gate.USUAL_RULES),
    )


def _asked_for(
    app: models.App, environment: str, version: str, seen: Sequence[SeenRelease]
) -> Release | None:
    if version:
        release = releases.named(app, version, environment)
        if release is None:
            raise Http404(f"no release {version!r} of this app")
        return release
    return Release(app, seen[0].version, environment) if seen else None


def _baseline(
    release: Release, frozen: Sequence[models.Baseline], asked: str
) -> models.Baseline | None:
    named = next((baseline for baseline in frozen if str(baseline.pk) == asked), None)
    return named or releases.usual_baseline(release)


@require_safe
def release_page(request: HttpRequest, project: str, app: str) -> HttpResponse:
    mine = project_for(request.user, project)
    its = app_for(mine, app)
    look = _look(its, request.GET)
    context = {
        "project": mine,
        "app": its,
        "look": look,
        "counts": {state: look.checklist.count(state) for state in State if look.checklist},
        **_checks(look.judged),
        "names": trace_queries.names(mine, its),
        "is_owner": is_owner(request.user, mine),
        "ticks": checklist.history(its)[:MAX_HISTORY],
    }
    return render(request, "release/page.html", context)


def _checks(judged: Judged | None) -> dict[str, list[Check]]:
    """What tells something of the release, and what is as it was."""
    checks = [] if judged is None else worst_first(judged.checks)
    telling = [c for c in checks if c.kind == "budget" or c.outcome not in NOTHING_TOLD]
    return {"telling": telling, "others": [check for check in checks if check not in telling]}


@require_safe
def release_file(request: HttpRequest, project: str, app: str) -> HttpResponse:
    """The checklist as Markdown, to take away."""
    its = app_for(project_for(request.user, project), app)
    look = _look(its, request.GET)
    if look.checklist is None or look.release is None:
        raise Http404("no request of this app tells its release")
    text = write_markdown(look.checklist, look.judged, now=timezone.now())
    name = slugify(f"release-{its.slug}-{look.release.version}".replace(".", "-"))
    disposition = f'attachment; filename="{name}.md"'
    return HttpResponse(
        text,
        content_type="text/markdown; charset=utf-8",
        headers={"Content-Disposition": disposition},
    )


class ReleaseForm(forms.Form):
    """Which release a form is about."""

    release = forms.CharField(max_length=MAX_TEXT, strip=False)
    environment = forms.CharField(max_length=MAX_TEXT, strip=False, required=False)

    def place(self, app: models.App, anchor: str) -> str:
        """The page of the release that was sent, whole or not."""
        query = QueryDict(mutable=True)
        for name in ("release", "environment"):
            value = self.data.get(name, "")[:MAX_TEXT]
            if value and name in getattr(self, "cleaned_data", {}):
                query[name] = value
        address = reverse("release", args=[app.project.slug, app.slug])
        return f"{address}?{query.urlencode()}#{slugify(anchor)}"


class TickForm(ReleaseForm):
    """What somebody says of an item, and why."""

    item = forms.ChoiceField(choices=[(name, name) for name in ITEMS])
    is_done = forms.TypedChoiceField(
        choices=[("yes", _("done")), ("no", _("not done"))], coerce=lambda value: value == "yes"
    )
    note = forms.CharField(
        max_length=MAX_NOTE,
        error_messages={"required": _("Write a note: how do you know?")},
    )


@require_POST
def tick(request: HttpRequest, project: str, app: str) -> HttpResponse:
    """Say of an item that traces cannot tell whether it is done."""
    its = app_for(project_for(request.user, project), app)
    form = TickForm(request.POST)
    if form.is_valid():
        data = form.cleaned_data
        checklist.tick(
            Release(its, data["release"], data["environment"]),
            data["item"],
            is_done=data["is_done"],
            note=data["note"],
            user=cast(User, request.user),
            now=timezone.now(),
        )
        messages.success(request, gettext("Your tick stands."))
    else:
        _complain(request, form)
    return redirect(form.place(its, request.POST.get("item", "")))


@require_POST
def freeze(request: HttpRequest, project: str, app: str) -> HttpResponse:
    """Freeze the figures of a release. Owners only: it moves what later ones are measured by."""
    mine = project_for(request.user, project)
    its = app_for(mine, app)
    require_owner(request.user, mine)
    form = ReleaseForm(request.POST)
    if form.is_valid():
        release = Release(its, form.cleaned_data["release"], form.cleaned_data["environment"])
        _freeze(request, release, releases.sample(release))
    else:
        _complain(request, form)
    return redirect(form.place(its, "baselines"))


def _freeze(request: HttpRequest, release: Release, taken: Sample) -> None:
    try:
        gate.freeze(release, taken, user=cast(User, request.user), now=timezone.now())
    except gate.TooFewError as error:
        said = gettext("Nothing was frozen: %(n)s whole requests are too few to tell a p95.")
        messages.error(request, said % {"n": error.requests})
    else:
        said = gettext("Release %(release)s is frozen as a baseline.")
        messages.success(request, said % {"release": release.version})


def _complain(request: HttpRequest, form: forms.Form) -> None:
    said = [str(error) for errors in form.errors.values() for error in errors]
    messages.error(request, " ".join([gettext("Nothing was saved."), *said]))
