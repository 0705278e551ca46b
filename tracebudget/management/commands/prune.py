"""`manage.py prune`: delete old traces now, or tell what would go."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.template.defaultfilters import filesizeformat
from django.utils import timezone

from tracebudget import store
from tracebudget.queries.disk import Forecast, disk_forecast


class Command(BaseCommand):
    help = "Delete traces older than TRACEBUDGET_RETENTION_DAYS. The worker does it every hour."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only tell what would go")

    def handle(self, *args: Any, dry_run: bool, **options: Any) -> None:
        now = timezone.now()
        try:
            pruned = store.prune(now=now, dry_run=dry_run)
        except store.PruneError as error:
            raise CommandError(f"{error} Try again: what was done stays done.") from error
        self.stdout.write(_summary(pruned, "would go" if dry_run else "deleted"))
        self.stdout.write(_outlook(disk_forecast(now=now)))


def _summary(pruned: store.Pruned, verb: str) -> str:
    return (
        f"Older than {settings.RETENTION_DAYS} days, {verb}: {pruned.traces} requests with"
        f" {pruned.spans} spans, {pruned.days} days of tables ({_size(pruned.bytes)}),"
        f" {pruned.expired} requests that were kept until now, {pruned.apps} apps without any;"
        f" {pruned.alerts} alerts that closed {settings.ALERT_RETENTION_DAYS} days ago or earlier."
        f" Kept, since pinned or an alert's evidence: {pruned.kept}."
    )


def _outlook(forecast: Forecast) -> str:
    words = [f"The database takes {_size(forecast.database_bytes)}"]
    if forecast.bytes_a_day is not None:
        words.append(f"a day brings {_size(forecast.bytes_a_day)}")
    if forecast.free_bytes is not None:
        words.append(f"{_size(forecast.free_bytes)} are free")
    if forecast.days_until_full is not None:
        words.append(f"full in {forecast.days_until_full} days")
    return f"{', '.join(words)}."


def _size(bytes_: int) -> str:
    return filesizeformat(bytes_).replace("\xa0", " ")
