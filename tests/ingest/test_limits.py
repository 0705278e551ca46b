"""A key's bucket: what it holds, when it is empty, and how long until it is not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pytest_django import Settings

from ingest import limits
from ingest.errors import OtlpError
from ingest.limits import BURST_SECONDS
from tests import otlp
from tests.ingest.exporter import Exporter, error_message
from tests.otlp import PROTOBUF
from tracebudget import models

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RATE = 100
KEY = models.IngestKey(pk=1, max_spans_per_second=RATE)
BODY = otlp.recorded(otlp.two_turns)


def send(spans: int, *, at: float, key: models.IngestKey = KEY) -> int | None:
    """Seconds to wait, None for an export that was let in."""
    now = NOW + timedelta(seconds=at)
    try:
        limits.require_room(key, now=now)
    except OtlpError as error:
        return error.retry_after
    limits.spend(key, spans, now=now)
    return None


def test_a_sender_at_its_rate_is_never_refused() -> None:
    assert {send(RATE, at=second) for second in range(100)} == {None}


def test_a_burst_is_let_in_and_the_rest_waits_for_its_rate() -> None:
    assert {send(RATE, at=0) for _ in range(BURST_SECONDS)} == {None}
    assert send(RATE, at=0) == 1
    assert send(RATE, at=0.5) is None
    assert send(RATE, at=0.5) == 1


def test_an_export_larger_than_the_bucket_is_let_in_once_and_paid_for() -> None:
    assert send(RATE * 60, at=0) is None
    assert send(1, at=0) == 51
    assert send(1, at=49) == 2
    assert send(1, at=51) is None


def test_keys_do_not_share_a_bucket() -> None:
    assert send(RATE * 60, at=0) is None
    assert send(RATE, at=0, key=models.IngestKey(pk=2, max_spans_per_second=RATE)) is None


def test_the_setting_holds_for_keys_without_a_limit_of_their_own(settings: Settings) -> None:
    plain = models.IngestKey(pk=3)
    settings.MAX_SPANS_PER_SECOND = 1
    assert send(100, at=0, key=plain) is None
    assert send(1, at=0, key=plain) == 91
    settings.MAX_SPANS_PER_SECOND = 0
    assert send(1, at=0, key=plain) is None


def test_a_clock_that_is_set_back_fills_and_empties_nothing() -> None:
    assert send(RATE * BURST_SECONDS, at=100) is None
    assert send(1, at=0) == 1
    assert send(1, at=1) is None


def test_over_http_it_is_429_with_a_time_to_wait(exporter: Exporter) -> None:
    models.IngestKey.objects.update(max_spans_per_second=1)
    assert [exporter.send(BODY, PROTOBUF).status_code for _ in range(3)] == [200, 200, 429]
    response = exporter.send(b"is not even read", PROTOBUF)
    assert response.headers["Retry-After"] == "1"
    assert "MAX_SPANS_PER_SECOND" in error_message(response)


def test_logs_and_metrics_cost_nothing(exporter: Exporter) -> None:
    models.IngestKey.objects.update(max_spans_per_second=1)
    for _ in range(20):
        assert exporter.send(BODY, PROTOBUF, path="/v1/logs").status_code == 200
    assert exporter.send(BODY, PROTOBUF).status_code == 200


@pytest.mark.parametrize("spans", [0, 1])
def test_an_empty_bucket_tells_at_least_a_second(spans: int) -> None:
    assert send(RATE * BURST_SECONDS + spans, at=0) is None
    assert send(1, at=0) == 1
