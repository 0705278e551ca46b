"""`manage.py baseline APP`: freeze a release's figures, to compare later ones with them."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from tracebudget.management.lookup import (
    UNREADABLE,
    add_project_option,
    add_release_options,
    app_named,
    release_named,
)
from tracebudget.queries import releases
from tracebudget.release import gate
from tracebudget.release.gate_words import baseline_words


class Command(BaseCommand):
    help = "Freeze a release's figures as a baseline for the gate; --list shows the frozen ones."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("app", metavar="APP", help="its name or slug")
        add_project_option(parser)
        add_release_options(parser)
        parser.add_argument("--list", action="store_true", help="show them, freeze nothing")

    def handle(self, *args: Any, app: str, **options: Any) -> None:
        its = app_named(options["project"], app)
        if options["list"]:
            lines = [baseline_words(baseline) for baseline in releases.baselines(its)]
            self.stdout.write("\n".join(lines or ["No baseline was frozen yet."]))
            return
        release = release_named(its, options["release"], options["environment"])
        try:
            made = gate.freeze(release, releases.sample(release), user=None, now=timezone.now())
        except gate.TooFewError as error:
            raise CommandError(
                f"{error.requests:,} whole requests of release {release.version} are too few to "
                "tell a p95: nothing could be compared with it. Send more, then freeze.",
                returncode=UNREADABLE,
            ) from error
        self.stdout.write(f"Frozen: {baseline_words(made)}")
