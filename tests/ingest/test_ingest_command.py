"""`manage.py ingest`: files into a project, through the door that exports come by."""

from __future__ import annotations

import gzip
from contextlib import suppress
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from tests import otlp
from tests.ingest.test_inputs import INPUTS
from tests.otlp import json_export, json_span
from tracebudget import models
from tracebudget.management.commands import ingest
from tracebudget.packing import decompress

Capture = pytest.CaptureFixture[str]

BODY = otlp.recorded(otlp.two_turns)
LINES = b"".join(json_export(json_span(spanId=f"{n:016x}")) + b"\n" for n in (1, 2, 3))


@pytest.fixture
def default(db: None) -> models.Project:
    return models.Project.objects.create(slug="default", name="Default")


def span_counts() -> list[int]:
    return sorted(models.SpanBatch.objects.values_list("span_count", flat=True))


@pytest.mark.parametrize(
    ("content", "counts"),
    [
        (BODY, [5]),
        (gzip.compress(BODY), [5]),
        (otlp.as_json(BODY), [5]),
        (LINES, [1, 1, 1]),
        (gzip.compress(LINES), [1, 1, 1]),
    ],
    ids=["protobuf", "gzip", "json", "lines", "gzipped lines"],
)
def test_files_of_all_forms_are_stored_once(
    default: models.Project, tmp_path: Path, capsys: Capture, content: bytes, counts: list[int]
) -> None:
    file = tmp_path / "traces"
    file.write_bytes(content)
    for _ in range(2):
        call_command("ingest", str(file))
        assert capsys.readouterr().out == f"{file}: {sum(counts)} spans in project default\n"
    assert span_counts() == counts


def test_what_is_stored_has_passed_the_privacy_door(
    default: models.Project, tmp_path: Path
) -> None:
    file = tmp_path / "traces"
    file.write_bytes(BODY)
    call_command("ingest", str(file))
    stored = decompress(bytes(models.SpanBatch.objects.get().payload))
    assert b"jane" not in stored
    assert b"groq-3-lpx" in stored


def test_the_project_can_be_named(default: models.Project, tmp_path: Path) -> None:
    file = tmp_path / "traces"
    file.write_bytes(BODY)
    shop = models.Project.objects.create(slug="shop", name="Shop")
    call_command("ingest", str(file), "--project", "shop")
    assert models.Trace.objects.get().project == shop
    with pytest.raises(CommandError, match="no project 'shoe'"):
        call_command("ingest", str(file), "--project", "shoe")


def test_what_cannot_be_read_harms_no_other_and_is_told(
    default: models.Project, tmp_path: Path, capsys: Capture
) -> None:
    good, broken = tmp_path / "good", tmp_path / "broken"
    good.write_bytes(json_export(json_span(traceId="nope"), json_span()))
    broken.write_bytes(LINES[: LINES.index(b"\n") + 1] + b"{\n" + LINES)
    with pytest.raises(SystemExit) as stopped:
        call_command("ingest", str(broken), "nowhere", str(good))
    out, err = capsys.readouterr()
    assert stopped.value.code == 2
    assert f"{broken}: Line 2" in err
    assert f"{broken}: 4 spans" in out
    assert "nowhere: The file cannot be read" in err
    assert f"{good}: Spans refused: 1 x traceId" in err
    assert span_counts() == [1, 1, 1, 1]


def test_a_long_file_tells_how_far_it_is(
    default: models.Project, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "TELL_EVERY_SECONDS", 0.0)
    file = tmp_path / "traces"
    file.write_bytes(LINES)
    call_command("ingest", str(file))
    told = capsys.readouterr().err.splitlines()
    assert told == [f"{file}: {count} spans so far" for count in (1, 2, 3)]


@pytest.mark.parametrize("form", [".json", ".pb", ".jsonl"])
def test_odd_files_end_with_a_word_or_a_span_and_never_with_a_traceback(
    default: models.Project, capsys: Capture, form: str
) -> None:
    for file in sorted(INPUTS.glob(f"*{form}*")):
        with suppress(SystemExit):
            call_command("ingest", str(file))
        out, err = capsys.readouterr()
        assert "spans in project default" in out
        assert not err or str(file) in err
    assert span_counts()


@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_away_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "HOST", "/nowhere")
    with pytest.raises(CommandError, match=r"manage\.py up"):
        call_command("ingest", str(tmp_path))
