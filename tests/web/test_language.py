"""Pages in English and Chinese: as the browser asks, until somebody chooses."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.test import Client

pytestmark = pytest.mark.django_db
CHINESE = {"Accept-Language": "zh-CN,zh;q=0.9,en;q=0.5"}


def choose(client: Client, language: str, to: str = "/sign-in/") -> str:
    """Where the choice leads."""
    answer = client.post("/language/", {"language": language, "next": to})
    assert answer.status_code == 302
    return answer.headers["Location"]


def test_a_page_speaks_as_the_browser_asks(client: Client) -> None:
    assert "Sign in" in client.get("/sign-in/").content.decode()
    page = client.get("/sign-in/", headers=CHINESE).content.decode()
    assert '<html lang="zh-hans">' in page
    assert "登录" in page


def test_a_choice_is_kept_in_a_cookie(client: Client) -> None:
    assert choose(client, "zh-hans") == "/sign-in/"
    cookie = client.cookies[settings.LANGUAGE_COOKIE_NAME]
    assert (cookie.value, cookie["httponly"], cookie["samesite"]) == ("zh-hans", True, "Lax")
    assert "登录" in client.get("/sign-in/").content.decode()


def test_a_choice_beats_the_browser(client: Client) -> None:
    choose(client, "en")
    assert "Sign in" in client.get("/sign-in/", headers=CHINESE).content.decode()


def test_a_choice_leads_nowhere_else(client: Client) -> None:
    assert choose(client, "en", "https://elsewhere.example/") == "/"


def test_a_page_offers_the_other_language_by_its_own_name(client: Client) -> None:
    page = client.get("/sign-in/").content.decode()
    assert 'value="zh-hans" lang="zh-hans">简体中文</button>' in page
    assert 'value="en"' not in page
