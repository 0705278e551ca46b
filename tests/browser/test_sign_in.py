"""The way in, as a person takes it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.running import RunningUp

pytestmark = pytest.mark.browser


def test_used_link_says_so_and_leads_to_the_password_form(
    product: RunningUp, browser: Browser
) -> None:
    link = product.manage("sign_in_link").stdout.strip()
    first = browser.new_context().new_page()
    first.goto(link)
    assert first.url == f"{product.url}/p/default/"

    second = browser.new_context().new_page()
    second.goto(link)
    expect(second.get_by_role("heading")).to_have_text("This link is used up")
    second.get_by_role("link", name="Sign in with a password").click()
    second.get_by_label("Username").fill("owner")
    second.get_by_label("Password").fill("wrong")
    second.get_by_role("button", name="Sign in").click()
    expect(second.get_by_text("Please enter a correct username and password")).to_be_visible()
