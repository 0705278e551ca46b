"""The tasks, in a real worker behind a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from subprocess import Popen

import psutil
import pytest
from django.conf import settings
from django.utils import timezone

from tests.store.spans import span, two_turns
from tracebudget import models, partition, store, tasks
from tracebudget.runtime import postgres, programs
from tracebudget.runtime.child import Command, kill_group

RunProgram = Callable[[Command], "Popen[bytes]"]

WAIT_SECONDS = 30


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def all_analyzed() -> bool:
    return not models.Trace.objects.filter(analyzed_at__isnull=True).exists()


def test_a_tick_makes_a_worker_analyse_what_is_due(
    run_program: RunProgram, project: models.Project
) -> None:
    a_minute_ago = timezone.now() - timedelta(minutes=1)
    store.store_spans(project, two_turns(), now=a_minute_ago)
    run_program(programs.worker())
    tasks.analyze_due.delay()
    wait_until(all_analyzed)
    assert models.Trace.objects.get().end_to_end_ns == 461_000_000


def test_what_a_killed_worker_had_claimed_is_analysed_by_the_next(
    run_program: RunProgram, project: models.Project
) -> None:
    """The worker is killed as soon as it has claimed something; then the leases run out."""
    a_minute_ago = timezone.now() - timedelta(minutes=1)
    spans = [span(number, trace=number) for number in range(1, 2001)]
    store.store_spans(project, spans, now=a_minute_ago)
    worker = run_program(programs.worker())
    tasks.analyze_due.delay()
    claimed = models.Due.objects.filter(attempts__gt=0)
    wait_until(claimed.exists)
    kill_group(worker)
    claimed.update(due_at=timezone.now())  # as if the lease had passed
    run_program(programs.worker())
    tasks.analyze_due.delay()
    wait_until(all_analyzed)
    assert models.Analysis.objects.count() == 2000


def test_workers_give_way_to_ingest(run_program: RunProgram) -> None:
    worker = psutil.Process(run_program(programs.worker()).pid)
    usual = psutil.Process().nice()
    wait_until(lambda: any(c.nice() > usual for c in worker.children(recursive=True)))
    group = Path(f"/proc/{worker.pid}/autogroup")
    if group.exists() and group.read_text():  # sessions share the cores; niceness is not enough
        wait_until(lambda: group.read_text().endswith(f"nice {settings.WORKER_NICENESS}\n"))


def test_partitions_are_made_ahead(run_program: RunProgram, project: models.Project) -> None:
    run_program(programs.worker())
    tasks.create_partitions.delay()
    last = timezone.now().date() + timedelta(days=partition.DAYS_AHEAD)
    wait_until(lambda: partition.exists(last))


def test_a_database_that_is_away_costs_a_line_of_the_log(
    run_program: RunProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tick comes each second, and hours of it must not bury what else is in the log."""
    monkeypatch.setenv("DATABASE_URL", postgres.database_url(tmp_path))
    log = settings.DATA_DIR / "worker.log"
    before = log.stat().st_size if log.exists() else 0
    run_program(programs.worker())
    tasks.analyze_due.delay()
    wait_until(lambda: "analyze_due waits for the database" in log.read_text()[before:])
    assert "Traceback" not in log.read_text()[before:]
