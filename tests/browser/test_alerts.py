"""Channels as a person sets them up, in a browser whose scripts are off."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.running import RunningUp

pytestmark = pytest.mark.browser
WIDTHS = (1280, 390)


@pytest.fixture
def page(product: RunningUp, browser: Browser) -> Page:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(product.manage("sign_in_link").stdout.strip())
    return page


def test_webhook_is_added_tested_and_its_refusal_told(product: RunningUp, page: Page) -> None:
    page.goto(f"{product.url}/p/default/alerts/channels/")
    form = page.locator("form", has=page.locator("input[value=webhook]"))
    form.get_by_label("name").fill("metadata")
    form.get_by_label("address").fill("http://169.254.169.254/latest/meta-data")
    form.get_by_role("button", name="Add").click()
    expect(page.locator(".secret")).to_contain_text("whsec_")
    page.get_by_role("link", name="I have copied it").click()
    page.get_by_role("button", name="Send a test").click()
    expect(page.get_by_role("status")).to_contain_text("A test is on its way.")
    for _ in range(50):
        if page.get_by_text("that is no public address").count():
            break
        page.wait_for_timeout(200)
        page.reload()
    expect(page.get_by_text("that is no public address")).to_be_visible()
    page.get_by_role("button", name="Remove the channel").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Who is told, and how?")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("path", ["alerts/", "alerts/channels/", "status/"])
def test_pages_fit_the_screen(product: RunningUp, page: Page, width: int, path: str) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{product.url}/p/default/{path}")
    assert page.locator("html").evaluate("html => html.scrollWidth") <= width
