"""`manage.py analyze`: OTLP files in, analyses out, without database or server."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ingest.errors import OtlpError
from ingest.otlp import read_file
from tracebudget.budget_file import ALL_APPS, BudgetFileError, read_budgets
from tracebudget.core.analysis import analyze
from tracebudget.core.app import App, Apps
from tracebudget.core.budget import Budget
from tracebudget.core.span import Span
from tracebudget.document import dumps
from tracebudget.summary import summary

UNREADABLE = 2  # exit status when a file could not be read


class SameForAll(Mapping[str, App]):
    """Budgets by app, and for every other app those that hold for all."""

    def __init__(self, budgets: Mapping[str, tuple[Budget, ...]]) -> None:
        self.budgets = budgets

    def __getitem__(self, app: str) -> App:
        return App(budgets=self.budgets.get(ALL_APPS, ()) + self.budgets.get(app, ()))

    def __iter__(self) -> Iterator[str]:
        return iter(self.budgets)

    def __len__(self) -> int:
        return len(self.budgets)


class Command(BaseCommand):
    help = "Analyse OTLP files (JSON, protobuf, gzip, JSON lines; - is standard input)."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", metavar="FILE")
        parser.add_argument("--format", choices=("text", "json"), default="text")
        parser.add_argument("--budgets", type=Path, metavar="FILE", help="budgets, as YAML or JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        apps = SameForAll(_budgets(options["budgets"]))
        unreadable = False
        for file in options["files"]:
            try:
                for document in analyses(file, apps, self.stderr.write):
                    as_json = options["format"] == "json"
                    self.stdout.write(dumps(document).decode() if as_json else summary(document))
            except (OtlpError, OSError) as error:
                self.stderr.write(f"{file}: {error}")
                unreadable = True
        if unreadable:
            sys.exit(UNREADABLE)


def _budgets(path: Path | None) -> Mapping[str, tuple[Budget, ...]]:
    if path is None:
        return {}
    try:
        return read_budgets(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, BudgetFileError) as error:
        raise CommandError(f"{path}: {error}", returncode=UNREADABLE) from error


def analyses(file: str, apps: Apps, warn: Any) -> Iterator[dict[str, Any]]:
    """The analysis object of each trace in a file, in order of their first spans, with `source`.

    Raises OtlpError or OSError where the file cannot be read; what was refused in it is a warning.
    """
    traces: dict[str, list[Span]] = {}
    for export in read_file(sys.stdin.buffer.read() if file == "-" else Path(file)):
        for span in export.spans:
            traces.setdefault(span.trace_id, []).append(span)
        if message := export.message():
            warn(f"{file}: {message}")
    for spans in traces.values():
        yield analyze(spans, apps=apps).document() | {"source": file}
