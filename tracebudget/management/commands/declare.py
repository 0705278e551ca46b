"""`manage.py declare APP [FILE]`: an app's gateway settings and the nature of its tools; without a
file, what is declared and what traces say of it.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from tracebudget import models, store
from tracebudget.management.lookup import UNREADABLE, add_project_option, app_named
from tracebudget.queries.apps import Scope
from tracebudget.queries.traces import WINDOWS, window
from tracebudget.release import words
from tracebudget.release.declaration import compare
from tracebudget.release.gateway_file import (
    MAX_CHARS,
    GatewayFileError,
    read_gateway,
    write_gateway,
)
from tracebudget.store import Mark, marks_of


class Command(BaseCommand):
    help = "Declare an app's gateway settings (YAML) and its tools, or see what traces say of them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("app", metavar="APP", help="its name or slug")
        parser.add_argument("file", nargs="?", metavar="FILE", help="settings; - is standard input")
        add_project_option(parser)
        parser.add_argument("--read-only", nargs="+", default=[], metavar="TOOL")
        parser.add_argument("--dependent", nargs="+", default=[], metavar="TOOL")
        parser.add_argument("--unmark", nargs="+", default=[], metavar="TOOL")
        parser.add_argument("--range", choices=WINDOWS, default="24h", help="of the traces")

    def handle(self, *args: Any, app: str, file: str | None, **options: Any) -> None:
        its = app_named(options["project"], app)
        marks = _marks(its, options)
        changes = [] if file is None else self._save(its, file)
        if marks:
            changes += store.mark_tools(its, marks, user=None, now=timezone.now())
        if file is not None or marks:
            self._tell(changes)
        else:
            self._show(its, options["range"])

    def _save(self, app: models.App, file: str) -> list[models.DeclarationChange]:
        try:
            gateway = read_gateway(_text(file))
        except GatewayFileError as error:
            raise CommandError(f"{file} was not taken.\n{error}", returncode=UNREADABLE) from error
        return store.save_gateway(app, gateway, user=None, now=timezone.now())

    def _tell(self, changes: Sequence[models.DeclarationChange]) -> None:
        for change in changes:
            self.stdout.write(f"{change.what}: {change.old or 'none'} -> {change.new or 'none'}")
        if not changes:
            self.stdout.write("Nothing changed.")

    def _show(self, app: models.App, range_: str) -> None:
        """The settings as a file, and behind `#` what traces say of each."""
        comparison = compare(Scope(app.project, window(range_, now=timezone.now()), app=app))
        self.stdout.write(write_gateway(comparison.gateway) or "# Nothing is declared.")
        for item in comparison.observed:
            state, said = words.OBSERVATIONS[item.state], words.observed_words(item)
            self.stdout.write(f"# {words.setting_path(item.setting)}: {state}. {said}")
        for tool, mark in sorted(marks_of(app).items()):
            natures = [name.removeprefix("is_") for name, is_so in mark._asdict().items() if is_so]
            self.stdout.write(f"# tool {tool}: {', '.join(natures)}")


def _text(file: str) -> str:
    """As much of the file as is read, and a character more, by which it is refused."""
    try:
        if file == "-":
            return sys.stdin.read(MAX_CHARS + 1)
        with Path(file).open(encoding="utf-8") as settings:
            return settings.read(MAX_CHARS + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file}: {error}", returncode=UNREADABLE) from error


def _marks(app: models.App, options: Mapping[str, Any]) -> dict[str, Mark]:
    """The marks of the tools that are named, on top of those that they have."""
    named = [*options["read_only"], *options["dependent"], *options["unmark"]]
    present = marks_of(app) if named else {}
    marks = {tool: present.get(tool, Mark()) for tool in named}
    for tool in options["unmark"]:
        marks[tool] = Mark()
    for tool in options["read_only"]:
        marks[tool] = marks[tool]._replace(is_read_only=True)
    for tool in options["dependent"]:
        marks[tool] = marks[tool]._replace(is_dependent=True)
    return marks
