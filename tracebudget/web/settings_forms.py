"""What owners fill in on the pages of settings."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.utils.translation import gettext_lazy as _

from tracebudget import models

MAX_RATE = 10_000_000  # spans a second: above what any single machine takes


class KeyForm(forms.Form):
    """A key's name, by which its owner knows it again."""

    name = forms.CharField(label=_("what it is for"), max_length=100)


class IngestKeyForm(KeyForm):
    """Its limit is in spans a second; empty: the setting's, 0: none."""

    max_spans_per_second = forms.IntegerField(
        label=_("at most so many spans a second (empty: as the server is set)"),
        required=False,
        min_value=0,
        max_value=MAX_RATE,
    )


class MemberForm(forms.Form):
    """A user name, of somebody who is here already or not yet."""

    username = forms.CharField(
        label=_("user name"), max_length=150, validators=[User.username_validator]
    )
    role = forms.ChoiceField(
        label=_("role"), choices=models.Role.choices, initial=models.Role.MEMBER
    )

    def __init__(self, project: models.Project, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.label_suffix = ""
        self.project = project

    def clean_username(self) -> str:
        name: str = User.normalize_username(self.cleaned_data["username"])
        if models.Membership.objects.filter(project=self.project, user__username=name).exists():
            raise forms.ValidationError(_("%(name)s is a member already.") % {"name": name})
        return name


class RoleForm(forms.Form):
    role = forms.ChoiceField(label=_("role"), choices=models.Role.choices)


class ProjectForm(forms.Form):
    """A new project. Its address is made of its name."""

    name = forms.CharField(label=_("name"), max_length=100)


class PrivacyForm(forms.Form):
    privacy = forms.ChoiceField(choices=models.Privacy.choices)
