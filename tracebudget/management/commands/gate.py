"""`manage.py gate APP`: may this release go? Exit status for CI: 0 yes, 1 no, 2 misuse."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from tracebudget import models
from tracebudget.core.gate import TOLERANCE
from tracebudget.management.lookup import (
    UNREADABLE,
    add_project_option,
    add_release_options,
    app_named,
    release_named,
)
from tracebudget.queries import releases
from tracebudget.queries.releases import Release, Sample
from tracebudget.release import gate
from tracebudget.release.gate import Judged, Rules
from tracebudget.release.gate_report import Report

STOP = 1  # exit status of a release that may not go
POLL_SECONDS = 1


class Command(BaseCommand):
    help = (
        "Compare a release with a frozen baseline and the budgets. Exit status 0: it may go; "
        "1: it is worse, misses a budget, or too little is known; 2: misuse."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("app", metavar="APP", help="its name or slug")
        add_project_option(parser)
        add_release_options(parser)
        parser.add_argument(
            "--baseline", metavar="RELEASE", help="compare with its (default: the latest frozen)"
        )
        parser.add_argument(
            "--tolerance",
            type=percentage,
            default=TOLERANCE,
            metavar="PERCENT",
            help=f"a metric that grew by less passes (default: {TOLERANCE * 100:g})",
        )
        parser.add_argument(
            "--unknown", choices=("fail", "pass"), default="fail", help="what cannot be told"
        )
        parser.add_argument(
            "--freeze", action="store_true", help="if it passes, freeze it as a baseline"
        )
        parser.add_argument(
            "--wait", type=int, default=0, metavar="SECONDS", help="for requests not analysed yet"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, app: str, **options: Any) -> None:
        its = app_named(options["project"], app)
        waiting = wait(its.project, options["wait"])
        release = release_named(its, options["release"], options["environment"])
        taken = releases.sample(release)
        rules = Rules(options["tolerance"], options["unknown"] == "pass", options["freeze"])
        baseline = baseline_named(release, options["baseline"])
        judged = gate.judge(release, taken, baseline, rules=rules)
        frozen = freeze(judged, taken) if rules.freezes and judged.is_passed else ""
        report = Report(judged, waiting=waiting, frozen=frozen)
        self.stdout.write(report.json() if options["json"] else report.text())
        if not judged.is_passed or (rules.freezes and not frozen):
            sys.exit(STOP)


def percentage(text: str) -> float:
    """A share, written in percent. Raises ArgumentTypeError."""
    try:
        value = float(text.removesuffix("%")) / 100
    except ValueError:
        value = -1
    if not 0 <= value <= 1:
        raise ArgumentTypeError(f"{text!r} is no percentage from 0 to 100")
    return value


def wait(project: models.Project, seconds: int) -> int:
    """Until every request is analysed, or so long. How many then still are not."""
    end = time.monotonic() + seconds
    while (waiting := releases.waiting(project)) and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
    return waiting


def baseline_named(release: Release, version: str | None) -> models.Baseline | None:
    """The baseline of a release, or the usual one. Raises CommandError."""
    if version is None:
        return releases.usual_baseline(release)
    found = releases.baseline_of(Release(release.app, version, release.environment))
    if found is None:
        frozen = dict.fromkeys(b.release for b in releases.baselines(release.app))
        known = ", ".join(frozen) or "none yet"
        where = f" in environment {release.environment!r}" if release.environment else ""
        raise CommandError(
            f"No baseline of release {version!r} was frozen{where}; there are: {known}. "
            f"Freeze one: manage.py baseline {release.app.slug} --release {version}",
            returncode=UNREADABLE,
        )
    return found


def freeze(judged: Judged, taken: Sample) -> str:
    """The release that was frozen; "" where it has too few requests."""
    try:
        return gate.freeze(judged.release, taken, user=None, now=timezone.now()).release
    except gate.TooFewError:
        return ""
