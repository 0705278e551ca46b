"""`manage.py declare`: settings by file, marks by name, and what traces say of them."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from tests.web.traces import arrive, serial_tools
from tracebudget import models, store
from tracebudget.core.gateway import Gateway
from tracebudget.store import Mark


def declare(*arguments: str | Path) -> str:
    out = StringIO()
    call_command("declare", "shop", *map(str, arguments), stdout=out)
    return out.getvalue()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "gateway.yaml"
    path.write_text("tools: {parallel: true, retry: 1}")
    return path


def test_a_file_is_declared_and_held_against_traces(shop: models.App, file: Path) -> None:
    arrive(shop.project, serial_tools())
    assert declare(file).splitlines() == ["parallel: none -> true", "retry: none -> 1"]
    assert declare(file) == "Nothing changed.\n"
    said = declare("--range", "all")
    assert said.startswith("tools:\n  parallel: true\n  retry: 1\n")
    assert "# tools.parallel: contradicted." in said
    assert "# tools.retry: unseen." in said


def test_marks_add_to_those_that_are_there(shop: models.App) -> None:
    assert declare("--read-only", "search", "fetch") == (
        "tool:search: none -> read_only\ntool:fetch: none -> read_only\n"
    )
    declare("--dependent", "search", "--unmark", "fetch")
    assert store.marks_of(models.App.objects.get()) == {"search": Mark(True, True)}
    assert "# tool search: read_only, dependent" in declare()


def test_nothing_declared_is_said(shop: models.App) -> None:
    assert declare().startswith("# Nothing is declared.")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"tools: {retries: 1}", "There is no setting"),
        (b"#" * 1_000_000, "longer than 10000 characters"),
        (b"\xff\xfe", "codec can't decode"),
        (b"tools:\x00", "This is no YAML"),
    ],
)
def test_a_bad_file_changes_nothing(
    shop: models.App, file: Path, content: bytes, said: str
) -> None:
    declare(file)
    file.write_bytes(content)
    with pytest.raises(CommandError, match=said) as caught:
        declare(file)
    assert caught.value.returncode == 2
    assert store.gateway_of(models.App.objects.get()) == Gateway(parallel=True, retry=1)


def test_a_file_that_is_not_there(shop: models.App, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="No such file"):
        declare(tmp_path / "none.yaml")
