"""When the disk is full, and what `manage.py prune` says of it."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.utils import timezone
from pytest_django import Settings

from tests.store.spans import span
from tracebudget import models, partition, store
from tracebudget.queries.disk import HORIZON_DAYS, days_until_full, disk_forecast

NOW = timezone.now()
TODAY = NOW.date()
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("stored", "a_day", "free", "full_in"),
    [
        ({}, 10, 55, 6),
        ({}, 10, 71, None),  # from the eighth day on as much goes as comes
        ({7: 100}, 10, 55, None),  # tomorrow frees ten days
        ({5: 10, 4: 10}, 10, 45, 7),
        ({}, 0, 0, None),
    ],
    ids=["fills up", "retention is enough", "a big day goes", "small days go", "nothing comes"],
)
def test_retention_frees_what_old_days_took(
    settings: Settings, stored: dict[int, int], a_day: int, free: int, full_in: int | None
) -> None:
    """`stored`: bytes by the age of their day."""
    settings.RETENTION_DAYS = 7
    sizes = {TODAY - age * DAY: size for age, size in stored.items()}
    assert days_until_full(sizes, a_day, free, today=TODAY) == full_in


def test_without_retention_every_disk_fills(settings: Settings) -> None:
    settings.RETENTION_DAYS = 0
    assert days_until_full({}, 10, 10 * HORIZON_DAYS - 1, today=TODAY) == HORIZON_DAYS


@pytest.mark.django_db
def test_the_rate_is_that_of_whole_days() -> None:
    partition.create(TODAY)
    assert disk_forecast(now=NOW).bytes_a_day is None
    partition.create(TODAY - DAY)
    forecast = disk_forecast(now=NOW)
    assert forecast.bytes_a_day is not None
    assert 0 < forecast.bytes_a_day <= forecast.database_bytes
    assert forecast.free_bytes is not None


@pytest.mark.django_db
def test_the_disk_of_a_database_elsewhere_is_unknown(settings: Settings) -> None:
    settings.EMBEDDED_DATABASE = False
    partition.create(TODAY - DAY)
    forecast = disk_forecast(now=NOW)
    assert (forecast.free_bytes, forecast.days_until_full) == (None, None)


@pytest.mark.django_db
def test_the_command_tells_and_then_does(settings: Settings) -> None:
    settings.RETENTION_DAYS = 7
    project = models.Project.objects.create(slug="shop", name="Shop")
    store.store_spans(project, [span(1), span(2, parent=1)], now=NOW - 10 * DAY)
    told = run("--dry-run")
    assert "would go: 1 requests with 2 spans, 1 days of tables" in told
    assert models.Trace.objects.exists()
    assert run().replace("deleted", "would go").splitlines()[0] == told.splitlines()[0]
    assert not models.Trace.objects.exists()


def run(*options: str) -> str:
    out = StringIO()
    call_command("prune", *options, stdout=out)
    return out.getvalue()
