"""The checklist, whole: facts out of rows, ticks by hand, and the file to take away."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from pytest_django import DjangoAssertNumQueries

from tests.release.requests import one, send
from tests.web.traces import AFTERWARDS, Recorder, arrive
from tracebudget import models, store
from tracebudget.core.gateway import Gateway
from tracebudget.queries import releases
from tracebudget.queries.releases import Release
from tracebudget.release import checklist, gate
from tracebudget.release.checklist import Checklist, Item
from tracebudget.release.checklist_file import line, write_markdown


def seen(app: models.App, version: str = "1.0") -> Checklist:
    release = Release(models.App.objects.get(pk=app.pk), version)
    return checklist.checklist_of(release, releases.sample(release))


def item(app: models.App, name: str, version: str = "1.0") -> Item:
    return next(item for item in seen(app, version).items if item.name == name)


def said(app: models.App, name: str) -> tuple[str, str]:
    verdict = item(app, name).verdict
    return verdict.state.value, verdict.why


def tick(app: models.App, name: str, *, is_done: bool = True, version: str = "1.0") -> None:
    checklist.tick(
        Release(app, version), name, is_done=is_done, note="tried it", user=None, now=AFTERWARDS
    )


def test_what_a_few_requests_tell(shop: models.App) -> None:
    send(shop, "1.0", count=5)
    assert {item.name: item.state.value for item in seen(shop).items} == {
        "recorded": "done",
        "split": "done",
        "parallel": "done",
        "cached": "unknown",
        "context": "unknown",
        "timeouts": "unknown",
        "one_generation": "done",
        "routing": "unknown",
        "limits": "unknown",
        "benchmark": "not_done",
    }


def test_no_request_tells_nothing(shop: models.App) -> None:
    assert seen(shop).requests == 0
    assert {item.state.value for item in seen(shop).items} == {"unknown", "not_done"}


def recorder(number: int) -> Recorder:
    resource = {"service.version": "1.0"}
    return Recorder(number, at_ms=number, **resource)


def simple(number: int, model: str) -> Recorder:
    made = recorder(number)
    root = made.agent("support", 0, 300)
    made.chat(5, 290, root, ttft=60, tokens=(200, 20), model=model)
    return made


def test_routing(shop: models.App) -> None:
    arrive(shop.project, simple(1, "small"), one(2, "1.0"), one(3, "1.0"))
    assert said(shop, "routing") == ("done", "routed")
    assert item(shop, "routing").verdict.evidence == {"simple": "small", "other": "lpx"}


def slow_tool(number: int, *, goes_on: bool) -> Recorder:
    made = recorder(number)
    root = made.agent("support", 0, 4000)
    made.chat(0, 500, root, ttft=60, tokens=(200, 20), asks=[("search", "c1")])
    made.tool("search", 500, 3500, root, call_id="c1", error="timeout")
    if goes_on:
        made.chat(3510, 3990, root, ttft=60, tokens=(240, 20))
    return made


@pytest.mark.parametrize(
    ("goes_on", "expected"),
    [(True, ("done", "went_on")), (False, ("not_done", "ended_there"))],
)
def test_an_answer_without_the_tool(
    shop: models.App, goes_on: bool, expected: tuple[str, str]
) -> None:
    store.save_gateway(shop, Gateway(timeout_ms=3000), user=None, now=AFTERWARDS)
    arrive(shop.project, slow_tool(1, goes_on=goes_on))
    assert said(shop, "timeouts") == expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [("429", ("unknown", "codes_told")), ("_OTHER", ("unknown", "codes_told"))],
)
def test_error_codes(shop: models.App, error: str, expected: tuple[str, str]) -> None:
    made = recorder(1)
    root = made.agent("support", 0, 900)
    made.chat(0, 100, root, error=error)
    made.chat(200, 890, root, ttft=60, tokens=(200, 20))
    arrive(shop.project, made)
    assert said(shop, "limits") == expected


def test_a_frozen_baseline_is_the_benchmark(shop: models.App) -> None:
    send(shop, "1.0")
    release = Release(shop, "1.0")
    gate.freeze(release, releases.sample(release), user=None, now=AFTERWARDS)
    assert said(shop, "benchmark") == ("done", "frozen")


def test_a_tick_counts_where_traces_cannot_tell(shop: models.App) -> None:
    send(shop, "1.0", count=3)
    tick(shop, "limits")
    tick(shop, "recorded", is_done=False)
    limits, recorded = item(shop, "limits"), item(shop, "recorded")
    assert (limits.state, limits.is_by_hand) == ("done", True)
    assert (recorded.state, recorded.is_by_hand) == ("done", False)
    tick(shop, "limits", is_done=False)
    assert item(shop, "limits").state == "not_done"


def test_a_tick_is_for_one_release(shop: models.App) -> None:
    send(shop, "1.0", count=3)
    send(shop, "2.0", count=3)
    tick(shop, "limits")
    later = item(shop, "limits", "2.0")
    assert (later.state, later.tick) == ("unknown", None)
    assert later.earlier is not None
    assert later.earlier.note == "tried it"


def test_the_file(shop: models.App) -> None:
    send(shop, "1.0", count=3)
    mia = User.objects.create_user("mia")
    checklist.tick(
        Release(shop, "1.0"), "limits", is_done=True, note="| see <wiki>\n# here", user=mia,
        now=AFTERWARDS,
    )  # fmt: skip
    release = Release(shop, "1.0")
    judged = gate.judge(release, releases.sample(release), None, rules=gate.USUAL_RULES)
    lines = write_markdown(seen(shop), judged, now=AFTERWARDS).splitlines()
    assert lines[0] == "# Release checklist: shop 1.0"
    assert sum(text.startswith("- [x]") for text in lines) == 5
    assert sum(text.startswith("- [ ]") for text in lines) == 5
    assert r"  - mia, 2026-01-01: \| see \<wiki\> # here" in lines
    assert "## Gate: fail" in lines


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("search_order", r"search\_order"),
        ("<b>", r"\<b\>"),
        ("[a](javascript:b)", r"\[a\](javascript:b)"),
        ("- [x] all done", r"\- \[x\] all done"),
        ("1. one", r"1\. one"),
        ("# a\nb", r"\# a b"),
        ("a & b | c", r"a \& b \| c"),
    ],
)
def test_text_stays_text(text: str, escaped: str) -> None:
    assert line(text) == escaped


def test_number_of_queries_is_fixed(
    shop: models.App, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    send(shop, "1.0", count=8)
    release = Release(models.App.objects.get(pk=shop.pk), "1.0")
    taken = releases.sample(release)
    with django_assert_num_queries(12):
        checklist.checklist_of(release, taken)
