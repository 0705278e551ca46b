"""What the tests of ingest share: a project, and an exporter that has its key."""

from __future__ import annotations

import django
import pytest
from django.test import Client
from pytest_django import Settings

django.setup()  # when this folder is named, pytest reads this file before pytest-django does it

from ingest import limits  # noqa: E402
from tests.ingest.exporter import Exporter  # noqa: E402
from tracebudget import keys, models, otlp_settings  # noqa: E402


@pytest.fixture(autouse=True)
def fresh_limits() -> None:
    """Buckets are found by ids, and tests make the same ids again."""
    limits.forget_all()


@pytest.fixture
def project(db: None) -> models.Project:
    return models.Project.objects.create(slug="shop", name="Shop", privacy=models.Privacy.FULL)


@pytest.fixture
def exporter(project: models.Project, settings: Settings) -> Exporter:
    """It talks to the OTLP port, which has no middleware."""
    settings.ROOT_URLCONF = otlp_settings.ROOT_URLCONF
    settings.MIDDLEWARE = otlp_settings.MIDDLEWARE
    _, secret = keys.create_key(project, "tests", models.IngestKey)
    return Exporter(Client(raise_request_exception=False), secret)
