"""`manage.py ingest`: OTLP files into a project, through the same door as exports."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError
from django.utils import timezone

from ingest.errors import OtlpError
from ingest.intake import latest_ns, take_in
from ingest.otlp import read_file
from ingest.receipts import Stream
from tracebudget import models
from tracebudget.runtime.first_start import PROJECT

UNREADABLE = 2  # exit status when a file could not be read
TELL_EVERY_SECONDS = 2.0


class Command(BaseCommand):
    help = "Store OTLP files (JSON, protobuf, gzip, JSON lines; - is standard input) in a project."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", metavar="FILE")
        parser.add_argument("--project", default=PROJECT, help=f"its slug (default: {PROJECT})")

    def handle(self, *args: Any, files: list[str], project: str, **options: Any) -> None:
        try:
            into = _project(project)
            failed = [file for file in files if not self._store(file, into)]
        except OperationalError as error:
            raise CommandError(
                f"The database does not answer: {error}. Start it (`manage.py up`) and give the"
                " same files again: what is stored already is not stored twice."
            ) from error
        if failed:
            sys.exit(UNREADABLE)

    def _store(self, file: str, project: models.Project) -> bool:
        """Store what can be read of a file; whether that was all of it."""
        stored, told_at = 0, time.monotonic()
        stream = Stream(project, models.Way.FILE, models.Signal.TRACES)
        try:
            for export in read_file(_source(file), latest_ns=latest_ns(timezone.now())):
                take_in(export, stream, now=timezone.now())
                stored += export.stored
                if message := export.message():
                    self.stderr.write(f"{file}: {message}")
                if time.monotonic() - told_at >= TELL_EVERY_SECONDS:
                    self.stderr.write(f"{file}: {stored} spans so far")
                    told_at = time.monotonic()
        except OtlpError as error:
            self.stderr.write(f"{file}: {error}")
            return False
        finally:
            self.stdout.write(f"{file}: {stored} spans in project {project.slug}")
        return True


def _project(slug: str) -> models.Project:
    found = models.Project.objects.filter(slug=slug).first()
    if found is None:
        raise CommandError(f"There is no project {slug!r}.")
    return found


def _source(file: str) -> Path | bytes:
    return sys.stdin.buffer.read() if file == "-" else Path(file)
