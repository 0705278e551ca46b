"""The pages in a real browser: drawn, driven by keys, narrow, without scripts, under the policy."""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.trace import Tracer
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from tests import otlp
from tests.running import RunningUp

pytestmark = pytest.mark.browser

expect.set_options(timeout=15_000)  # ms; of two cores that do other things too

MS, SECOND = 1_000_000, 1_000_000_000
LONG_TURNS = 2_500  # with two spans each and the root: five thousand spans
ANALYSIS_SECONDS = 60
DRAW_MS = 1_000
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
# Plotly adds one style that the policy refuses, without harm to what it draws.
KNOWN_REFUSALS = 1


def long_loop(tracer: Tracer) -> None:
    """Thousands of turns: a model call and a tool in each."""
    start = otlp.START_NS + 10 * SECOND
    root = tracer.start_as_current_span(
        "invoke_agent loop", start_time=start, end_on_exit=False, attributes=AGENT
    )
    with root as agent:
        for turn in range(LONG_TURNS):
            at = start + turn * 40 * MS
            call = tracer.start_span("chat lpx", start_time=at, attributes=CHAT)
            call.end(at + 25 * MS)
            tool = tracer.start_span("execute_tool look", start_time=at + 26 * MS, attributes=TOOL)
            tool.end(at + 38 * MS)
        agent.end(start + LONG_TURNS * 40 * MS)


AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "loop"}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
CHAT: dict[str, Any] = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "lpx",
    "gen_ai.request.stream": True,
    "gen_ai.response.time_to_first_chunk": 0.01,
    "gen_ai.usage.input_tokens": 100,
    "gen_ai.usage.output_tokens": 10,
}


def send(product: RunningUp, act: Callable[[Tracer], None]) -> str:
    """Export what the SDK makes; the address of the request once it is analysed."""
    body = otlp.recorded(act, service="browser-agent")
    key = {"Authorization": f"Bearer {product.credentials['ingest_key']}"}
    post = urllib.request.Request(
        f"{product.otlp_url}/v1/traces",
        data=body,
        headers={"Content-Type": otlp.PROTOBUF, **key},
    )
    urllib.request.urlopen(post, timeout=30).close()
    trace_id = trace_id_of(body)
    token = {"Authorization": f"Bearer {product.credentials['api_token']}"}
    object_ = f"{product.url}/api/v1/projects/default/requests/{trace_id}"
    deadline = time.monotonic() + ANALYSIS_SECONDS
    while not answers(urllib.request.Request(object_, headers=token)):
        assert time.monotonic() < deadline, f"{trace_id} was not analysed"
        time.sleep(0.2)
    return f"{product.url}/p/default/requests/{trace_id}/"


def trace_id_of(body: bytes) -> str:
    spans = ExportTraceServiceRequest.FromString(body).resource_spans[0].scope_spans[0].spans
    return spans[0].trace_id.hex()


def answers(request: urllib.request.Request) -> bool:
    try:
        with urllib.request.urlopen(request, timeout=10):
            return True
    except urllib.error.HTTPError as error:
        with error:
            return False


@pytest.fixture(scope="module")
def request_url(product: RunningUp) -> str:
    return send(product, otlp.two_turns)


@pytest.fixture(scope="module")
def long_url(product: RunningUp) -> str:
    return send(product, long_loop)


@pytest.fixture(scope="module")
def signed_in(product: RunningUp, browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.new_page().goto(product.manage("sign_in_link").stdout.strip())
    yield context
    context.close()


@pytest.fixture
def page(signed_in: BrowserContext) -> Iterator[Page]:
    page = signed_in.new_page()
    yield page
    page.close()


def another(signed_in: BrowserContext, browser: Browser, **options: object) -> BrowserContext:
    """The same person with another browser."""
    state = signed_in.storage_state()
    return browser.new_context(storage_state=state, **options)  # type: ignore[arg-type]


def focused_row(page: Page) -> str:
    return str(page.evaluate("document.activeElement.closest('.row')?.id"))


# --- one request ---------------------------------------------------------------------------------


def test_spans_of_the_real_sdk_become_rows(page: Page, request_url: str) -> None:
    page.goto(request_url)
    names = page.locator(".row .text").all_inner_texts()
    assert names == [
        "Turn 0", "chat groq-3-lpx", "search_order", "get_user_info", "framework", "Turn 1",
        "chat groq-3-lpx",
    ]  # fmt: skip
    prefill, decode = page.locator(f"#{first_call(page)} rect.seg").all()[:2]
    bars = [bar.bounding_box() for bar in (prefill, decode)]
    assert bars[0]
    assert bars[1]
    assert bars[0]["width"] / bars[1]["width"] == pytest.approx(58 / 113, rel=0.02)
    expect(page.locator(f"#{first_call(page)} text")).to_contain_text("TTFT 58 ms measured")


def first_call(page: Page) -> str:
    return str(page.locator(".row.model_call").first.get_attribute("id"))


def test_keys_zoom_pan_and_walk_the_critical_path(page: Page, request_url: str) -> None:
    page.goto(request_url)
    bar = page.locator(".row.model_call rect.seg.decode").first
    before = bar.bounding_box()
    page.keyboard.press("w")
    expect(page.locator("#waterfall")).to_have_attribute("style", re.compile(r"--zoom: 1\.4;"))
    after = bar.bounding_box()
    assert before
    assert after
    assert after["width"] == pytest.approx(before["width"] * 1.4, rel=0.05)
    page.keyboard.press("0")
    walked = []
    for _step in range(4):
        page.keyboard.press(".")
        walked.append(focused_row(page).partition("-")[0])
    assert walked == ["step", "step", "gap", "step"]  # past the tool that nobody waited for
    page.keyboard.press("ArrowUp")
    assert focused_row(page) == "turn-1"
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".row.folded")).to_have_count(1)
    page.keyboard.press("f")
    expect(page.locator(".row:not(.folded)")).to_have_count(2)


