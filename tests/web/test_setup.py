"""The setup page: what it waits for, what it says is in the way, and where to send."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from tests.web.traces import ARRIVAL, arrive, worked_example
from tracebudget import keys, models, store
from tracebudget.queries.arrival import Stage, arrival

PAGE = "/p/shop/setup/"
QUERIES = 7  # session, user, project; traces twice, receipts; owner or not; keys


@pytest.fixture
def owner(member: User) -> User:
    models.Membership.objects.update(role=models.Role.OWNER)
    return member


def receipt(project: models.Project, **more: object) -> None:
    """What ingest writes down of an export."""
    fields: dict[str, object] = {
        "at": timezone.now(), "way": models.Way.HTTP, "signal": models.Signal.TRACES,
        "privacy": project.privacy, "export_count": 1, "span_count": 0, "refused": {},
        "repaired": {}, "errors": {}, "fates": [],
    }  # fmt: skip
    models.Receipt.objects.create(project=project, **(fields | more))


def test_light_tells_how_far_the_first_trace_has_come(project: models.Project) -> None:
    seen = [arrival(project).stage]
    receipt(project, signal=models.Signal.LOGS)
    seen.append(arrival(project).stage)
    receipt(project, errors={"No protobuf.": 2})
    seen.append(arrival(project).stage)
    store.store_spans(project, worked_example().spans, now=ARRIVAL)
    seen.append(arrival(project).stage)
    arrive(project, worked_example())
    seen.append(arrival(project).stage)
    assert seen == list(reversed(Stage))


def test_refused_exports_say_why_and_how_often(page: Client, project: models.Project) -> None:
    receipt(project, errors={"No protobuf.": 2})
    receipt(project, errors={"No protobuf.": 1}, refused={"no trace id": 5})
    content = page.get(PAGE).content.decode()
    assert re.search(r"<b>3 ×</b> No protobuf\.", content)
    assert re.search(r"<b>5 ×</b> no trace id", content)


def test_empty_project_opens_on_what_to_do(page: Client, project: models.Project) -> None:
    content = page.get("/p/shop/").content.decode()
    assert "Waiting for your first trace" in content
    assert "data-live" in content
    arrive(project, worked_example())
    content = page.get("/p/shop/?range=all").content.decode()
    assert 'id="arrival"' not in content
    assert "Are users waiting" in content


def test_light_no_longer_asks_when_it_is_green(page: Client, project: models.Project) -> None:
    arrive(project, worked_example())
    content = page.get(PAGE).content.decode()
    assert "Traces arrive" in content
    assert "data-live" not in content


def test_addresses_are_those_by_which_the_reader_came(
    page: Client, project: models.Project, settings: object
) -> None:
    settings.ALLOWED_HOSTS = ["trace.example"]  # type: ignore[attr-defined]
    content = page.get(PAGE, headers={"host": "trace.example:8000"}).content.decode()
    assert "OTEL_EXPORTER_OTLP_ENDPOINT=http://trace.example:4318" in content
    assert "OTEL_EXPORTER_OTLP_ENDPOINT=http://trace.example:4317" in content
    assert "send to http://trace.example:8000 instead" in content


def test_live_keys_are_named_and_dead_ones_are_not(page: Client, project: models.Project) -> None:
    live, secret = keys.create_key(project, "production", models.IngestKey)
    dead, _ = keys.create_key(project, "leaked", models.IngestKey)
    models.IngestKey.objects.filter(pk=dead.pk).update(revoked_at=timezone.now())
    content = page.get(PAGE).content.decode()
    assert f"{live.prefix}…" in content
    assert secret not in content
    assert "leaked" not in content


def test_number_of_queries_is_fixed(
    page: Client, project: models.Project, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(3):
        keys.create_key(project, "production", models.IngestKey)
        receipt(project, at=timezone.now() - timedelta(minutes=1))
    with django_assert_num_queries(QUERIES + 1):
        page.get(PAGE)


def test_stranger_sees_nothing(stranger: Client, project: models.Project) -> None:
    assert stranger.get(PAGE).status_code == 404
