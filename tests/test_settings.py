"""The readers of the environment: a typo is an error that names its variable."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from tracebudget import settings
from tracebudget.runtime import sockets
from tracebudget.runtime.addresses import local_authority, url_host


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        (lambda: settings.env_int("NAME", 1), "eight"),
        (lambda: settings.env_bool("NAME", True), "perhaps"),
        (lambda: settings.env_choice("NAME", ("text", "json")), "xml"),
        (lambda: settings.env_database("NAME", ""), "postgresql://host:port/name?x"),
    ],
    ids=["int", "bool", "choice", "database"],
)
def test_nonsense_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, reader: object, text: str
) -> None:
    monkeypatch.setenv("NAME", text)
    assert callable(reader)
    with pytest.raises(ImproperlyConfigured, match=r"^NAME "):
        reader()


def test_secret_comes_from_variable_then_named_file_then_own_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own, named = tmp_path / "own", tmp_path / "named"
    assert settings.env_secret("NAME", own) == ""
    own.write_text("from own file\n")
    assert settings.env_secret("NAME", own) == "from own file"
    named.write_text("from named file\n")
    monkeypatch.setenv("NAME_FILE", str(named))
    assert settings.env_secret("NAME", own) == "from named file"
    monkeypatch.setenv("NAME", "from variable")
    assert settings.env_secret("NAME", own) == "from variable"


def test_named_file_that_is_missing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME_FILE", "/nowhere/secret")
    with pytest.raises(ImproperlyConfigured, match=r"^NAME_FILE .*/nowhere/secret"):
        settings.env_secret("NAME")


def test_database_url_is_read_as_libpq_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "postgresql://me:p%40ss@db.example:5433/traces?sslmode=require")
    assert settings.env_database("NAME", "") == {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "traces",
        "USER": "me",
        "PASSWORD": "p@ss",
        "HOST": "db.example",
        "PORT": "5433",
        "OPTIONS": {"connect_timeout": 5, "sslmode": "require"},
    }


def test_addresses_are_named_so_that_this_machine_can_call_them() -> None:
    assert local_authority("127.0.0.1", 8000) == "127.0.0.1:8000"
    assert local_authority("0.0.0.0", 8000) == "127.0.0.1:8000"  # noqa: S104
    assert local_authority("::1", 8000) == "[::1]:8000"
    assert url_host("https://Traces.Example:8443") == "traces.example"
    assert url_host("http://[::1]:8000") == "[::1]"


def test_data_directory_too_deep_for_a_socket_gets_a_short_one_elsewhere() -> None:
    near, deep = Path("/srv/tracebudget"), Path("/srv") / ("d" * 100)
    assert sockets.socket_directory(near) == near / "run"
    assert len(str(sockets.socket_directory(deep))) <= sockets.MAX_DIRECTORY_BYTES
    assert sockets.socket_directory(deep) == sockets.socket_directory(deep)
