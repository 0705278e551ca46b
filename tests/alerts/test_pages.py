"""Pages of alerts: who may see and change what, what they cost, what they say."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from tests.alerts.traffic import MINUTE, NOW, Traffic, promise
from tracebudget import models
from tracebudget.alerts import channel as channels
from tracebudget.alerts import vault
from tracebudget.alerts.dispatch import deliver_due
from tracebudget.alerts.watch import check_budgets

pytestmark = pytest.mark.django_db
HOOK = "https://hooks.example/T0KEN"


@pytest.fixture
def owner(project: models.Project) -> User:
    return _person(project, "owner", models.Role.OWNER)


@pytest.fixture
def member(project: models.Project) -> User:
    return _person(project, "member", models.Role.MEMBER)


def _person(project: models.Project, name: str, role: models.Role) -> User:
    user = User.objects.create_user(name)
    models.Membership.objects.create(project=project, user=user, role=role)
    return user


@pytest.fixture
def signed_in(client: Client, owner: User) -> Client:
    client.force_login(owner)
    return client


@pytest.fixture
def hook(project: models.Project) -> models.Channel:
    return channels.create_webhook(project, "ops", HOOK, app=None)[0]


@pytest.fixture
def alert(app: models.App, traffic: Traffic, hook: models.Channel) -> models.Alert:
    """An alert that fires, and whose message could not be delivered."""
    promise(app)
    traffic.arrive("ooooxxx", last_at=NOW)
    check_budgets(now=NOW)
    deliver_due(lambda: NOW)
    return models.Alert.objects.get()


def addresses(alert: models.Alert, hook: models.Channel) -> dict[str, str]:
    return {
        "list": "/p/shop/alerts/",
        "alert": f"/p/shop/alerts/{alert.pk}/",
        "rule": "/p/shop/apps/shop/alerts/",
        "channels": "/p/shop/alerts/channels/",
        "channel": f"/p/shop/alerts/channels/{hook.pk}/",
    }


# --- who may --------------------------------------------------------------------------------------


def test_stranger_finds_nothing(client: Client, alert: models.Alert, hook: models.Channel) -> None:
    client.force_login(User.objects.create_user("stranger"))
    for address in addresses(alert, hook).values():
        assert client.get(address).status_code == 404
        assert client.post(address, {"kind": "email"}).status_code in {404, 405}
    assert client.post(f"/p/shop/alerts/channels/{hook.pk}/remove/").status_code == 404


def test_neighbour_finds_nothing_of_another_project(
    signed_in: Client, alert: models.Alert, hook: models.Channel, owner: User
) -> None:
    other = models.Project.objects.create(slug="other", name="Other")
    models.Membership.objects.create(project=other, user=owner, role=models.Role.OWNER)
    assert signed_in.get(f"/p/other/alerts/{alert.pk}/").status_code == 404
    assert signed_in.get(f"/p/other/alerts/channels/{hook.pk}/").status_code == 404
    assert signed_in.post(f"/p/other/alerts/channels/{hook.pk}/remove/").status_code == 404
    hook.refresh_from_db()
    assert hook.removed_at is None


def test_member_sees_and_changes_nothing(
    client: Client, alert: models.Alert, hook: models.Channel, member: User
) -> None:
    client.force_login(member)
    pages = addresses(alert, hook)
    for address in pages.values():
        assert client.get(address).status_code == 200
    assert client.post(pages["rule"], RULE).status_code == 403
    assert client.post(pages["channels"], MAIL).status_code == 403
    assert client.post("/p/shop/alerts/silences/", SILENCE).status_code == 403
    for action in ("test", "switch", "secret", "address", "remove"):
        assert client.post(f"{pages['channel']}{action}/").status_code == 403
    assert "<form" not in _main(client.get(pages["channel"]).content.decode())


def test_forms_need_their_token(owner: User, hook: models.Channel) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(owner)
    assert strict.post(f"/p/shop/alerts/channels/{hook.pk}/remove/").status_code == 403


def _main(page: str) -> str:
    return page[page.index("<main") : page.index("</main>")]


# --- what they cost -------------------------------------------------------------------------------

QUERIES = {
    "list": 11,
    "alert": 7,
    "rule": 10,
    "channels": 7,
    "channel": 7,
}  # session and user in it


@pytest.mark.parametrize("page", QUERIES)
def test_number_of_queries_is_fixed(
    signed_in: Client,
    alert: models.Alert,
    hook: models.Channel,
    page: str,
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    address = addresses(alert, hook)[page]
    with django_assert_num_queries(QUERIES[page]):
        signed_in.get(address)
    _more_of_everything(alert, hook)
    with django_assert_num_queries(QUERIES[page]):
        signed_in.get(address)


def _more_of_everything(alert: models.Alert, hook: models.Channel) -> None:
    assert alert.app is not None
    promise(alert.app, "tool", 10)
    promise(alert.app, "turn", 10)
    for number in range(3):
        channels.create_email(alert.project, f"mail {number}", "a@shop.example", app=alert.app)
    check_budgets(now=NOW + MINUTE)
    deliver_due(lambda: NOW + MINUTE)


# --- what they say --------------------------------------------------------------------------------


def text_of(client: Client, address: str) -> str:
    page = _main(client.get(address).content.decode())
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_list_says_what_fires_and_who_was_not_told(signed_in: Client, alert: models.Alert) -> None:
    said = text_of(signed_in, "/p/shop/alerts/")
    assert "shop : end-to-end firing" in said
    assert "3 of 7" in said
    assert "The name hooks.example has no address" in said


def test_failed_channel_is_said_on_top(
    signed_in: Client, alert: models.Alert, hook: models.Channel
) -> None:
    models.Delivery.objects.update(state="failed", next_try_at=None)
    assert "The channel “ops” did not take its last message." in text_of(
        signed_in, "/p/shop/alerts/"
    )


def test_alert_tells_what_its_message_told(signed_in: Client, alert: models.Alert) -> None:
    said = text_of(signed_in, f"/p/shop/alerts/{alert.pk}/")
    for told in (
        "shop breaks its promise: end-to-end over 2 s",
        "3 of 7 requests of the last 1 h over 2 s",
        "tool: 4 s of 4.3 s on average; 500 ms in requests within",
        "turn 0 of support",
        "search_order, 3 s",
        "It would save 1 s on average in 3 requests.",
    ):
        assert told in said


def test_rule_is_said_in_words_and_tried_on_last_week(
    signed_in: Client, app: models.App, traffic: Traffic, monkeypatch: pytest.MonkeyPatch
) -> None:
    promise(app)
    traffic.arrive("xxx" + "o" * 40, last_at=NOW)
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW + MINUTE)
    said = text_of(signed_in, "/p/shop/apps/shop/alerts/")
    assert "at least 3 of the last 20 judged requests are over the limit" in said
    assert "missed in the last 1 h" in said
    assert "end-to-end 2 s · 95 % 43 3 2026-01-01 11:20:00 · 28 min" in said


RULE = {"is_on": "on", "over": 4, "of_last": 10, "window_minutes": 30, "recovery_minutes": 5}


def test_rule_is_saved(signed_in: Client, app: models.App) -> None:
    assert signed_in.post("/p/shop/apps/shop/alerts/", RULE).status_code == 302
    rule = models.AlertRule.objects.get(app=app)
    assert (rule.is_on, rule.over, rule.of_last) == (True, 4, 10)


@pytest.mark.parametrize("wrong", [{"over": 11}, {"over": 0}, {"window_minutes": "x"}])
def test_rule_that_makes_no_sense_is_refused(
    signed_in: Client, app: models.App, wrong: dict[str, Any]
) -> None:
    assert signed_in.post("/p/shop/apps/shop/alerts/", RULE | wrong).status_code == 400
    assert not models.AlertRule.objects.exists()


SILENCE = {"app": "", "hours": "4", "reason": "we move"}


def test_owner_silences_and_ends_it(signed_in: Client, project: models.Project) -> None:
    signed_in.post("/p/shop/alerts/silences/", SILENCE | {"reason": ""})
    assert not models.Silence.objects.exists()
    signed_in.post("/p/shop/alerts/silences/", SILENCE)
    silence = models.Silence.objects.get()
    assert "all apps we move owner" in text_of(signed_in, "/p/shop/alerts/")
    signed_in.post(f"/p/shop/alerts/silences/{silence.pk}/end/")
    assert "we move" not in text_of(signed_in, "/p/shop/alerts/")


def test_silence_of_another_project_cannot_be_ended(signed_in: Client, owner: User) -> None:
    other = models.Project.objects.create(slug="other", name="Other")
    theirs = models.Silence.objects.create(project=other, reason="x", until=NOW)
    assert signed_in.post(f"/p/shop/alerts/silences/{theirs.pk}/end/").status_code == 404


# --- channels -------------------------------------------------------------------------------------

MAIL = {"kind": "email", "email-name": "mail", "email-app": "", "email-address": "a@shop.example"}
WEB = {"kind": "webhook", "webhook-name": "hook", "webhook-app": "", "webhook-address": HOOK}


def test_secret_is_shown_once_and_the_address_never(signed_in: Client, owner: User) -> None:
    answer = signed_in.post("/p/shop/alerts/channels/", WEB)
    channel = models.Channel.objects.get()
    secret = vault.unseal(channel)["secret"]
    assert secret in answer.content.decode()
    assert "no-store" in answer.headers["Cache-Control"]
    for address in ("/p/shop/alerts/channels/", f"/p/shop/alerts/channels/{channel.pk}/"):
        page = signed_in.get(address).content.decode()
        assert secret not in page
        assert "T0KEN" not in page
        assert "hooks.example" in page


def test_mail_needs_a_mail_server(signed_in: Client, settings: Settings) -> None:
    answer = signed_in.post("/p/shop/alerts/channels/", MAIL)
    assert answer.status_code == 400
    assert "TRACEBUDGET_SMTP_HOST" in answer.content.decode()
    settings.EMAIL_HOST = "mail.example"
    assert signed_in.post("/p/shop/alerts/channels/", MAIL).status_code == 302
    assert models.Channel.objects.get().destination == "a@shop.example"


@pytest.mark.parametrize(
    "address",
    ["", "hooks.example", "ftp://hooks.example", "https://", "https://u:p@hooks.example/",
     "javascript:alert(1)"],
)  # fmt: skip
def test_address_that_is_none_is_refused(signed_in: Client, address: str) -> None:
    answer = signed_in.post("/p/shop/alerts/channels/", WEB | {"webhook-address": address})
    assert answer.status_code == 400
    assert not models.Channel.objects.exists()


def test_channel_of_another_projects_app_is_refused(signed_in: Client) -> None:
    other = models.Project.objects.create(slug="other", name="Other")
    models.App.objects.create(project=other, name="theirs", slug="theirs")
    answer = signed_in.post("/p/shop/alerts/channels/", WEB | {"webhook-app": "theirs"})
    assert answer.status_code == 400


def test_owner_tests_switches_moves_and_removes(signed_in: Client, hook: models.Channel) -> None:
    at = f"/p/shop/alerts/channels/{hook.pk}/"
    signed_in.post(f"{at}test/")
    signed_in.post(f"{at}test/")  # too soon after the first
    assert models.Delivery.objects.filter(channel=hook, event=None).count() == 1
    signed_in.post(f"{at}switch/")
    signed_in.post(f"{at}address/", {"address": "https://new.example/OTHER"})
    secret = vault.unseal(hook)["secret"]
    hook.refresh_from_db()
    assert (hook.is_on, hook.destination) == (False, "new.example")
    assert vault.unseal(hook) == {"url": "https://new.example/OTHER", "secret": secret}
    assert signed_in.post(f"{at}remove/").status_code == 302
    assert signed_in.get(at).status_code == 404


def test_new_secret_is_shown_once_and_the_old_signs_along(
    signed_in: Client, hook: models.Channel
) -> None:
    old = vault.unseal(hook)["secret"]
    answer = signed_in.post(f"/p/shop/alerts/channels/{hook.pk}/secret/")
    hook.refresh_from_db()
    config = vault.unseal(hook)
    assert config["secret"] in answer.content.decode()
    assert config["secret_before"] == old


def test_mail_has_no_secret(signed_in: Client, project: models.Project) -> None:
    mail = channels.create_email(project, "mail", "a@shop.example", app=None)
    assert signed_in.post(f"/p/shop/alerts/channels/{mail.pk}/secret/").status_code == 404
    assert signed_in.post(f"/p/shop/alerts/channels/{mail.pk}/dance/").status_code == 404
