"""`manage.py bench_ingest`: what it prints, and that it leaves nothing behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import psutil

from tests.running import ROOT

COMMAND = (sys.executable, "manage.py", "bench_ingest", "--spans=1200", "--rounds=1", "--seconds=1")


def test_all_is_measured_in_one_run_and_repeats_are_not_stored() -> None:
    run = subprocess.run(
        [*COMMAND, "--rate=600"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    head, *rows = run.stdout.splitlines()
    assert head == "Medians of 1 bursts of 1200 spans over 4 connections"
    assert rows[0].split() == ["full", "timings_only", "reference"]
    (cost,) = (row.split() for row in rows if row.startswith("CPU us a span, otlp"))
    assert min(map(int, cost[-3:])) > 0
    (repeat,) = (row for row in rows if row.startswith("The same spans again"))
    assert repeat.endswith(" 0 stored.")
    assert any(row.startswith("Steady ") for row in rows)


def test_what_it_started_ends_with_it() -> None:
    process = subprocess.Popen(COMMAND, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    with process:
        programs = wait_for_children(process, "tracebudget.bench.reference_wsgi:application")
        process.send_signal(signal.SIGTERM)
    _, alive = psutil.wait_procs(programs, timeout=10)
    assert not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]


def wait_for_children(process: subprocess.Popen[bytes], word: str) -> list[psutil.Process]:
    """All that it started, once one of them has `word` on its command line, twice."""
    deadline = time.monotonic() + 60
    while True:
        assert time.monotonic() < deadline
        children = psutil.Process(process.pid).children(recursive=True)
        if sum(has_word(child, word) for child in children) > 1:
            return children
        time.sleep(0.1)


def has_word(process: psutil.Process, word: str) -> bool:
    try:
        return word in process.cmdline()
    except psutil.Error:
        return False
