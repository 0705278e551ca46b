"""What the tests of faults share: a project."""

from __future__ import annotations

import django
import pytest

django.setup()  # when this folder is named, pytest reads this file before pytest-django does it

from tracebudget import models  # noqa: E402


@pytest.fixture
def project(db: None) -> models.Project:
    return models.Project.objects.create(slug="shop", name="Shop", privacy=models.Privacy.FULL)
