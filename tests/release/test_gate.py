"""The gate, whole: requests of two releases arrive, one is frozen, the other is judged."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django import DjangoAssertNumQueries

from tests.release.requests import one, send
from tests.web.traces import AFTERWARDS, MS, START
from tracebudget import answers, models, pipeline, store
from tracebudget.models import Verdict
from tracebudget.queries import releases
from tracebudget.queries.releases import Release
from tracebudget.release import gate


def run(*arguments: str) -> tuple[int, str]:
    """Exit status and output of the command."""
    out = StringIO()
    try:
        call_command("gate", "shop", *arguments, stdout=out)
    except SystemExit as end:
        return int(end.code or 0), out.getvalue()
    return 0, out.getvalue()


def as_json(*arguments: str) -> tuple[int, dict[str, Any]]:
    status, said = run("--json", *arguments)
    return status, json.loads(said)


def outcome(document: dict[str, Any], kind: str, name: str | None, quantile: str | None) -> str:
    (found,) = (
        check["outcome"]
        for check in document["checks"]
        if (check["kind"], check["name"], check["quantile"]) == (kind, name, quantile)
    )
    return str(found)


def freeze(version: str) -> None:
    call_command("baseline", "shop", "--release", version, stdout=StringIO())


@pytest.fixture
def first(shop: models.App) -> models.App:
    send(shop, "1.0")
    return shop


def test_an_unchanged_release_passes(first: models.App) -> None:
    freeze("1.0")
    send(first, "2.0", ms=1001)
    status, said = run()
    assert (status, said.splitlines()[-1]) == (0, "PASS.")
    assert said.startswith("shop, release 2.0: 80 requests\nagainst the baseline of release 1.0")


def test_a_slower_release_fails(first: models.App) -> None:
    freeze("1.0")
    send(first, "2.0", ms=1500)
    status, document = as_json()
    assert (status, document["verdict"]) == (1, "fail")
    assert outcome(document, "metric", "end_to_end", "p95") == "worse"
    assert outcome(document, "metric", "turns", "p95") == "same"
    assert outcome(document, "errors", None, None) == "same"
    assert run()[1].splitlines()[-1] == "FAIL."


def test_a_faster_release_passes(first: models.App) -> None:
    freeze("1.0")
    send(first, "2.0", ms=500)
    status, document = as_json()
    assert status == 0
    assert outcome(document, "metric", "end_to_end", "p50") == "better"


def test_tolerance(first: models.App) -> None:
    freeze("1.0")
    send(first, "2.0", ms=1500)
    assert as_json("--tolerance", "60")[0] == 0
    with pytest.raises(CommandError, match="no percentage"):
        run("--tolerance", "much")


def test_more_errors_fail_though_all_else_is_as_before(first: models.App) -> None:
    freeze("1.0")
    send(first, "2.0", ms=1000, errors=20)
    status, document = as_json()
    assert status == 1
    assert outcome(document, "errors", None, None) == "worse"
    assert outcome(document, "metric", "end_to_end", "p95") == "same"


def test_too_few_requests_stop_a_release_unless_they_may_pass(first: models.App) -> None:
    freeze("1.0")
    send(first, "2.0", count=30)
    status, said = run()
    assert status == 1
    assert "Known for 30 of 30 requests: too few to tell." in said
    assert said.splitlines()[-1].startswith("FAIL: what cannot be told stops a release")
    status, said = run("--unknown", "pass")
    assert (status, said.splitlines()[-1]) == (0, "PASS: what cannot be told passes, as asked.")


def test_without_a_baseline_nothing_can_be_told(first: models.App) -> None:
    status, said = run()
    assert status == 1
    assert "No other release has a frozen baseline in this environment." in said


def test_a_release_is_not_its_own_measure(first: models.App) -> None:
    freeze("1.0")
    assert as_json()[1]["baseline"] is None
    assert as_json("--baseline", "1.0")[1]["baseline"]["release"] == "1.0"


def test_what_passes_becomes_a_baseline(first: models.App) -> None:
    status, document = as_json("--freeze")
    assert (status, document["frozen"]) == (0, "1.0")
    send(first, "2.0", ms=1500)
    assert as_json("--freeze")[1]["frozen"] is None
    assert [b.release for b in releases.baselines(first)] == ["1.0"]


def test_what_has_too_few_requests_is_not_frozen(shop: models.App) -> None:
    send(shop, "1.0", count=20)
    status, said = run("--freeze")
    assert (status, said.splitlines()[-1]) == (
        1,
        "Not frozen: 20 requests are too few to tell a p95.",
    )
    with pytest.raises(CommandError, match="20 whole requests of release"):
        freeze("1.0")
    assert releases.baselines(shop) == []


def test_a_missed_budget_fails(first: models.App) -> None:
    promise(first, "end_to_end", 500 * MS, since=START)
    send(first, "2.0", count=80)
    freeze("1.0")
    status, document = as_json()
    assert status == 1
    assert outcome(document, "budget", "end_to_end", None) == "worse"


def promise(app: models.App, metric: str, limit: int, *, since: datetime) -> None:
    models.Budget.objects.create(app=app, metric=metric, limit=limit)
    models.Budget.objects.update(updated_at=since)


def test_requests_from_before_a_budget_do_not_count_for_it(first: models.App) -> None:
    """They know nothing of it, and would all seem to keep it."""
    promise(first, "end_to_end", 500 * MS, since=AFTERWARDS + timedelta(seconds=1))
    (kept,) = releases.kept(first, releases.sample(Release(first, "1.0")))
    assert (kept.requests, kept.over) == (0, 0)
    assert outcome(as_json()[1], "budget", "end_to_end", None) == "unknown"


def test_environments_are_apart(shop: models.App) -> None:
    send(shop, "1.0", environment="test")
    send(shop, "2.0", environment="production", ms=2000)
    call_command("baseline", "shop", "--environment", "test", stdout=StringIO())
    assert as_json("--environment", "production")[1]["baseline"] is None
    with pytest.raises(CommandError, match="was seen in environ"):
        run("--environment", "production", "--release", "1.0")


def test_what_came_with_the_release_is_named(first: models.App) -> None:
    freeze("1.0")
    baseline = releases.baselines(first)[0]
    send(first, "2.0")
    rows = models.Finding.objects.filter(trace__version="2.0")
    for trace in models.Trace.objects.filter(version="2.0"):
        models.Finding.objects.create(
            day=trace.day, trace=trace, position=99, app=first, started_at=AFTERWARDS,
            code="serial_tools", kind="performance", severity="warning", subject="fetch, search",
            saving_ns=400 * MS,
        )  # fmt: skip
    assert rows.count() >= 80
    said = run()[1]
    assert "(fetch, search): in 100 % of requests, 0 % before; each loses 400 ms." in said
    answers.answer(
        first, "serial_tools", "fetch, search",
        verdict=Verdict.DEPENDENT, note="n", user=None, now=AFTERWARDS,
    )  # fmt: skip
    assert "fetch, search" not in run()[1]
    assert baseline.figures["findings"] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--release", "9"), "No request of release '9' was seen; there are: 1.0."),
        (("--baseline", "9"), "No baseline of release '9' was frozen; there are: none yet."),
        (("--project", "nowhere"), "There is no project 'nowhere'."),
    ],
)
def test_misuse_is_told_apart(first: models.App, arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(CommandError) as caught:
        run(*arguments)
    assert said in str(caught.value)
    assert caught.value.returncode == 2


def test_requests_that_name_no_release(shop: models.App) -> None:
    with pytest.raises(CommandError, match="tells its release: set service"):
        run()


def test_requests_that_are_not_whole_are_left_out(first: models.App) -> None:
    ids = models.Trace.objects.values_list("pk", flat=True)[:3]
    models.Trace.objects.filter(pk__in=list(ids)).update(state="incomplete")
    taken = releases.sample(Release(first, "1.0"))
    assert (len(taken.rows), taken.left_out) == (77, 3)


def test_requests_that_wait_for_their_analysis_are_told(first: models.App) -> None:
    made = one(9_999, "1.0")
    store.store_spans(first.project, made.spans, now=AFTERWARDS)
    assert "Not analysed yet: 1 requests of the project; see --wait." in run()[1]
    assert as_json("--wait", "1")[1]["waiting"] == 1
    pipeline.analyze_due(lambda: AFTERWARDS + timedelta(hours=1))
    document = as_json("--wait", "60")[1]
    assert (document["waiting"], document["requests"]) == (0, 81)


def test_number_of_queries_is_fixed(
    first: models.App, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    freeze("1.0")
    send(first, "2.0")
    release, (baseline,) = Release(first, "2.0"), releases.baselines(first)
    with django_assert_num_queries(4):
        gate.judge(release, releases.sample(release), baseline, rules=gate.USUAL_RULES)


def test_baselines_are_listed(first: models.App) -> None:
    out = StringIO()
    call_command("baseline", "shop", "--list", stdout=out)
    freeze("1.0")
    call_command("baseline", "shop", "--list", stdout=out)
    nothing, line = out.getvalue().splitlines()
    assert nothing == "No baseline was frozen yet."
    assert line.startswith("release 1.0, 80 requests, end-to-end p95 1.0")
