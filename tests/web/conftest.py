"""Who looks: a member of a project, and a stranger."""

from __future__ import annotations

import django
import pytest
from django.test import Client

django.setup()  # when this folder is named, pytest reads this file before pytest-django does it

from django.contrib.auth.models import User  # noqa: E402

from tracebudget import models  # noqa: E402


@pytest.fixture
def project(db: None) -> models.Project:
    return models.Project.objects.create(slug="shop", name="Shop", privacy=models.Privacy.FULL)


@pytest.fixture
def member(project: models.Project) -> User:
    user = User.objects.create_user("mia")
    models.Membership.objects.create(project=project, user=user)
    return user


@pytest.fixture
def page(client: Client, member: User) -> Client:
    """A member's browser."""
    client.force_login(member)
    return client


@pytest.fixture
def stranger(static_files: None, db: None) -> Client:
    """Signed in, and a member of another project only."""
    other = models.Project.objects.create(slug="other", name="Other")
    user = User.objects.create_user("sam")
    models.Membership.objects.create(project=other, user=user)
    client = Client()
    client.force_login(user)
    return client
