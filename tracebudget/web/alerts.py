"""Pages of alerts: what is firing, who was told, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from tracebudget import models
from tracebudget.alerts import channel as channels
from tracebudget.alerts import telling, words
from tracebudget.alerts.rule import rule_of
from tracebudget.core.alerting import DEFAULT_RULE
from tracebudget.queries import alerts as queries
from tracebudget.web.access import app_for, is_owner, project_for, require_owner
from tracebudget.web.alert_forms import (
    AddressForm,
    ChannelForm,
    RuleForm,
    SilenceForm,
    initial_rule,
)


@require_safe
def alerts_page(request: HttpRequest, project: str) -> HttpResponse:
    """What is firing, who was told?"""
    mine = project_for(request.user, project)
    text = request.GET.get("before", "")
    before = int(text) if text.isascii() and text.isdigit() else None
    closed = queries.closed(mine, before=before)
    more = closed[queries.PAGE_SIZE - 1].pk if len(closed) > queries.PAGE_SIZE else None
    context = {
        "project": mine,
        "firing": queries.firing(mine),
        "closed": closed[: queries.PAGE_SIZE],
        "before": before,
        "more": more,
        "channels": queries.channels(mine),
        "silences": queries.silences(mine, now=timezone.now()),
        "silence_form": SilenceForm(mine),
        "is_owner": is_owner(request.user, mine),
        "deliveries": queries.deliveries(mine),
    }
    return render(request, "alerts/list.html", context)


@require_POST
def silence(request: HttpRequest, project: str) -> HttpResponse:
    """Tell nobody for a while."""
    mine = project_for(request.user, project)
    require_owner(request.user, mine)
    form = SilenceForm(mine, request.POST)
    if form.is_valid():
        models.Silence.objects.create(
            project=mine,
            app=form.cleaned_data["app"],
            reason=form.cleaned_data["reason"],
            created_by=cast(User, request.user),
            until=timezone.now() + timedelta(hours=form.cleaned_data["hours"]),
        )
    else:
        messages.error(request, gettext("A silence needs a reason, for those who wonder."))
    return redirect(reverse("alerts", args=[mine.slug]) + "#silences")


@require_POST
def end_silence(request: HttpRequest, project: str, silence: int) -> HttpResponse:
    """Tell again, and what was held at once."""
    mine = project_for(request.user, project)
    require_owner(request.user, mine)
    found = models.Silence.objects.filter(project=mine, pk=silence).first()
    if found is None:
        raise Http404(f"no silence {silence} in this project")
    telling.end_silence(found, now=timezone.now())
    return redirect(reverse("alerts", args=[mine.slug]) + "#silences")


@require_safe
def alert_page(request: HttpRequest, project: str, alert: int) -> HttpResponse:
    """What broke, since when, where, and what would help?"""
    mine = project_for(request.user, project)
    found = queries.find(mine, alert)
    if found is None:
        raise Http404(f"no alert {alert} in this project")
    history = list(found.events.all())
    # What it told when it last broke: a recovery has less to say.
    broken = [event for event in history if "worst" in event.facts]
    event = broken[-1] if broken else history[0]
    context = {
        "project": mine,
        "alert": found,
        "headline": words.headline(found, "opened"),
        "lines": words.lines(event),
        "advice": words.advice(event.facts),
        "requests": event.facts.get("requests", ()),
        "history": reversed(history),
    }
    return render(request, "alerts/detail.html", context)


# --- an app's rule --------------------------------------------------------------------------------


@require_http_methods(["GET", "HEAD", "POST"])
def app_alerts_page(request: HttpRequest, project: str, app: str) -> HttpResponse:
    """When does it fire, and what would it have done last week?"""
    mine = project_for(request.user, project)
    its = app_for(mine, app)
    form = RuleForm(initial=initial_rule(its), label_suffix="")
    if request.method == "POST":
        require_owner(request.user, mine)
        form = RuleForm(request.POST, label_suffix="")
        if form.is_valid():
            models.AlertRule.objects.update_or_create(app=its, defaults=form.cleaned_data)
            messages.success(request, gettext("The rule holds from the next look on."))
            return redirect("app_alerts", mine.slug, its.slug)
    rule = rule_of(its)
    context = {
        "project": mine,
        "app": its,
        "form": form,
        "is_owner": is_owner(request.user, mine),
        "is_watched": rule is not None,
        "rule_words": words.rule_words(rule or DEFAULT_RULE),
        "would_have": queries.last_week(its, rule or DEFAULT_RULE, now=timezone.now()),
        "alerts": queries.of_app(its),
    }
    return render(request, "alerts/app.html", context, status=400 if form.errors else 200)


# --- channels -------------------------------------------------------------------------------------


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def channels_page(request: HttpRequest, project: str) -> HttpResponse:
    """Who is told, and how?"""
    mine = project_for(request.user, project)
    kind = request.POST.get("kind", "")
    if request.method == "POST":
        require_owner(request.user, mine)
    forms = {
        each: ChannelForm(mine, each, request.POST if each == kind else None)
        for each in models.ChannelKind.values
    }
    if kind in forms and forms[kind].is_valid():
        return _create_channel(request, mine, forms[kind])
    context = {
        "project": mine,
        "channels": queries.channels(mine),
        "forms": forms.values(),
        "is_owner": is_owner(request.user, mine),
    }
    status = 400 if request.method == "POST" else 200
    return render(request, "alerts/channels.html", context, status=status)


def _create_channel(
    request: HttpRequest, project: models.Project, form: ChannelForm
) -> HttpResponse:
    data = form.cleaned_data
    if form.kind == models.ChannelKind.EMAIL:
        made = channels.create_email(project, data["name"], data["address"], app=data["app"])
        messages.success(request, gettext("The channel is there. Send a test, to be sure."))
        return redirect("channel", project.slug, made.pk)
    made, secret = channels.create_webhook(project, data["name"], data["address"], app=data["app"])
    return _show_secret(request, made, secret)


def _show_secret(request: HttpRequest, channel: models.Channel, secret: str) -> HttpResponse:
    """In the answer itself, so that it is kept nowhere: not in a session, not in an address."""
    context = {"project": channel.project, "channel": channel, "secret": secret}
    return render(request, "alerts/secret.html", context)


@require_safe
def channel_page(request: HttpRequest, project: str, channel: int) -> HttpResponse:
    """Does it work?"""
    mine = project_for(request.user, project)
    its = _channel_for(mine, channel)
    context = _channel_context(request, its, AddressForm(its.kind))
    return render(request, "alerts/channel.html", context)


def _channel_context(
    request: HttpRequest, channel: models.Channel, form: AddressForm
) -> dict[str, Any]:
    return {
        "project": channel.project,
        "channel": channel,
        "form": form,
        "is_owner": is_owner(request.user, channel.project),
        "deliveries": queries.deliveries(channel.project, channel),
    }


def _channel_for(project: models.Project, pk: int) -> models.Channel:
    """Raises Http404 for a channel of another project, a removed one, or none."""
    mine = models.Channel.objects.filter(project=project, removed_at=None, pk=pk)
    channel = mine.select_related("app", "project").first()
    if channel is None:
        raise Http404(f"no channel {pk} in this project")
    return channel


@require_POST
@never_cache
def change_channel(request: HttpRequest, project: str, channel: int, action: str) -> HttpResponse:
    """What an owner may do with a channel: see CHANGES."""
    mine = project_for(request.user, project)
    its = _channel_for(mine, channel)
    require_owner(request.user, mine)
    if action not in CHANGES:
        raise Http404(f"nothing called {action!r} can be done with a channel")
    return CHANGES[action](request, its) or redirect("channel", mine.slug, its.pk)


def _test(request: HttpRequest, channel: models.Channel) -> None:
    try:
        channels.send_test(channel, now=timezone.now())
        messages.success(request, gettext("A test is on its way. Its log is below."))
    except channels.TooSoonError:
        messages.error(
            request, gettext("The last test is too young. Wait half a minute, then try again.")
        )


def _switch(request: HttpRequest, channel: models.Channel) -> None:
    channel.is_on = not channel.is_on
    channel.save(update_fields=["is_on"])


def _change_secret(request: HttpRequest, channel: models.Channel) -> HttpResponse:
    if channel.kind != models.ChannelKind.WEBHOOK:
        raise Http404("only webhooks have a secret")
    return _show_secret(request, channel, channels.change_secret(channel, now=timezone.now()))


def _change_address(request: HttpRequest, channel: models.Channel) -> HttpResponse | None:
    form = AddressForm(channel.kind, request.POST)
    if not form.is_valid():
        context = _channel_context(request, channel, form)
        return render(request, "alerts/channel.html", context, status=400)
    channels.change_address(channel, form.cleaned_data["address"])
    messages.success(request, gettext("Messages go to the new address from now on."))
    return None


def _remove(request: HttpRequest, channel: models.Channel) -> HttpResponse:
    channels.remove(channel, now=timezone.now())
    messages.success(request, gettext("The channel is removed, and its address forgotten."))
    return redirect("channels", channel.project.slug)


CHANGES: Mapping[str, Callable[[HttpRequest, models.Channel], HttpResponse | None]] = {
    "test": _test,
    "switch": _switch,
    "secret": _change_secret,
    "address": _change_address,
    "remove": _remove,
}
