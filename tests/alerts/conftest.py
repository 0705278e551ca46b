"""What the tests of alerts share: an app with traffic, and the two kinds of readers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import django
import pytest

django.setup()  # when this folder is named, pytest reads this file before pytest-django does it

from pytest_django import Settings  # noqa: E402

from tests.alerts.readers import Mailbox, Receiver  # noqa: E402
from tests.alerts.traffic import Traffic  # noqa: E402
from tracebudget import models  # noqa: E402
from tracebudget.settings import env_networks  # noqa: E402


@pytest.fixture
def project(db: None) -> models.Project:
    return models.Project.objects.create(slug="shop", name="Shop", privacy=models.Privacy.FULL)


@pytest.fixture
def app(project: models.Project) -> models.App:
    """The app of `Traffic`, before its first request."""
    return models.App.objects.create(project=project, name="shop", slug="shop")


@pytest.fixture
def traffic(project: models.Project) -> Traffic:
    return Traffic(project)


@pytest.fixture(autouse=True)
def channel_key(settings: Settings, tmp_path: Path) -> Path:
    """A key file of the test's own."""
    settings.CHANNEL_KEY_FILE = tmp_path / "channel.key"
    return tmp_path / "channel.key"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A webhook receiver on this machine; `open_loopback` lets us call it."""
    with Receiver() as server:
        yield server


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    """An SMTP server on this machine; `mail_server` makes it ours."""
    with Mailbox() as server:
        yield server


@pytest.fixture
def open_loopback(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Webhooks may go to this machine: from here, and from programs that the test starts."""
    monkeypatch.setenv("TRACEBUDGET_WEBHOOK_NETWORKS", "127.0.0.0/8")
    settings.WEBHOOK_NETWORKS = env_networks("TRACEBUDGET_WEBHOOK_NETWORKS")


@pytest.fixture
def mail_server(mailbox: Mailbox, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Mailbox:
    """The mailbox as the instance's mail server, here and in programs that the test starts."""
    monkeypatch.setenv("TRACEBUDGET_SMTP_HOST", mailbox.host)
    monkeypatch.setenv("TRACEBUDGET_SMTP_PORT", str(mailbox.port))
    monkeypatch.setenv("TRACEBUDGET_SMTP_SECURITY", "none")
    settings.EMAIL_HOST, settings.EMAIL_PORT = mailbox.host, mailbox.port
    settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
    return mailbox
