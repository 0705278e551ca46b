"""The status page and /metrics: what they say is so, and who may read it."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from tests import otlp
from tests.running import ROOT
from tests.store.spans import two_turns
from tracebudget import keys, models, pipeline, store
from tracebudget.queries.status import arrivals, queue

pytestmark = pytest.mark.django_db
SECOND = timedelta(seconds=1)


@pytest.fixture
def project(db: None) -> models.Project:
    return models.Project.objects.create(slug="shop", name="Shop", privacy=models.Privacy.FULL)


@pytest.fixture
def member(project: models.Project) -> User:
    user = User.objects.create_user("member")
    models.Membership.objects.create(project=project, user=user)
    return user


def arrive(project: models.Project, ago: timedelta, *, number: int = 1) -> None:
    spans = two_turns(trace_id=f"{number:032x}")
    store.store_spans(project, spans, now=timezone.now() - ago)


# --- figures --------------------------------------------------------------------------------------


def test_rates_are_of_the_last_five_minutes(project: models.Project) -> None:
    for number, minutes in enumerate((1, 2, 4, 60), start=1):
        arrive(project, timedelta(minutes=minutes), number=number)
    seen = arrivals(now=timezone.now())
    assert seen.requests * 300 == pytest.approx(3)
    assert seen.spans * 300 == pytest.approx(15)
    assert seen.lag_p50_ns is None


def test_lag_is_from_the_last_span_to_its_analysis(project: models.Project) -> None:
    arrive(project, 10 * SECOND)
    now = timezone.now()
    pipeline.analyze_due(lambda: now)
    models.Trace.objects.update(last_seen_at=now - 7 * SECOND)
    assert arrivals(now=now).lag_p95_ns == 7 * 10**9


def test_queue_tells_waiting_from_due(project: models.Project) -> None:
    arrive(project, 60 * SECOND)
    arrive(project, 0 * SECOND, number=2)
    now = timezone.now()
    seen = queue(now=now)
    assert (seen.waiting, seen.due, seen.is_late) == (2, 1, True)
    pipeline.analyze_due(lambda: now)
    assert queue(now=now).oldest_due_ns is None


# --- the page -------------------------------------------------------------------------------------


def page(client: Client, user: User) -> str:
    client.force_login(user)
    return client.get("/p/shop/status/").content.decode()


def test_page_says_that_all_is_well(client: Client, member: User) -> None:
    assert "Everything that arrived is analysed, or about to be." in page(client, member)


def test_page_says_what_is_late_and_what_failed(
    client: Client, member: User, project: models.Project
) -> None:
    arrive(project, 60 * SECOND)
    models.Trace.objects.update(failure="ValueError: <odd>")
    said = page(client, member)
    assert "Analysis is behind" in said
    assert "ValueError: &lt;odd&gt;" in said


def test_stranger_finds_no_status(client: Client, project: models.Project) -> None:
    client.force_login(User.objects.create_user("stranger"))
    assert client.get("/p/shop/status/").status_code == 404


def test_failures_of_another_project_are_not_shown(
    client: Client, member: User, project: models.Project
) -> None:
    other = models.Project.objects.create(slug="other", name="Other")
    arrive(other, 60 * SECOND)
    models.Trace.objects.update(failure="theirs")
    assert "theirs" not in page(client, member)


def test_page_costs_the_same_whatever_there_is(
    client: Client,
    member: User,
    project: models.Project,
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    client.force_login(member)
    for number in range(1, 4):
        with django_assert_num_queries(12):
            client.get("/p/shop/status/")
        arrive(project, 60 * SECOND, number=number)
        models.Trace.objects.update(failure="odd")


# --- /metrics -------------------------------------------------------------------------------------


def value_of(answer: bytes, name: str) -> float:
    (line,) = [line for line in answer.decode().splitlines() if line.startswith(f"{name} ")]
    return float(line.rpartition(" ")[2])


def test_metrics_count_exports_spans_and_what_waits(
    client: Client, project: models.Project
) -> None:
    def read() -> bytes:
        return client.get("/metrics").content

    _, key = keys.create_key(project, "test", models.IngestKey)
    before = read()
    client.post(
        "/v1/traces",
        otlp.recorded(otlp.two_turns),
        content_type=otlp.PROTOBUF,
        headers={"x-api-key": key},
    )
    after = read()
    for name, more in (
        ('tracebudget_spans_total{outcome="taken"}', 5),
        ('tracebudget_http_exports_total{status="200"}', 1),
        ('tracebudget_http_export_seconds_count{status="200"}', 1),
    ):
        was = value_of(before, name) if name.encode() in before else 0
        assert value_of(after, name) - was == more
    assert value_of(after, "tracebudget_queue_traces") == 1
    assert value_of(after, "tracebudget_database_bytes") > 0


def test_counts_of_other_processes_are_added(client: Client) -> None:
    """As of a worker: the same counter, in a process of its own."""
    name = 'tracebudget_analyses_total{outcome="of another"}'
    count = "from tracebudget.metrics import ANALYSES; ANALYSES.labels('of another').inc(2)"
    for _ in range(2):
        subprocess.run([sys.executable, "manage.py", "shell", "-c", count], check=True)
    assert value_of(client.get("/metrics").content, name) == 4


def test_what_the_operations_guide_wants_watched_is_there(client: Client) -> None:
    guide = (ROOT / "docs" / "operations.md").read_text()
    named = re.findall(r"^\| `(?:increase\()?(tracebudget_\w+)", guide, flags=re.MULTILINE)
    client.post("/v1/traces")  # whatever the answer, it is counted
    answer = client.get("/metrics").content.decode()
    assert len(named) > 3
    assert {name for name in named if f"\n{name}" not in answer} == set()


@pytest.mark.parametrize(
    ("address", "headers"),
    [
        ("203.0.113.7", {}),
        ("10.0.0.1", {}),
        ("127.0.0.1", {"X-Forwarded-For": "203.0.113.7"}),
        ("127.0.0.1", {"Via": "1.1 proxy"}),
    ],
)
def test_without_a_token_this_machine_alone_may_read(
    client: Client, address: str, headers: dict[str, str]
) -> None:
    assert client.get("/metrics", REMOTE_ADDR=address, headers=headers).status_code == 403


def test_token_opens_it_from_anywhere_and_nothing_else_does(
    client: Client, settings: Settings
) -> None:
    settings.METRICS_TOKEN = "scrape"

    def answer(token: str) -> Any:
        headers = {"Authorization": f"Bearer {token}"}
        return client.get("/metrics", REMOTE_ADDR="203.0.113.7", headers=headers)

    good = answer("scrape")
    assert good.status_code == 200
    assert good.headers["Content-Type"].startswith("text/plain")
    assert answer("other").status_code == 403
    assert client.get("/metrics").status_code == 403
