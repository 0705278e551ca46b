"""Channels' secrets: sealed, opened by the key file alone, and sealed anew."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from tracebudget import models
from tracebudget.alerts import channel as channels
from tracebudget.alerts import vault

pytestmark = pytest.mark.django_db
URL = "https://hooks.example/T0KEN"


@pytest.fixture
def channel(project: models.Project) -> models.Channel:
    return channels.create_webhook(project, "ops", URL, app=None)[0]


def test_no_secret_is_in_the_database(channel: models.Channel) -> None:
    stored = str(list(models.Channel.objects.values())) + bytes(channel.config).decode()
    assert "T0KEN" not in stored
    assert "whsec_" not in stored
    assert channel.destination == "hooks.example"


def test_key_file_is_made_once_and_ours_alone(channel: models.Channel, channel_key: Path) -> None:
    assert stat.S_IMODE(channel_key.stat().st_mode) == 0o600
    key = channel_key.read_bytes()
    vault.seal({})
    assert channel_key.read_bytes() == key


def test_rotation_seals_under_a_new_key(channel: models.Channel, channel_key: Path) -> None:
    old = channel_key.read_bytes().split()
    assert vault.rotate(keep_old=True) == 1
    new, *rest = channel_key.read_bytes().split()
    assert rest == old
    channel.refresh_from_db()
    channel_key.write_bytes(new)
    assert vault.unseal(channel)["url"] == URL


def test_rotation_can_drop_the_old_key(channel: models.Channel, channel_key: Path) -> None:
    old = channel_key.read_bytes().split()
    vault.rotate(keep_old=False)
    assert not set(old) & set(channel_key.read_bytes().split())
    channel.refresh_from_db()
    assert vault.unseal(channel)["url"] == URL


def test_lost_key_is_said_so(channel: models.Channel, channel_key: Path) -> None:
    channel_key.unlink()
    with pytest.raises(vault.VaultError, match="opens the channel 'ops'"):
        vault.unseal(channel)


def test_rotation_that_cannot_open_a_channel_changes_none(
    channel: models.Channel, project: models.Project, channel_key: Path
) -> None:
    channel_key.unlink()
    channels.create_email(project, "new", "a@shop.example", app=None)
    before = list(models.Channel.objects.order_by("pk").values_list("config", flat=True))
    with pytest.raises(vault.VaultError):
        vault.rotate(keep_old=False)
    after = list(models.Channel.objects.order_by("pk").values_list("config", flat=True))
    assert [bytes(config) for config in after] == [bytes(config) for config in before]


def test_command_rotates_and_says_what_to_keep(
    channel: models.Channel, channel_key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("rotate_channel_key")
    assert f"Sealed 1 channels under a new key. Back up {channel_key}." in capsys.readouterr().out
    assert len(channel_key.read_bytes().split()) == 2
    call_command("rotate_channel_key", drop_old=True)
    assert len(channel_key.read_bytes().split()) == 1
    channel_key.unlink()
    with pytest.raises(CommandError, match="opens the channel"):
        call_command("rotate_channel_key")
