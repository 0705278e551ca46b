"""Sign-in links: once, for an hour, for active users. And nothing is open by accident."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from tracebudget.models import SignInLink
from tracebudget.sign_in import create_sign_in_url, redeem

pytestmark = pytest.mark.django_db
NOW = timezone.now()


@pytest.fixture
def owner() -> User:
    return User.objects.create_user("owner")


def token_for(user: User) -> str:
    return create_sign_in_url(user, now=NOW).rstrip("/").rpartition("/")[2]


def test_link_signs_in_once(owner: User) -> None:
    token = token_for(owner)
    assert redeem(token, now=NOW) == owner
    assert redeem(token, now=NOW) is None


def test_link_expires(owner: User) -> None:
    token = token_for(owner)
    assert redeem(token, now=NOW + settings.SIGN_IN_LINK_TTL + timedelta(seconds=1)) is None


def test_inactive_user_stays_out(owner: User) -> None:
    token = token_for(owner)
    User.objects.update(is_active=False)
    assert redeem(token, now=NOW) is None


def test_unknown_link_signs_nobody_in(client: Client) -> None:
    assert client.get("/sign-in/made-up/").status_code == 410


def test_token_is_not_stored(owner: User) -> None:
    token = token_for(owner)
    assert token not in str(SignInLink.objects.values())


def test_pages_say_their_policy(client: Client) -> None:
    headers = client.get("/sign-in/").headers
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "same-origin"


def test_sign_out_needs_a_post(client: Client, owner: User) -> None:
    client.force_login(owner)
    assert client.get("/sign-out/").status_code == 405
    assert client.post("/sign-out/").status_code == 302


def test_form_without_its_token_is_refused() -> None:
    strict = Client(enforce_csrf_checks=True)
    assert strict.post("/sign-in/", {"username": "owner", "password": "x"}).status_code == 403


def test_stranger_is_asked_to_sign_in_at_every_other_page(client: Client) -> None:
    """What is open to strangers is a list, and this is it."""
    open_views = {
        "healthz",
        "readyz",
        "metrics",
        r"^v1/traces/?$",
        r"^v1/logs/?$",
        r"^v1/metrics/?$",
        "sign-in/",
        "sign-in/<str:token>/",
        "language/",
        "api/v1/projects/<slug:project>/requests",  # these ask for a token themselves
        "api/v1/projects/<slug:project>/requests/<trace_id:trace_id>",
        "api/v1/projects/<slug:project>/apps/<slug:app>/gate",
    }
    assert {
        route
        for route, view in routes(get_resolver().url_patterns)
        if not getattr(view, "login_required", True)
    } == open_views


def routes(
    patterns: Iterable[URLPattern | URLResolver], prefix: str = ""
) -> Iterator[tuple[str, Callable[..., object]]]:
    """Every address with its view, included ones too."""
    for entry in patterns:
        route = f"{prefix}{entry.pattern}"
        if isinstance(entry, URLResolver):
            yield from routes(entry.url_patterns, route)
        else:
            yield route, entry.callback
