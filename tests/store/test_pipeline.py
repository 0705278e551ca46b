"""From stored spans to conclusions: the worked example, late spans, faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import orjson
import pytest
from pytest_django import DjangoAssertNumQueries, Settings

from tests.store.spans import NOW, span, two_turns
from tracebudget import models, pipeline, store
from tracebudget.conclusions import conclude
from tracebudget.core.analysis import analyze
from tracebudget.core.span import Span
from tracebudget.packing import decompress
from tracebudget.queries import traces as queries
from tracebudget.store import Analyzed

SECOND = timedelta(seconds=1)
LATER = NOW + 60 * SECOND


@pytest.fixture(autouse=True)
def _pauses(settings: Settings) -> None:
    settings.QUIET_SECONDS, settings.LEASE_SECONDS, settings.MAX_ATTEMPTS = 2, 20, 3


def at(moment: datetime) -> Callable[[], datetime]:
    """A clock that stands still."""
    return lambda: moment


def arrive(project: models.Project, spans: list[Span], now: datetime = NOW) -> models.Trace:
    store.store_spans(project, spans, now=now)
    return models.Trace.objects.get(project=project, trace_id=spans[0].trace_id)


def analyzed(project: models.Project, spans: list[Span]) -> models.Trace:
    trace = arrive(project, spans)
    assert pipeline.analyze_due(at(LATER)) == 1
    trace.refresh_from_db()
    return trace


def document(trace: models.Trace) -> dict[str, Any]:
    row = models.Analysis.objects.get(trace=trace)
    found: dict[str, Any] = orjson.loads(decompress(bytes(row.document)))
    return found


def test_the_worked_example_fills_the_summary(project: models.Project) -> None:
    trace = analyzed(project, two_turns())
    assert trace.app is not None
    assert (trace.app.name, trace.app.slug) == ("shop-agent", "shop-agent")
    assert (trace.name, trace.state, trace.session_id) == (
        "invoke_agent support",
        "complete",
        "s-1",
    )
    assert (trace.analyzed_at, trace.failure, trace.has_error) == (LATER, "", False)
    assert not models.Due.objects.exists()
    assert trace.end_to_end_ns == 461_000_000
    assert (trace.prefill_ns, trace.decode_ns) == (120_000_000, 152_000_000)
    assert (trace.tool_ns, trace.framework_ns, trace.wait_ns) == (184_000_000, 5_000_000, 0)
    assert (trace.turn_count, trace.model_call_count, trace.tool_call_count) == (2, 2, 2)
    assert (trace.ttft_count, trace.worst_ttft_ns) == (2, 62_000_000)
    assert (trace.input_tokens, trace.output_tokens) == (1240 + 1548, 96 + 58)
    assert trace.agent_names == ["support"]
    assert trace.model_names == ["groq-3-lpx"]
    assert trace.tool_names == ["get_user_info", "search_order"]
    assert trace.started_at is not None
    assert trace.started_at.isoformat() == "2026-01-01T00:00:00+00:00"


def test_the_document_is_stored_as_the_core_wrote_it(project: models.Project) -> None:
    spans = two_turns()
    trace = analyzed(project, spans)
    assert document(trace) == analyze(spans, project="shop").document()
    assert models.Analysis.objects.get(trace=trace).revision == 1


def test_calls_become_rows(project: models.Project) -> None:
    trace = analyzed(project, two_turns())
    calls = models.ModelCall.objects.filter(trace=trace).order_by("position")
    assert [(c.turn, c.ttft_ns, c.ttft_source, c.tpot_ns) for c in calls] == [
        (0, 58_000_000, "measured", 1_189_474),
        (1, 62_000_000, "measured", 684_211),
    ]
    assert calls[1].started_at - calls[0].started_at == timedelta(milliseconds=360)
    assert {c.app_id for c in calls} == {trace.app_id}
    tools = models.ToolCall.objects.filter(trace=trace).order_by("name")
    assert [(t.name, t.duration_ns, t.is_error, t.is_timeout) for t in tools] == [
        ("get_user_info", 119_000_000, False, False),
        ("search_order", 184_000_000, False, False),
    ]


def test_budgets_of_the_app_become_breaches(project: models.Project) -> None:
    app = models.App.objects.create(project=project, name="shop-agent", slug="shop-agent")
    models.Budget.objects.create(app=app, metric="ttft", limit=60_000_000)
    models.Budget.objects.create(app=app, metric="end_to_end", limit=10**12)
    trace = analyzed(project, two_turns())
    breach = models.Breach.objects.get(trace=trace)
    assert (breach.metric, breach.limit, breach.value) == ("ttft", 60_000_000, 62_000_000)
    assert trace.breached == ["ttft"]
    assert [budget["state"] for budget in document(trace)["budgets"]] == ["within", "over"]


def test_new_budgets_judge_the_latest_requests_again(
    project: models.Project, settings: Settings
) -> None:
    settings.JUDGE_AGAIN_REQUESTS = 2
    for hour in range(3):
        late = [replace(one, trace_id=f"{hour + 1:032x}") for one in moved(two_turns(), hour)]
        analyzed(project, late)
    app = models.App.objects.get()
    models.Budget.objects.create(app=app, metric="end_to_end", limit=1)
    store.judge_again(app, now=LATER)
    assert pipeline.analyze_due(at(LATER)) == 2
    breached = models.Trace.objects.order_by("trace_id").values_list("breached", flat=True)
    assert list(breached) == [[], ["end_to_end"], ["end_to_end"]]


def test_an_analysis_with_old_budgets_is_dropped(project: models.Project) -> None:
    trace = analyzed(project, two_turns())
    assert trace.app is not None
    store.judge_again(trace.app, now=LATER)
    (claim,) = store.claim_due(now=LATER)
    store.judge_again(trace.app, now=LATER)
    result = Analyzed(claim, conclude(analyze(two_turns()).document()))
    store.save_analyses([result], now=LATER)
    assert models.Due.objects.get(trace=trace).due_at == LATER
    assert trace.breached == []


def moved(spans: list[Span], hours: int) -> list[Span]:
    ns = hours * 3600 * 10**9
    return [replace(s, start_ns=s.start_ns + ns, end_ns=s.end_ns + ns) for s in spans]


def test_findings_become_rows(project: models.Project) -> None:
    backwards = span(2, parent=1, end_ns=1)
    trace = analyzed(project, [span(1, end_ns=0), backwards])
    findings = models.Finding.objects.filter(trace=trace)
    assert trace.finding_codes
    assert sorted({finding.code for finding in findings}) == trace.finding_codes


def test_late_spans_are_analysed_with_the_early_ones(project: models.Project) -> None:
    spans = sorted(two_turns(), key=lambda one: one.start_ns)
    early = analyzed(project, spans[:3])
    arrive(project, spans[3:], LATER)
    assert pipeline.analyze_due(at(LATER + 60 * SECOND)) == 1
    late = models.Trace.objects.get(pk=early.pk)
    assert (late.revision, late.model_call_count) == (2, 2)
    assert models.ModelCall.objects.filter(trace=late).count() == 2
    assert document(late) == analyze(spans, project="shop").document()


def test_a_result_of_an_old_revision_is_dropped(project: models.Project) -> None:
    arrive(project, [span(1)])
    (claim,) = store.claim_due(now=LATER)
    due = arrive(project, [span(2, parent=1)], LATER).due.due_at
    result = Analyzed(claim, conclude(analyze([span(1)]).document()))
    store.save_analyses([result], now=LATER)
    trace = models.Trace.objects.get()
    assert trace.analyzed_at is None
    assert trace.due.due_at == due
    assert not models.Analysis.objects.exists()


def test_two_workers_with_one_revision_leave_one_result(project: models.Project) -> None:
    """The first was slower than its lease; both results are the same, and one is kept."""
    spans = two_turns()
    arrive(project, spans)
    (first,) = store.claim_due(now=LATER)
    (second,) = store.claim_due(now=LATER + 60 * SECOND)
    for claim in (second, first):
        result = Analyzed(claim, conclude(analyze(spans).document()))
        store.save_analyses([result], now=LATER)
    assert models.Analysis.objects.count() == 1
    assert models.ModelCall.objects.count() == 2


def test_two_projects_with_one_trace_id_never_see_each_other(project: models.Project) -> None:
    other = models.Project.objects.create(slug="other", name="Other")
    ours, theirs = two_turns(), [span(trace_id=two_turns()[0].trace_id)]
    mine, yours = arrive(project, ours), arrive(other, theirs)
    assert pipeline.analyze_due(at(LATER)) == 2
    assert document(mine) == analyze(ours, project="shop").document()
    assert document(yours) == analyze(theirs, project="other").document()
    for owner, trace, spans in ((project, mine, ours), (other, yours, theirs)):
        assert queries.find_trace(owner, trace.trace_id) == trace
        assert {one.span_id for one in queries.spans(trace)} == {one.span_id for one in spans}
    assert {call.trace_id for call in models.ModelCall.objects.all()} == {mine.pk}
    assert models.App.objects.get(project=project).name == "shop-agent"


def test_apps_with_one_slug_stay_apart(project: models.Project) -> None:
    names = ["Shop Agent", "shop-agent", "Shop agent!", "\u5e97"]
    for number, name in enumerate(names, start=1):
        resource = {"service.name": name}
        arrive(project, [span(trace=number, resource=resource)])
    pipeline.analyze_due(at(LATER))
    apps = models.App.objects.all()
    assert {app.name for app in apps} == set(names)
    assert len({app.slug for app in apps}) == len(names)


def test_monstrous_names_fit_the_columns(project: models.Project) -> None:
    resource = {"service.name": "s" * 5000, "service.version": "v" * 5000}
    attributes = {"session.id": "z" * 9000}
    spans = [span(name="n" * 5000, resource=resource, attributes=attributes)]
    trace = analyzed(project, spans)
    assert trace.app is not None
    assert {len(trace.app.name), len(trace.name or ""), len(trace.version or "")} == {200}
    assert len(trace.app.slug) <= 80


def test_names_from_inside_content_cannot_break_the_row(project: models.Project) -> None:
    """JSON inside an attribute may spell what no Postgres text can hold."""
    name = "a\0b\ud800c"
    summary = conclude(analyze([span()]).document() | {"agents": [name]}).summary
    assert summary["agent_names"] == ["a\ufffdb?c"]


# --- faults ---


def poison(monkeypatch: pytest.MonkeyPatch, fault: Callable[[], object]) -> None:
    """Let the core fail for the trace whose span is called `poison`."""

    def analyze_or_fail(spans: list[Span], **options: Any) -> Any:
        if any(one.name == "poison" for one in spans):
            fault()
        return analyze(spans, **options)

    monkeypatch.setattr(pipeline, "analyze", analyze_or_fail)


def broken() -> None:
    raise ValueError("the core cannot do this")


def test_a_fault_is_noted_and_harms_no_neighbour(
    project: models.Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch, broken)
    bad = arrive(project, [span(trace=1, name="poison")])
    good = [arrive(project, [span(trace=number)]) for number in (2, 3)]
    assert pipeline.analyze_due(at(LATER)) == 3
    bad.refresh_from_db()
    assert bad.failure == "ValueError: the core cannot do this"
    assert bad.analyzed_at is None
    assert models.Analysis.objects.filter(trace__in=good).count() == 2


def test_a_fault_that_passes_is_forgotten(
    project: models.Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken_once:
        poison(broken_once, broken)
        trace = arrive(project, [span(name="poison")])
        pipeline.analyze_due(at(LATER))
    pipeline.analyze_due(at(LATER + 60 * SECOND))
    trace.refresh_from_db()
    assert trace.failure == ""
    assert trace.analyzed_at is not None
    assert not models.Due.objects.exists()


class WorkerKilledError(BaseException):
    """Stands for the end of the process: nothing catches it."""


def killed() -> None:
    raise WorkerKilledError


def test_a_trace_that_kills_its_worker_takes_nobody_with_it_and_is_given_up(
    project: models.Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First all three die together; then each is tried alone, and the two good ones get through."""
    poison(monkeypatch, killed)
    bad = arrive(project, [span(trace=1, name="poison")])
    good = [arrive(project, [span(trace=number)]) for number in (2, 3)]
    deaths, now = 0, LATER
    for _ in range(10):
        now += 60 * SECOND
        try:
            pipeline.analyze_due(at(now))
        except WorkerKilledError:
            deaths += 1
    assert deaths == 3
    assert models.Analysis.objects.filter(trace__in=good).count() == 2
    bad.refresh_from_db()
    assert bad.failure == pipeline.GIVEN_UP
    assert not models.Due.objects.exists()


