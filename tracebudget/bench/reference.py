"""Runs the bare reference beside the product, on the product's own database server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import psutil
from django.conf import settings

from tracebudget.bench.stack import Stack, cpu_seconds, free_ports
from tracebudget.runtime import child, programs
from tracebudget.runtime.addresses import listens

START_SECONDS = 30
TABLE = """
    CREATE TABLE bench_reference (
        day date NOT NULL, trace_id bigint NOT NULL, digest bytea NOT NULL,
        span_count integer NOT NULL, head bytea NOT NULL, tail bytea NOT NULL,
        PRIMARY KEY (day, trace_id, digest)
    );
    ALTER TABLE bench_reference ALTER COLUMN head SET STORAGE EXTERNAL;
    ALTER TABLE bench_reference ALTER COLUMN tail SET STORAGE PLAIN;
"""


class Reference(NamedTuple):
    """The running reference."""

    address: str
    process: psutil.Process

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.process)


@contextmanager
def running(stack: Stack) -> Iterator[Reference]:
    """Processes and threads as the product's, and connections spread over them like its own."""
    stack.database.execute(TABLE)
    (port,) = free_ports(1)
    command = programs.granian(
        "reference",
        "tracebudget.bench.reference_wsgi",
        port=port,
        processes=settings.OTLP_PROCESSES,
    )
    environment = ("env", f"DATABASE_URL={stack.database_url}")
    command = replace(command, argv=(*environment, *command.argv))
    with (
        TemporaryDirectory() as directory,
        child.running(command, log=Path(directory) / "log") as process,
    ):
        deadline = time.monotonic() + START_SECONDS
        while not listens("127.0.0.1", port):
            if time.monotonic() > deadline:
                raise RuntimeError("The reference did not start.")
            time.sleep(0.1)
        yield Reference(f"127.0.0.1:{port}", psutil.Process(process.pid))
