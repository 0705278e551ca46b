"""`manage.py demo`: a day of made-up traffic in a project of its own; `--remove` takes it away."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from tracebudget import models, store
from tracebudget.demo import project as demo_project
from tracebudget.demo import support
from tracebudget.demo.day import DEFAULT_SEED, simulate
from tracebudget.demo.sender import SendError, send
from tracebudget.demo.work import Request
from tracebudget.queries import releases
from tracebudget.queries.releases import Release
from tracebudget.release import gate
from tracebudget.runtime.first_start import addresses
from tracebudget.runtime.readiness import is_ready

BAR_CHARS = 20
POLL_SECONDS = 0.5
# The analysis takes seconds. A minute without an answer means that no worker runs.
PATIENCE_SECONDS = 60


class Command(BaseCommand):
    help = "Send a day of made-up traffic into the project 'demo'. Tracebudget must be running."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--remove", action="store_true", help="remove all that it made")
        parser.add_argument(
            "--seed", type=int, default=DEFAULT_SEED, help="another number, another day"
        )

    def handle(self, *args: Any, remove: bool, seed: int, **options: Any) -> None:
        if remove:
            with store.rollups_paused():
                count = demo_project.remove()
            self.stdout.write(f"Removed {count:,} requests." if count else "There was no demo.")
        else:
            self._make(seed)

    def _make(self, seed: int) -> None:
        url = addresses()["otlp_url"]
        if not is_ready(settings.OTLP_PORT):
            raise CommandError(f"Nothing answers at {url}. Start it first: manage.py up")
        try:
            project, key = demo_project.create()
        except demo_project.DemoExistsError:
            raise CommandError(
                "There is a project 'demo' already. Remove it first: manage.py demo --remove"
            ) from None
        requests = simulate(time.time_ns(), seed)
        try:
            self._send(requests, url=url, key=key, seed=seed)
        except SendError as error:
            raise CommandError(f"{error} Try again: manage.py demo --remove, then demo") from error
        finally:
            demo_project.revoke_keys(project)
        self._wait("analysed", len(requests), lambda: demo_project.analyzed(project))
        self._wait("added up", len(requests), lambda: demo_project.added_up(project))
        freeze_old_release(project)
        self.stdout.write(f"Look at {settings.URL}/p/{project.slug}/")

    def _send(self, requests: list[Request], *, url: str, key: str, seed: int) -> None:
        for sent in send(requests, url=url, key=key, seed=seed):
            self._show("sent", sent, len(requests))

    def _wait(self, what: str, total: int, count: Callable[[], int]) -> None:
        """Until all requests are that, or nothing has happened for long."""
        done, since = 0, time.monotonic()
        while done < total:
            if time.monotonic() - since > PATIENCE_SECONDS:
                raise CommandError(
                    f"{total - done:,} requests are not {what}: does the worker run?"
                )
            time.sleep(POLL_SECONDS)
            before, done = done, count()
            if done != before:
                since = time.monotonic()
                self._show(what, done, total)

    def _show(self, what: str, done: int, total: int) -> None:
        """A bar that grows in place on a terminal, and a line each tenth in a log."""
        text = f"[{'#' * (BAR_CHARS * done // total):.<{BAR_CHARS}}] {done:,} of {total:,} {what}"
        is_last = done == total
        if self.stdout.isatty():
            self.stdout.write(f"\r{text}", ending="\n" if is_last else "")
            self.stdout.flush()
        elif is_last or done * 10 // total > self.tenths:
            self.stdout.write(text)
        self.tenths = 0 if is_last else done * 10 // total

    tenths = 0  # of the bar that were shown


def freeze_old_release(project: models.Project) -> None:
    """Before the new one lost its parallel tools, as its team would have done."""
    app = models.App.objects.get(project=project, name=support.APP)
    old = Release(app, support.OLD_RELEASE)
    gate.freeze(old, releases.sample(old), user=None, now=timezone.now())
