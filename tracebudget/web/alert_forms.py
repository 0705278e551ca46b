"""What people fill in about alerts: channels and rules."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from tracebudget import models
from tracebudget.alerts.channel import can_mail
from tracebudget.core.alerting import DEFAULT_RULE, MINUTE_NS

MAX_URL_CHARS = 2_000
DAY_MINUTES = 24 * 60


def check_webhook_url(url: str) -> None:
    """What can be said without looking the name up; the address is checked at each call."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValidationError(_("Write an address that begins with https://."), code="no_url")
    if parts.username or parts.password:
        raise ValidationError(
            _("Leave user and password out: calls are signed instead."), code="user"
        )


def check_mail_server(address: str) -> None:
    if not can_mail():
        raise ValidationError(
            _("No mail server is set: the operator names it in TRACEBUDGET_SMTP_HOST."),
            code="no_server",
        )


def _email_field() -> forms.EmailField:
    return forms.EmailField(label=_("address"), max_length=254, validators=[check_mail_server])


def _url_field() -> forms.CharField:
    return forms.CharField(
        label=_("address"), max_length=MAX_URL_CHARS, validators=[check_webhook_url]
    )


def _app_field() -> forms.ModelChoiceField[models.App]:
    return forms.ModelChoiceField(
        models.App.objects.none(),
        label=_("alerts of"),
        required=False,
        empty_label=_("all apps"),
        to_field_name="slug",
    )


def _offer_apps(form: forms.Form, project: models.Project) -> None:
    field = form.fields["app"]
    assert isinstance(field, forms.ModelChoiceField)
    field.queryset = models.App.objects.filter(project=project).order_by("name")


class ChannelForm(forms.Form):
    """A new channel: its name, which app's alerts it hears, and where it goes."""

    name = forms.CharField(label=_("name"), max_length=100)
    app = _app_field()
    address = forms.CharField()

    def __init__(self, project: models.Project, kind: str, data: Any = None) -> None:
        super().__init__(data, auto_id=f"{kind}-%s", prefix=kind, label_suffix="")
        self.kind = kind
        self.fields["address"] = address_field(kind)
        _offer_apps(self, project)


class AddressForm(forms.Form):
    """A channel's new address. The old one is not shown."""

    address = forms.CharField()

    def __init__(self, kind: str, data: Any = None) -> None:
        super().__init__(data, label_suffix="")
        self.fields["address"] = address_field(kind)


def address_field(kind: str) -> forms.CharField:
    return _email_field() if kind == models.ChannelKind.EMAIL else _url_field()


class SilenceForm(forms.Form):
    """A time in which nobody is told."""

    app = _app_field()
    hours = forms.TypedChoiceField(
        label=_("for"),
        coerce=int,
        choices=[(1, _("an hour")), (4, _("4 hours")), (24, _("a day")), (168, _("a week"))],
    )
    reason = forms.CharField(label=_("because"), max_length=200)

    def __init__(self, project: models.Project, data: Any = None) -> None:
        super().__init__(data, auto_id="silence-%s", label_suffix="")
        _offer_apps(self, project)


def _whole(label: Any, largest: int) -> forms.IntegerField:
    return forms.IntegerField(label=label, min_value=1, max_value=largest)


class RuleForm(forms.Form):
    """When an app's alerts open and close."""

    is_on = forms.BooleanField(label=_("watch this app"), required=False)
    over = _whole(_("requests over"), 1_000)
    of_last = _whole(_("of the last"), 1_000)
    window_minutes = _whole(_("objective missed in the last … minutes"), DAY_MINUTES)
    recovery_minutes = _whole(_("closes after … minutes within"), DAY_MINUTES)

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        if data.get("over", 0) > data.get("of_last", 0) > 0:
            self.add_error("over", _("This is more than the requests that are looked at."))
        return data


def initial_rule(app: models.App) -> dict[str, Any]:
    """The app's rule as the form has it, or the default one."""
    row = models.AlertRule.objects.filter(app=app).first()
    if row is not None:
        return {name: getattr(row, name) for name in RuleForm.base_fields}
    return {
        "is_on": True,
        "over": DEFAULT_RULE.over,
        "of_last": DEFAULT_RULE.of_last,
        "window_minutes": DEFAULT_RULE.window_ns // MINUTE_NS,
        "recovery_minutes": DEFAULT_RULE.recovery_ns // MINUTE_NS,
    }
