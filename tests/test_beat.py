"""The tick that does not pile up."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from celery.schedules import schedule

from tracebudget.beat import MAX_WAITING, PatientScheduler

TASK = "tracebudget.tasks.analyze_due"


@pytest.fixture
def app(broker: str) -> Iterator[Celery]:
    """A Celery app with a queue of its own."""
    app = Celery("test_beat", broker=broker, set_as_current=False)
    app.conf.update(task_default_queue="test_beat", beat_schedule={})
    yield app
    app.control.purge()
    app.close()


def scheduler_of(app: Celery) -> PatientScheduler:
    return PatientScheduler(app=app, lazy=True)


def tick(scheduler: PatientScheduler) -> None:
    scheduler.apply_async(
        scheduler.Entry(name="tick", task=TASK, schedule=schedule(1.0), app=scheduler.app)
    )


def waiting(app: Celery) -> int:
    with app.connection_for_read() as connection:
        channel: Any = connection.default_channel
        count: int = channel.queue_declare("test_beat").message_count
        return count


def test_ticks_wait_for_a_worker_but_only_a_few(app: Celery) -> None:
    scheduler = scheduler_of(app)
    for _ in range(3 * MAX_WAITING):
        tick(scheduler)
    assert waiting(app) == MAX_WAITING


def test_ticks_go_on_when_a_worker_has_taken_them(app: Celery) -> None:
    scheduler = scheduler_of(app)
    for _ in range(3 * MAX_WAITING):
        tick(scheduler)
    app.control.purge()
    tick(scheduler)
    assert waiting(app) == 1


def test_broker_that_is_away_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    app = Celery("test_beat", broker="redis://127.0.0.1:1/0", set_as_current=False)
    app.conf.update(broker_transport_options={"max_retries": 0})
    scheduler = scheduler_of(app)
    with caplog.at_level(logging.WARNING):
        tick(scheduler)
        tick(scheduler)
    assert [record.message[:28] for record in caplog.records] == ["The broker does not answer; "]
