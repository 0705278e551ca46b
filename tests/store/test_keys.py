"""Keys: shown once, found by their prefix, compared by digest, cached for a moment."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from tracebudget import keys, models

NOW = timezone.now()


@pytest.fixture(autouse=True)
def forgetful(settings: Settings) -> Iterator[None]:
    """Ask the database each time, but where a test says otherwise."""
    settings.KEY_CACHE_SECONDS = 0
    yield
    keys.forget_all()


def find(secret: str) -> models.IngestKey | None:
    return keys.find_key(models.IngestKey, secret, now=NOW)


def test_the_secret_opens_and_is_stored_nowhere(project: models.Project) -> None:
    row, secret = keys.create_key(project, "ci", models.IngestKey)
    found = find(secret)
    assert found == row
    assert found is not None
    assert found.project == project
    assert secret.startswith(row.prefix)
    assert secret not in f"{row.prefix} {row.digest}"


def test_two_keys_are_two(project: models.Project) -> None:
    _, first = keys.create_key(project, "a", models.IngestKey)
    _, second = keys.create_key(project, "b", models.IngestKey)
    assert first != second
    assert find(first) != find(second)


def test_wrong_secrets_do_not_open(project: models.Project) -> None:
    row, secret = keys.create_key(project, "ci", models.IngestKey)
    for wrong in ("", secret[:-1], f"{secret}x", f"{row.prefix}_", "tbi_\0", "\udcff" * 20):
        assert find(wrong) is None


def test_a_token_of_the_api_does_not_open_ingest(project: models.Project) -> None:
    row, token = keys.create_key(project, "api", models.ApiToken)
    assert find(token) is None
    assert keys.find_key(models.ApiToken, token, now=NOW) == row


def test_a_revoked_key_does_not_open(project: models.Project) -> None:
    row, secret = keys.create_key(project, "ci", models.IngestKey)
    models.IngestKey.objects.filter(pk=row.pk).update(revoked_at=NOW)
    assert find(secret) is None


def test_a_key_is_remembered_and_forgotten_again(
    project: models.Project,
    settings: Settings,
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    settings.KEY_CACHE_SECONDS = 60
    row, secret = keys.create_key(project, "ci", models.IngestKey)
    assert find(secret) == row
    with django_assert_num_queries(0):
        assert find(secret) == row
        assert find(f"{secret}x") is None
    models.IngestKey.objects.filter(pk=row.pk).update(revoked_at=NOW)
    keys.forget_all()
    assert find(secret) is None


def test_use_is_noted_but_rarely(project: models.Project) -> None:
    row, secret = keys.create_key(project, "ci", models.IngestKey)

    def used_at(seconds: int) -> object:
        keys.find_key(models.IngestKey, secret, now=NOW + timedelta(seconds=seconds))
        row.refresh_from_db()
        return row.last_used_at

    assert used_at(0) == NOW
    assert used_at(59) == NOW
    assert used_at(61) == NOW + timedelta(seconds=61)


def test_the_digest_key_is_made_once_and_private(tmp_path: Path, settings: Settings) -> None:
    settings.DIGEST_KEY_FILE = tmp_path / "data" / "digest.key"
    first = keys.digest_key()
    assert len(first) == 32
    assert settings.DIGEST_KEY_FILE.read_bytes() == first
    assert settings.DIGEST_KEY_FILE.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["digest.key"]
    keys.forget_all()
    assert keys.digest_key() == first


def test_a_damaged_digest_key_is_an_error_and_not_a_weak_key(
    tmp_path: Path, settings: Settings
) -> None:
    settings.DIGEST_KEY_FILE = tmp_path / "digest.key"
    settings.DIGEST_KEY_FILE.write_bytes(b"")
    with pytest.raises(ImproperlyConfigured, match="must hold 32 bytes"):
        keys.digest_key()
