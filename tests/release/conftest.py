"""An app of one project, whose requests arrive as they do in the product."""

from __future__ import annotations

import django
import pytest

django.setup()  # when this folder is named, pytest reads this file before pytest-django does it

from tracebudget import models  # noqa: E402


@pytest.fixture
def project(db: None) -> models.Project:
    return models.Project.objects.create(slug="default", name="Shop", privacy=models.Privacy.FULL)


@pytest.fixture
def shop(project: models.Project) -> models.App:
    return models.App.objects.create(project=project, name="shop", slug="shop")
