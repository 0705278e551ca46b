"""Declared settings, answers and ticks as people give them: by keys, without scripts."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests import otlp
from tests.running import RunningUp

pytestmark = pytest.mark.browser

APP = "/p/default/apps/released-agent"
WIDTHS = (1280, 390)
ANALYSIS_SECONDS = 60


@pytest.fixture(scope="module")
def address(product: RunningUp) -> str:
    """Of an app that has sent a request of release 1.0."""
    body = otlp.recorded(otlp.two_turns, service="released-agent", version="1.0")
    key = product.credentials["ingest_key"]
    headers = {"Content-Type": otlp.PROTOBUF, "Authorization": f"Bearer {key}"}
    export = urllib.request.Request(f"{product.otlp_url}/v1/traces", data=body, headers=headers)
    urllib.request.urlopen(export, timeout=30).close()
    return f"{product.url}{APP}"


@pytest.fixture
def page(product: RunningUp, browser: Browser, address: str) -> Iterator[Page]:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(product.manage("sign_in_link").stdout.strip())
    until = time.monotonic() + ANALYSIS_SECONDS
    while not (answer := page.goto(f"{address}/release/")) or answer.status == 404:
        assert time.monotonic() < until, "the request was not analysed"
        time.sleep(0.5)
    yield page
    context.close()


def test_an_item_is_ticked_by_keys_alone(page: Page) -> None:
    page.locator("#limits summary").focus()
    for key in ("Enter", "Tab", "Tab"):  # open, past what it is, to the note
        page.keyboard.press(key)
    page.keyboard.type("the gateway limits 20 a second")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Your tick stands.")
    expect(page.locator("#limits")).to_contain_text("by hand")
    expect(page.locator("#limits")).to_contain_text("the gateway limits 20 a second")


def test_settings_are_declared_and_refused_with_their_line(page: Page, address: str) -> None:
    page.goto(f"{address}/declared/?range=all")
    settings = page.locator("#settings-text")
    settings.fill("tools:\n  retries: 1")
    page.locator("#settings").get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("Line 2: There is no setting “retries”")
    expect(settings).to_have_value("tools:\n  retries: 1")
    settings.fill("tools: {parallel: true}")
    page.locator("#settings").get_by_role("button", name="Save").click()
    page.goto(f"{address}/declared/?range=all")
    expect(page.locator("main")).to_contain_text("✓ confirmed")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["release", "declared", "findings"])
def test_nothing_is_wider_than_the_screen(page: Page, address: str, name: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"{address}/{name}/?range=all" if name != "release" else f"{address}/release/")
    box = page.locator("body").bounding_box()
    assert box is not None
    assert box["width"] <= width
    for card in page.locator(".card").all():
        inside = card.bounding_box()
        assert inside is not None
        assert inside["x"] + inside["width"] <= width
