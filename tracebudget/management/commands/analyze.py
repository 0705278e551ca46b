"""`manage.py analyze`: OTLP files in, analyses out, without database or server."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ingest.errors import OtlpError
from ingest.otlp import read_file
from tracebudget.budget_file import ALL_APPS, BudgetFileError, read_budgets
from tracebudget.collector import relax_collector
from tracebudget.core.analysis import analyze
from tracebudget.core.app import App
from tracebudget.core.budget import Budget
from tracebudget.core.profile import Profile, SeenCall, build_profile, seen_calls
from tracebudget.core.span import Span
from tracebudget.document import dumps
from tracebudget.summary import summary

UNREADABLE = 2  # exit status when a file could not be read


Traces = dict[str, list[Span]]  # by trace id, in the order of their first spans


class SameForAll(Mapping[str, App]):
    """Budgets by app, and for every other app those that hold for all; profiles by app."""

    def __init__(
        self, budgets: Mapping[str, tuple[Budget, ...]], profiles: Mapping[str, Profile]
    ) -> None:
        self.budgets = budgets
        self.profiles = profiles

    def __getitem__(self, app: str) -> App:
        budgets = self.budgets.get(ALL_APPS, ()) + self.budgets.get(app, ())
        return App(budgets=budgets, profile=self.profiles.get(app))

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
        relax_collector()
        budgets = _budgets(options["budgets"])
        read = [(file, self._read(file)) for file in options["files"]]
        files = [(file, traces) for file, traces in read if traces is not None]
        apps = SameForAll(budgets, profiles_of(traces for _, traces in files))
        as_json = options["format"] == "json"
        for file, traces in files:
            for spans in traces.values():
                document = analyze(spans, apps=apps).document() | {"source": file}
                self.stdout.write(dumps(document).decode() if as_json else summary(document))
        if len(files) < len(read):
            sys.exit(UNREADABLE)

    def _read(self, file: str) -> Traces | None:
        """The traces of a file, None where it is unreadable; what it had refused is a warning."""
        try:
            return traces_in(file, self.stderr.write)
        except (OtlpError, OSError) as error:
            self.stderr.write(f"{file}: {error}")
            return None


def _budgets(path: Path | None) -> Mapping[str, tuple[Budget, ...]]:
    if path is None:
        return {}
    try:
        return read_budgets(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, BudgetFileError) as error:
        raise CommandError(f"{path}: {error}", returncode=UNREADABLE) from error


def traces_in(file: str, warn: Any) -> Traces:
    """Raises OtlpError or OSError where the file cannot be read."""
    traces: Traces = {}
    for export in read_file(sys.stdin.buffer.read() if file == "-" else Path(file)):
        for span in export.spans:
            traces.setdefault(span.trace_id, []).append(span)
        if message := export.message():
            warn(f"{file}: {message}")
    return traces


def profiles_of(files: Iterable[Traces]) -> dict[str, Profile]:
    """What the requests of all files say of their apps: a first pass over them."""
    seen: defaultdict[str, list[SeenCall]] = defaultdict(list)
    for traces in files:
        for spans in traces.values():
            document = analyze(spans).document()
            seen[document["app"]] += seen_calls(document)
    profiles = {app: build_profile(calls) for app, calls in seen.items()}
    return {app: profile for app, profile in profiles.items() if profile is not None}