def test_two_fingers_zoom_around_what_is_between_them(
    signed_in: BrowserContext, browser: Browser, request_url: str
) -> None:
    context = another(signed_in, browser, has_touch=True, viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(request_url)
    lane = page.locator(".row.model_call .lane").first
    lane.scroll_into_view_if_needed()
    box = lane.bounding_box()
    assert box
    middle, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    fingers = context.new_cdp_session(page)
    for kind, spread in (("touchStart", 20), ("touchMove", 30), ("touchMove", 40)):
        points = [{"x": middle + side * spread, "y": y, "id": side + 1} for side in (-1, 1)]
        fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    fingers.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    style = re.compile(r"--zoom: 2; --pan: 0\.25")
    expect(page.locator("#waterfall")).to_have_attribute("style", style)
    expect(page.get_by_role("dialog", name="Step")).to_be_hidden()
    context.close()


def test_paper_has_the_whole_picture_and_nothing_to_click(page: Page, request_url: str) -> None:
    page.goto(request_url)
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(29, 33, 41)"  # light
    expect(page.locator(".row.model_call rect.seg").first).to_be_visible()
    for clickable in ("header.top", ".tools-bar", ".fold-button", "#spans", "[data-chart]"):
        expect(page.locator(clickable).first).to_be_hidden()
    page.emulate_media(media="screen")


def test_question_mark_opens_help(page: Page, request_url: str) -> None:
    page.goto(request_url)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()


def test_step_opens_beside_the_picture_and_its_address_leads_back(
    page: Page, request_url: str
) -> None:
    page.goto(request_url)
    page.locator(".row.tool_call .name").first.click()
    drawer = page.get_by_role("dialog", name="Step")
    expect(drawer.get_by_role("heading", name="search_order", exact=True)).to_be_visible()
    expect(drawer.get_by_role("heading", name="Where this was read")).to_be_visible()
    expect(drawer.get_by_text("gen_ai.tool.name").last).to_be_visible()
    address = page.url
    assert "?step=" in address
    page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    expect(page).to_have_url(request_url)  # the page hears of it after the dialog has gone
    page.goto(address)
    expect(drawer.get_by_role("heading", name="search_order", exact=True)).to_be_visible()


def test_card_says_what_a_row_is(page: Page, request_url: str) -> None:
    page.goto(request_url)
    page.locator(".row.model_call .lane").first.hover()
    card = page.locator(".hover-card")
    for fact in ("takes 171 ms", "TTFT 58 ms measured", "1,240 tokens in, 96 out"):
        expect(card).to_contain_text(fact)


def test_chart_of_turns_is_drawn_when_it_comes_near(page: Page, request_url: str) -> None:
    page.goto(request_url)
    page.locator("[data-chart]").scroll_into_view_if_needed()
    expect(page.locator("[data-chart] .bars path").first).to_be_visible()


def test_spans_are_fetched_when_they_are_opened(page: Page, request_url: str) -> None:
    page.goto(request_url)
    page.get_by_text("The tree of all spans").click()
    expect(page.locator("#spans td.tree")).to_have_count(5)


def test_page_reads_without_scripts(
    signed_in: BrowserContext, browser: Browser, request_url: str
) -> None:
    context = another(signed_in, browser, java_script_enabled=False)
    page = context.new_page()
    page.goto(request_url)
    expect(page.locator(".row.model_call rect.seg.prefill").first).to_be_visible()
    page.locator(".row.tool_call .name").first.click()
    expect(page.get_by_role("heading", name="search_order", exact=True)).to_be_visible()
    context.close()


# --- a long one ----------------------------------------------------------------------------------


def test_five_thousand_spans_draw_in_a_second(page: Page, long_url: str) -> None:
    page.goto(long_url)
    page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length > 0")
    waited = page.evaluate(
        "() => { const page = performance.getEntriesByType('navigation')[0];"
        " const paint = performance.getEntriesByName('first-contentful-paint')[0];"
        " return Math.max(paint.startTime, page.domInteractive) - page.responseStart }"
    )
    assert waited < DRAW_MS
    assert page.locator(".row").count() <= 300  # rows are windowed


def test_rows_arrive_when_they_come_near(page: Page, long_url: str) -> None:
    page.goto(long_url)
    unloaded = page.locator(".block.unloaded")
    before = unloaded.count()
    assert before > 40
    unloaded.nth(20).scroll_into_view_if_needed()
    expect(page.locator(".block:not(.unloaded) .row.turn >> nth=150")).to_be_attached()
    page.wait_for_function("n => document.querySelectorAll('.unloaded').length < n", arg=before)


def test_step_far_down_is_reached_by_its_address(page: Page, long_url: str) -> None:
    page.goto(f"{long_url}?from=4000")
    far = page.locator(".row.tool_call").first.get_attribute("id")
    page.goto(f"{long_url}#{far}")
    expect(page.locator(f"#{far}")).to_be_in_viewport()


# --- every page ----------------------------------------------------------------------------------

PATHS = {
    "apps": "/p/default/?range=all",
    "app": "/p/default/apps/browser-agent/?range=all",
    "budgets": "/p/default/apps/browser-agent/budgets/?template=interactive",
    "requests": "/p/default/requests/",
    "setup": "/p/default/setup/",
    "keys": "/p/default/settings/keys/",
    "members": "/p/default/settings/members/",
    "privacy": "/p/default/settings/privacy/",
    "received": "/p/default/settings/received/",
    "retention": "/p/default/settings/retention/",
    "audit": "/p/default/settings/audit/",
    "projects": "/projects/",
    "account": "/account/",
    "request": "",
    "spans": "spans/",
    "not found": "/p/nothing/",
}


def address_of(product: RunningUp, request_url: str, name: str) -> str:
    path = PATHS[name]
    return f"{product.url}{path}" if path.startswith("/") else request_url + path


@pytest.mark.parametrize("name", PATHS)
def test_nothing_is_wider_than_a_phone(
    signed_in: BrowserContext, browser: Browser, product: RunningUp, request_url: str, name: str
) -> None:
    context = another(signed_in, browser, viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(address_of(product, request_url, name))
    page.wait_for_load_state("networkidle")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()


@pytest.mark.parametrize("name", PATHS)
def test_policy_refuses_nothing_of_ours(
    page: Page, product: RunningUp, request_url: str, name: str
) -> None:
    refused: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text:
            refused.append(message.text)

    page.on("console", note)
    page.goto(address_of(product, request_url, name))
    for chart in page.locator("[data-chart]").all():
        chart.scroll_into_view_if_needed()
        expect(chart.locator(".main-svg").first).to_be_visible()
    has_chart = page.locator("[data-chart]").count() > 0
    assert len(refused) <= (KNOWN_REFUSALS if has_chart else 0), refused


@pytest.fixture(params=[("light", 1280), ("dark", 390)], ids=["light, wide", "dark, narrow"])
def themed(
    signed_in: BrowserContext, browser: Browser, request: pytest.FixtureRequest
) -> Iterator[Page]:
    theme, width = request.param
    size = {"width": width, "height": 800}
    context = another(signed_in, browser, viewport=size, color_scheme=theme)
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("name", PATHS)
def test_axe_finds_no_barrier(
    themed: Page, product: RunningUp, request_url: str, name: str
) -> None:
    themed.goto(address_of(product, request_url, name))
    themed.wait_for_load_state("networkidle")
    found = Axe().run(themed, options={"runOnly": WCAG})
    assert not found.response["violations"], found.generate_report()


def test_session_is_reached_from_its_request(
    signed_in: BrowserContext, browser: Browser, request_url: str
) -> None:
    context = another(signed_in, browser, viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(request_url)
    page.locator(".sub a[href*='/sessions/']").click()
    expect(page.get_by_role("heading", name="Does it get slower")).to_be_visible()
    expect(page.locator(".talk rect.seg.prefill").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()


def test_tables_that_scroll_are_reached_by_keys(
    signed_in: BrowserContext, browser: Browser, product: RunningUp
) -> None:
    context = another(signed_in, browser, viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(f"{product.url}/p/default/setup/")
    box = page.get_by_role("group", name="Which senders tell TTFT")
    box.focus()
    page.keyboard.press("ArrowRight")
    expect(box).not_to_have_js_property("scrollLeft", 0)
    context.close()


def test_theme_is_remembered(page: Page, product: RunningUp) -> None:
    page.goto(f"{product.url}/p/default/")
    page.get_by_role("button", name="Light or dark").click()
    chosen = page.locator("html").get_attribute("data-theme")
    assert chosen in {"light", "dark"}
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", chosen or "")


def test_times_are_in_the_readers_zone(
    signed_in: BrowserContext, browser: Browser, request_url: str
) -> None:
    context = another(signed_in, browser, timezone_id="Asia/Tokyo")
    page = context.new_page()
    page.goto(request_url)
    expect(page.locator("time").first).to_have_text("2026-01-01 09:00:00")
    expect(page.locator("[data-time-zone]")).to_have_text("Asia/Tokyo")
    context.close()