def test_a_value_that_the_database_refuses_fails_its_own_trace_only(
    project: models.Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def conclude_too_much(document: dict[str, Any]) -> Any:
        name = document["name"]
        return conclude(document | ({"end_to_end_ns": 2**63} if name == "poison" else {}))

    monkeypatch.setattr(pipeline, "conclude", conclude_too_much)
    bad = arrive(project, [span(trace=1, name="poison")])
    good = [arrive(project, [span(trace=number)]) for number in (2, 3)]
    pipeline.analyze_due(at(LATER))
    bad.refresh_from_db()
    assert bad.failure.startswith("DataError")
    assert models.Analysis.objects.filter(trace__in=good).count() == 2


# --- cost ---


def test_a_slow_trace_does_not_hold_the_answers_to_its_neighbours(
    project: models.Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each trace takes three seconds here; the second finds the first one's answer saved."""
    now = LATER
    saved = []

    def slow() -> None:
        nonlocal now
        now += 3 * SECOND
        saved.append(models.Analysis.objects.count())

    poison(monkeypatch, slow)
    for number in (1, 2, 3):
        arrive(project, [span(trace=number, name="poison")])
    pipeline.analyze_due(lambda: now)
    assert saved == [0, 1, 2]


def test_the_time_slice_ends_the_run(project: models.Project, settings: Settings) -> None:
    settings.ANALYZE_BATCH, settings.ANALYZE_SLICE_SECONDS = 1, 10
    for number in range(1, 6):
        arrive(project, [span(trace=number)])
    ticks = iter(LATER + 3 * number * SECOND for number in range(100))
    assert 0 < pipeline.analyze_due(lambda: next(ticks)) < 5


def test_statements_do_not_grow_with_the_batch(
    project: models.Project, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    store.store_spans(project, two_turns(), now=NOW)
    pipeline.analyze_due(at(LATER))
    for _ in range(20):
        store.store_spans(project, two_turns(), now=NOW)
    with django_assert_num_queries(14):
        assert pipeline.analyze_due(at(LATER)) == 20
