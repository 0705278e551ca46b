"""Figures over many requests: added up from rows, whole, as often as the requests are there."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from django.conf import settings
from django.db import connections

from tests.web.traces import (
    AFTERWARDS,
    MS,
    START,
    Recorder,
    arrive,
    nested_agents,
    serial_tools,
    worked_example,
)
from tracebudget import models, store
from tracebudget.models import Level
from tracebudget.series import start_of
from tracebudget.store import rollups
from tracebudget.store.rollups import ADVISORY_LOCK

HOUR_MS = 3_600_000


def arrive_only(project: models.Project, *requests: Recorder) -> None:
    """Stored and analysed, and not added up."""
    arrive(project, *requests, add_up=False)


def refreshed(at: datetime = AFTERWARDS) -> int:
    """How many stretches were added up by a worker with a clock that stands still."""
    return store.refresh_rollups(lambda: at)


COLUMNS = (
    "level", "start", "environment", "version", "metric", "name", "total", "count", "sum", "bins",
    "counts", "least", "most", "also",
)  # fmt: skip


def figures(project: models.Project, app: str = "shop") -> list[dict[str, object]]:
    """All that is known of an app's requests together."""
    rows = models.Rollup.objects.filter(app__project=project, app__name=app)
    return list(rows.order_by(*COLUMNS[:6]).values(*COLUMNS))


def row(metric: str, name: str = "", level: Level = Level.DAY) -> models.Rollup:
    return models.Rollup.objects.get(level=level, metric=metric, name=name)


@pytest.mark.parametrize("level", Level)
def test_a_request_is_in_every_level_once(project: models.Project, level: Level) -> None:
    arrive_only(project, worked_example())
    assert refreshed() == 1
    request = row("end_to_end", level=level)
    assert request.start == start_of(START, level)
    assert (request.total, request.count, int(request.sum)) == (1, 1, 461 * MS)
    assert request.also["tool_ns"] == 184 * MS


def test_nothing_touched_nothing_done(project: models.Project) -> None:
    arrive_only(project, worked_example())
    assert (refreshed(), refreshed()) == (1, 0)


def test_analysed_twice_counts_once(project: models.Project) -> None:
    """One project gets a request in two parts and adds up after each; another gets it at once."""
    other = models.Project.objects.create(slug="other", name="Other")
    first, late = worked_example(), worked_example()
    first.spans, late.spans = first.spans[:-1], late.spans[-1:]
    for minute, part in enumerate((first, late)):
        arrive_only(project, part)
        refreshed(AFTERWARDS + timedelta(minutes=minute))
    arrive_only(other, worked_example())
    refreshed()
    assert figures(project) == figures(other) != []


def test_longer_stretches_are_the_sum_of_their_parts(project: models.Project) -> None:
    """Requests at 12:00, 12:00, 13:00 and 20:00: a day of one series, in three hours of it."""
    requests = (
        worked_example(1),
        serial_tools(2, at_ms=100),
        worked_example(3, at_ms=HOUR_MS),
        serial_tools(4, at_ms=8 * HOUR_MS),
    )
    for minute, request in enumerate(requests):
        arrive_only(project, request)
        refreshed(AFTERWARDS + timedelta(minutes=minute))
    assert row("end_to_end").total == 4
    assert row("end_to_end").sum == 2 * (461 + 4210) * MS
    assert (row("model_call", "lpx").total, row("turn_ttft", "1").total) == (10, 4)
    assert sorted(
        models.Rollup.objects.filter(metric="tool_call", level=Level.DAY).values_list(
            "name", flat=True
        )
    ) == ["get_user_info", "save_memory", "search_invoice", "search_order", "search_shipment"]
    hours = models.Rollup.objects.filter(level=Level.HOUR, metric="end_to_end")
    assert sorted(hours.values_list("total", flat=True)) == [1, 1, 2]


def test_a_finding_counts_once_a_request(project: models.Project) -> None:
    arrive_only(project, serial_tools(1), serial_tools(2, at_ms=50))
    refreshed()
    (found,) = models.Rollup.objects.filter(
        level=Level.DAY, metric="finding", name__startswith="serial_tools "
    )
    assert found.name == "serial_tools search_invoice, search_order, search_shipment"
    assert found.total == 2
    assert row("finding_code", "serial_tools").also == {"turn 1": 2}
    assert found.sum == sum(
        f.saving_ns or 0 for f in models.Finding.objects.filter(code="serial_tools")
    )


def test_releases_stay_apart(project: models.Project) -> None:
    arrive_only(
        project,
        worked_example(1, **{"service.version": "1"}),
        worked_example(2, **{"service.version": "2", "deployment.environment.name": "staging"}),
    )
    refreshed()
    rows = models.Rollup.objects.filter(level=Level.DAY, metric="end_to_end")
    assert sorted(rows.values_list("environment", "version", "total")) == [
        ("", "1", 1),
        ("staging", "2", 1),
    ]


def test_a_request_that_moves_to_another_app_leaves_the_first(project: models.Project) -> None:
    """Its root came last, and is of another service than all that came before."""
    whole = nested_agents(1, app="team")
    part = nested_agents(1, app="part")
    part.spans, whole.spans = part.spans[1:], whole.spans[:1]
    arrive_only(project, part)
    refreshed()
    assert figures(project, "part")
    arrive_only(project, whole)
    refreshed(AFTERWARDS + timedelta(minutes=1))
    assert not figures(project, "part")
    assert figures(project, "team")


def test_full_stretches_are_taken_a_few_at_a_time(
    project: models.Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two requests in each of three stretches, and room for three: first two stretches."""
    monkeypatch.setattr(rollups, "REQUESTS_AT_ONCE", 3)
    monkeypatch.setattr(settings, "ROLLUP_SLICE_SECONDS", 1)
    ten_minutes = 600_000
    for n in range(3):
        first = worked_example(2 * n + 1, at_ms=n * ten_minutes)
        arrive_only(project, first, worked_example(2 * n + 2, at_ms=n * ten_minutes + 1))
    moments = iter(
        [AFTERWARDS, AFTERWARDS, AFTERWARDS, AFTERWARDS, AFTERWARDS + timedelta(hours=1)]
    )
    assert store.refresh_rollups(lambda: next(moments)) == 2
    assert refreshed() == 1


def test_a_busy_stretch_waits_the_longer_the_more_requests_it_has(
    project: models.Project,
) -> None:
    arrive_only(project, worked_example(1))
    refreshed()
    models.Rollup.objects.filter(metric="end_to_end").update(total=60_000)
    arrive_only(project, worked_example(2, at_ms=5))
    assert refreshed(AFTERWARDS + timedelta(seconds=59)) == 0
    assert refreshed(AFTERWARDS + timedelta(seconds=60)) == 1
    assert row("end_to_end").total == 2


@pytest.fixture
def other_process(transactional_db: None) -> Iterator[None]:
    """Adds up at the same time: it holds the lock."""
    other = connections.create_connection("default")
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [ADVISORY_LOCK])
    yield
    other.close()


def test_one_process_at_a_time_adds_up(other_process: None) -> None:
    project = models.Project.objects.create(slug="busy", name="Busy")
    arrive_only(project, worked_example(1))
    assert refreshed() == 0
    assert models.Touched.objects.count() == 1
