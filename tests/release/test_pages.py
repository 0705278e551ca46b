"""The pages of this package in a browser's hands: members, owners, strangers, and bad forms."""

from __future__ import annotations

import re
from collections.abc import Callable

import django
import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

django.setup()  # when this folder is named, pytest reads this file before pytest-django does it

from django.contrib.auth.models import User  # noqa: E402

from tests.release.requests import send  # noqa: E402
from tests.web.traces import AFTERWARDS, arrive, serial_tools, worked_example  # noqa: E402
from tracebudget import models, store  # noqa: E402
from tracebudget.core.gateway import Gateway  # noqa: E402
from tracebudget.queries.releases import Release  # noqa: E402
from tracebudget.release import checklist  # noqa: E402
from tracebudget.store import Mark  # noqa: E402

BASE = "/p/default/apps/shop"
DECLARED, FINDINGS, RELEASE = f"{BASE}/declared/", f"{BASE}/findings/", f"{BASE}/release/"
MARKUP = "<script>alert(1)</script> & 'tool'"

Browser = Callable[[models.Role], Client]


@pytest.fixture
def browser(project: models.Project, static_files: None) -> Browser:
    def sign_in(role: models.Role) -> Client:
        user = User.objects.create_user(role)
        models.Membership.objects.create(project=project, user=user, role=role)
        client = Client(enforce_csrf_checks=False)
        client.force_login(user)
        return client

    return sign_in


@pytest.fixture
def owner(browser: Browser) -> Client:
    return browser(models.Role.OWNER)


@pytest.fixture
def member(browser: Browser) -> Client:
    return browser(models.Role.MEMBER)


def text_of(page: Client, address: str) -> str:
    answer = page.get(address)
    assert answer.status_code == 200
    html = answer.content.decode()
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert "{" not in re.sub(r"<(script|style|textarea).*?</\1>", "", html, flags=re.DOTALL)
    return html


def messages(page: Client, address: str) -> str:
    return " ".join(map(str, page.get(address).context["messages"]))


# --- declared settings ----------------------------------------------------------------------------


def test_settings_are_saved_and_shown(owner: Client, shop: models.App) -> None:
    arrive(shop.project, worked_example(), serial_tools(2))
    answer = owner.post(DECLARED, {"settings": "tools: {parallel: true, timeout_ms: 3000}"})
    assert answer.status_code == 302
    html = text_of(owner, f"{DECLARED}?range=all")
    assert "contradicted" in html
    assert "tools.timeout_ms" in html
    change = models.DeclarationChange.objects.get(what="timeout_ms")
    assert (change.new, str(change.changed_by)) == ("3000", "owner")


@pytest.mark.parametrize(
    "text",
    [
        "tools: {retries: 1}",
        "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\ntools: *c",
        "x" * 200_000,
        "tools:\x00 1",
        "[" * 9_999,
        "!!python/object/apply:os.system ['true']",
        'inference: {model: "\\ud83d"}',
        "inference: {model: '\u202egnp.exe'}",
        "&a tools: *a",
    ],
    ids=["typo", "bomb", "huge", "nul", "deep", "object", "surrogate", "bidi", "self"],
)
def test_what_is_no_settings_is_said_and_changes_nothing(
    owner: Client, shop: models.App, text: str
) -> None:
    store.save_gateway(shop, Gateway(retry=1), user=None, now=AFTERWARDS)
    answer = owner.post(DECLARED, {"settings": text})
    assert answer.status_code == 400
    assert b"Nothing was saved." in answer.content
    assert models.GatewaySettings.objects.get().settings == {"retry": 1}


def test_members_see_settings_and_may_not_change_them(member: Client, shop: models.App) -> None:
    assert "Only owners of the project may change this." in text_of(member, DECLARED)
    assert member.post(DECLARED, {"settings": "tools: {retry: 1}"}).status_code == 403
    assert member.post(f"{DECLARED}tools/", marks("search")).status_code == 403
    assert not models.GatewaySettings.objects.exists()
    assert not models.ToolMark.objects.exists()


def marks(tool: str, **natures: str) -> dict[str, str]:
    row = {"tool": tool, **natures}
    form = {"tools-TOTAL_FORMS": "1", "tools-INITIAL_FORMS": "1"}
    return form | {f"tools-0-{name}": value for name, value in row.items()}


