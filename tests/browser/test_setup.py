"""The first visit: an empty project, a key made by hand, and a light that turns green by itself."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests import otlp
from tests.running import RunningUp

pytestmark = pytest.mark.browser

MAKE_PROJECT = """
from django.contrib.auth.models import User
from tracebudget import models
project = models.Project.objects.create(slug="fresh", name="Fresh")
owner = User.objects.get(username="owner")
models.Membership.objects.create(project=project, user=owner, role=models.Role.OWNER)
"""
REMOVE_PROJECT = """
from tracebudget import models
models.Project.objects.get(slug="fresh").delete()
"""
GREEN_SECONDS = (
    60  # analysis begins some seconds after the last span; the page looks ever more rarely
)


@pytest.fixture
def page(product: RunningUp, browser: Browser) -> Iterator[Page]:
    product.manage("shell", "--no-imports", "-c", MAKE_PROJECT)
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(product.manage("sign_in_link").stdout.strip())
    yield page
    context.close()
    product.manage("shell", "--no-imports", "-c", REMOVE_PROJECT)


def test_first_trace_turns_the_light_green(page: Page, product: RunningUp) -> None:
    page.goto(f"{product.url}/p/fresh/settings/keys/")
    page.get_by_label("what it is for").first.fill("laptop")
    page.get_by_role("button", name="Make an ingest key").click()
    page.get_by_role("button", name="Copy").first.click()
    secret = page.evaluate("navigator.clipboard.readText()")
    assert secret.startswith("tbi_")
    page.get_by_role("link", name="Wait for the first trace").click()
    light = page.get_by_role("status").filter(has_text="Waiting for your first trace")
    expect(light).to_be_visible()
    send(product, secret)
    expect(page.get_by_text("Traces arrive")).to_be_visible(timeout=GREEN_SECONDS * 1000)
    page.get_by_role("link", name="Where does the time go?").click()
    expect(page.get_by_role("heading", name="Are users waiting")).to_be_visible()


def send(product: RunningUp, secret: str) -> None:
    headers = {"Content-Type": otlp.PROTOBUF, "x-api-key": secret}
    body = otlp.recorded(otlp.two_turns, service="first-agent")
    url = f"{product.otlp_url}/v1/traces"
    urllib.request.urlopen(urllib.request.Request(url, data=body, headers=headers)).close()
