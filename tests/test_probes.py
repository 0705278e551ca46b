"""Probes: alive is not ready."""

from __future__ import annotations

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client


def test_alive_without_a_database(client: Client) -> None:
    """No `db` fixture: pytest-django would refuse a query."""
    assert client.get("/healthz").content == b"ok\n"


@pytest.mark.django_db
def test_ready_when_migrated(client: Client) -> None:
    assert client.get("/readyz").status_code == 200


@pytest.mark.django_db
def test_not_ready_while_a_migration_is_missing(client: Client) -> None:
    MigrationRecorder(connection).record_unapplied("tracebudget", "0001_initial")
    response = client.get("/readyz")
    assert response.status_code == 503
    assert "tracebudget.0001_initial" in response.content.decode()
    assert response.headers["Cache-Control"] == "no-store"