def test_tools_are_marked_by_whatever_name_they_have(owner: Client, shop: models.App) -> None:
    made = worked_example()
    for span in made.spans:
        if "gen_ai.tool.name" in span.attributes:
            attributes = dict(span.attributes) | {"gen_ai.tool.name": MARKUP}
            object.__setattr__(span, "attributes", attributes)
    arrive(shop.project, made)
    html = text_of(owner, DECLARED)
    assert MARKUP not in html
    assert "&lt;script&gt;" in html
    owner.post(f"{DECLARED}tools/", marks(MARKUP, is_read_only="on"))
    assert store.marks_of(shop) == {MARKUP: Mark(is_read_only=True)}
    assert MARKUP not in text_of(owner, DECLARED)


def test_a_form_of_tools_that_is_not_whole_changes_nothing(owner: Client, shop: models.App) -> None:
    owner.post(f"{DECLARED}tools/", {"tools-TOTAL_FORMS": "99999", "tools-INITIAL_FORMS": "x"})
    assert "Nothing was saved" in messages(owner, DECLARED)
    assert not models.ToolMark.objects.exists()


# --- findings -------------------------------------------------------------------------------------


def answer(code: str = "serial_tools", verdict: str = "accepted", **more: str) -> dict[str, str]:
    return {"code": code, "subject": "", "verdict": verdict, "note": "as agreed", **more}


def test_an_answer_moves_the_finding(member: Client, shop: models.App) -> None:
    arrive(shop.project, serial_tools())
    subject = models.Finding.objects.get(code="serial_tools").subject
    sent = member.post(f"{FINDINGS}answer/", answer(subject=subject))
    assert sent.headers["Location"] == f"{FINDINGS}?range=all#answered"
    html = text_of(member, f"{FINDINGS}?range=all")
    assert html.index('id="answered"') < html.index("as agreed")


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (answer(code="no_such"), "There is no such finding."),
        (answer(code="queueing", verdict="dependent"), "That is no answer to this finding."),
        (answer(verdict="maybe"), "Nothing was saved."),
        (answer(note=" "), "Write a note, for those who wonder."),
        (answer(note="x" * 2_001), "Nothing was saved."),
        (answer(subject="x" * 201), "Nothing was saved."),
        (answer(note="a\x00b"), "Nothing was saved."),
        ({}, "Nothing was saved."),
    ],
)
def test_what_is_no_answer(
    member: Client, shop: models.App, form: dict[str, str], said: str
) -> None:
    assert member.post(f"{FINDINGS}answer/", form).status_code == 302
    assert said in messages(member, FINDINGS)
    assert not models.FindingAnswer.objects.exists()


# --- the release ----------------------------------------------------------------------------------


def test_without_releases_the_page_says_what_to_do(member: Client, shop: models.App) -> None:
    arrive(shop.project, worked_example())
    assert "Set service.version" in text_of(member, RELEASE)
    assert member.get(f"{BASE}/release.md").status_code == 404


def test_the_newest_release_is_shown(member: Client, shop: models.App) -> None:
    send(shop, "1.0", count=3)
    send(shop, "2.0", count=3)
    html = text_of(member, RELEASE)
    assert '<option value="2.0" selected>' in html
    assert "would fail" in html
    assert "--release 2.0" in html
    assert '<option value="1.0" selected>' in text_of(member, f"{RELEASE}?release=1.0")
    assert member.get(f"{RELEASE}?release=9").status_code == 404
    assert text_of(member, f"{RELEASE}?release=1.0&baseline=%00&environment=")


def test_a_release_by_an_evil_name(member: Client, shop: models.App) -> None:
    """Its name comes from whoever may send traces."""
    send(shop, "1.0", count=1)
    models.Trace.objects.update(version="1; rm -rf ~ <b>", environment='a"b')
    html = text_of(member, f"{RELEASE}?environment=a%22b")
    assert "--release &#x27;1; rm -rf ~ &lt;b&gt;&#x27; --environment &#x27;a&quot;b&#x27;" in html
    assert "<b>" not in html.split("<main")[1].split("compared with")[0]
    answer = member.get(f"{BASE}/release.md")
    assert answer.headers["Content-Disposition"].count('"') == 2
    assert r"1; rm -rf \~ \<b\>" in answer.content.decode()


