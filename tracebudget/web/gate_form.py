"""How the gate is asked by address: the same choices as on the command line."""

from __future__ import annotations

from typing import Any

from django import forms

from tracebudget import models
from tracebudget.core.gate import TOLERANCE
from tracebudget.queries import releases
from tracebudget.queries.releases import Release
from tracebudget.release import gate
from tracebudget.release.gate import Judged, Rules
from tracebudget.web.forms import MAX_TEXT

PERCENT = 100


class GateForm(forms.Form):
    """Which release, against which baseline, and how strictly. All may be left out."""

    release = forms.CharField(max_length=MAX_TEXT, required=False, strip=False)
    baseline = forms.CharField(max_length=MAX_TEXT, required=False, strip=False)
    environment = forms.CharField(max_length=MAX_TEXT, required=False, strip=False)
    tolerance = forms.FloatField(min_value=0, max_value=PERCENT, required=False)  # percent
    unknown = forms.ChoiceField(choices=[("fail", "fail"), ("pass", "pass")], required=False)

    def judged(self, app: models.App) -> Judged | None:
        """What the gate says; None for a release or a baseline that does not exist."""
        asked: dict[str, Any] = self.cleaned_data
        release = releases.named(app, asked["release"] or None, asked["environment"])
        if release is None:
            return None
        baseline = releases.usual_baseline(release)
        if asked["baseline"]:
            baseline = releases.baseline_of(Release(app, asked["baseline"], asked["environment"]))
            if baseline is None:
                return None
        return gate.judge(release, releases.sample(release), baseline, rules=self._rules())

    def _rules(self) -> Rules:
        tolerance = self.cleaned_data["tolerance"]
        return Rules(
            TOLERANCE if tolerance is None else tolerance / PERCENT,
            unknown_passes=self.cleaned_data["unknown"] == "pass",
        )