def test_ticks(member: Client, shop: models.App) -> None:
    send(shop, "1.0", count=3)
    form = {"release": "1.0", "item": "limits", "is_done": "yes", "note": MARKUP}
    sent = member.post(f"{RELEASE}tick/", form)
    assert sent.headers["Location"] == f"{RELEASE}?release=1.0#limits"
    html = text_of(member, RELEASE)
    assert "by hand" in html
    assert MARKUP not in html
    assert str(checklist.history(shop)[0].ticked_by) == "member"


@pytest.mark.parametrize(
    "change",
    [{"item": "no_such"}, {"is_done": ""}, {"note": ""}, {"release": ""}, {"note": "a\x00"}],
    ids=lambda change: next(iter(change)),
)
def test_what_is_no_tick(member: Client, shop: models.App, change: dict[str, str]) -> None:
    send(shop, "1.0", count=1)
    form = {"release": "1.0", "item": "limits", "is_done": "yes", "note": "n"} | change
    assert member.post(f"{RELEASE}tick/", form).status_code == 302
    assert "Nothing was saved." in messages(member, RELEASE)
    assert checklist.history(shop) == []


def test_owners_freeze(owner: Client, shop: models.App) -> None:
    send(shop, "1.0")
    sent = owner.post(f"{RELEASE}freeze/", {"release": "1.0"})
    assert sent.headers["Location"] == f"{RELEASE}?release=1.0#baselines"
    assert "Release 1.0 is frozen" in messages(owner, RELEASE)
    assert str(models.Baseline.objects.get().frozen_by) == "owner"


def test_too_few_requests_are_not_frozen(owner: Client, shop: models.App) -> None:
    send(shop, "1.0", count=2)
    owner.post(f"{RELEASE}freeze/", {"release": "1.0"})
    owner.post(f"{RELEASE}freeze/", {"release": "no such"})
    assert "2 whole requests are too few" in messages(owner, RELEASE)
    assert not models.Baseline.objects.exists()


def test_members_do_not_freeze(member: Client, shop: models.App) -> None:
    send(shop, "1.0", count=2)
    assert member.post(f"{RELEASE}freeze/", {"release": "1.0"}).status_code == 403
    assert "Only owners of the project may freeze" in text_of(member, RELEASE)


def test_the_checklist_as_a_file(member: Client, shop: models.App) -> None:
    send(shop, "1.0", count=3)
    answer = member.get(f"{BASE}/release.md?release=1.0")
    assert answer.headers["Content-Type"] == "text/markdown; charset=utf-8"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="release-shop-1-0.md"'
    assert answer.content.decode().startswith("# Release checklist: shop 1.0\n")


# --- who may ----------------------------------------------------------------------------------

POSTS = [
    DECLARED,
    f"{DECLARED}tools/",
    f"{FINDINGS}answer/",
    f"{RELEASE}tick/",
    f"{RELEASE}freeze/",
]


@pytest.mark.parametrize("address", POSTS)
def test_strangers_change_nothing(browser: Browser, shop: models.App, address: str) -> None:
    theirs = models.Project.objects.create(slug="theirs", name="Theirs")
    page = browser(models.Role.OWNER)
    models.Membership.objects.update(project=theirs)
    assert page.post(address, {}).status_code == 404
    of_theirs = address.replace("/p/default/", "/p/theirs/")
    assert page.post(of_theirs, {}).status_code == 404  # the app is another project's


@pytest.mark.parametrize("address", POSTS)
def test_forms_need_their_token(owner: Client, shop: models.App, address: str) -> None:
    owner.handler.enforce_csrf_checks = True
    assert owner.post(address, {}).status_code == 403


@pytest.mark.parametrize("address", POSTS[1:])
def test_nothing_changes_by_a_link(owner: Client, shop: models.App, address: str) -> None:
    assert owner.get(address).status_code == 405


def test_number_of_queries_is_fixed(
    member: Client, shop: models.App, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    send(shop, "1.0", count=2)
    checklist.tick(
        Release(shop, "1.0"), "limits", is_done=True, note="n", user=None, now=AFTERWARDS
    )
    with django_assert_num_queries(26):
        member.get(RELEASE)
    send(shop, "2.0", count=5)
    with django_assert_num_queries(26):
        member.get(RELEASE)
