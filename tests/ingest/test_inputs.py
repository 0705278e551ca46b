"""Bodies made after public bug reports: each has its answer, in every mode, and harms no other."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.ingest.exporter import Exporter, analyse_all, rejected
from tests.otlp import JSON, PROTOBUF
from tracebudget import models

FIXTURES = Path(__file__).parents[1] / "fixtures"
INPUTS, ODD = FIXTURES / "inputs", FIXTURES / "odd"


class Answer(NamedTuple):
    """What becomes of a file: the status, spans refused, spans stored."""

    file: str
    status: int
    refused: int
    stored: int


ANSWERS = [
    Answer("bare-nan-json.json", 400, 0, 0),
    Answer("base64-ids.json", 200, 0, 1),
    Answer("broken-gzip-bad-crc.json.gz", 400, 0, 0),
    Answer("broken-gzip-plain.json.gz", 400, 0, 0),
    Answer("broken-gzip-truncated.json.gz", 400, 0, 0),
    Answer("bytes-values.json", 200, 0, 1),
    Answer("content-types.pb", 200, 0, 2),
    Answer("duplicate-keys.json", 200, 0, 1),
    Answer("empty-requests-list.json", 200, 0, 0),
    Answer("empty-requests-null.json", 200, 0, 0),
    Answer("empty-requests-object.json", 200, 0, 0),
    Answer("empty-requests-scope.json", 200, 0, 0),
    Answer("empty-requests-zero-bytes.pb", 200, 0, 0),
    Answer("enum-names.json", 200, 0, 3),
    Answer("float-rounded-nanos.json", 200, 0, 1),
    Answer("future-timestamps.json", 200, 1, 0),
    Answer("good-and-bad-mixed.json", 200, 2, 2),
    Answer("ints-number-or-text.json", 200, 0, 1),
    Answer("invalid-utf8.pb", 200, 0, 1),
    Answer("json-lines-body-bom.json", 200, 0, 1),
    Answer("json-lines-body.jsonl", 400, 0, 0),
    Answer("long-object-times.json", 200, 0, 1),
    Answer("markup-in-names.json", 200, 0, 2),
    Answer("missing-ids.json", 200, 3, 1),
    Answer("mixed-and-empty-arrays.json", 200, 0, 1),
    Answer("nan-infinity-strings.json", 200, 0, 1),
    Answer("no-times.json", 200, 1, 0),
    Answer("nul-character.json", 200, 0, 2),
    Answer("odd-and-long-ids.json", 200, 4, 1),
    Answer("old-library-spans.json", 200, 0, 1),
    Answer("prototype-keys.json", 200, 0, 1),
    Answer("root-spellings.json", 200, 0, 3),
    Answer("trace-id-64-bit.json", 200, 0, 1),
    Answer("truncated-protobuf-garbage.pb", 400, 0, 0),
    Answer("truncated-protobuf.pb", 400, 0, 0),
    Answer("uint64-max-time.json", 200, 1, 0),
    Answer("unknown-enum-numbers.json", 200, 0, 2),
    Answer("unknown-fields.json", 200, 0, 1),
    Answer("unknown-fields.pb", 200, 0, 1),
    Answer("upper-case-hex.json", 200, 0, 2),
    Answer("value-missing.json", 200, 0, 1),
    Answer("zero-ids.json", 200, 2, 1),
]


@pytest.mark.parametrize("privacy", models.Privacy.values)
@pytest.mark.parametrize("answer", ANSWERS, ids=[answer.file for answer in ANSWERS])
def test_every_odd_body_has_its_answer(exporter: Exporter, answer: Answer, privacy: str) -> None:
    models.Project.objects.update(privacy=privacy)
    file = INPUTS / answer.file
    response = exporter.send(
        file.read_bytes(),
        PROTOBUF if ".pb" in file.suffixes else JSON,
        content_encoding="gzip" if ".gz" in file.suffixes else "",
    )
    assert response.status_code == answer.status
    assert answer.status != 200 or rejected(response) == answer.refused
    assert stored_spans() == answer.stored
    assert analyse_all() == models.Trace.objects.filter(failure="").count()


def stored_spans() -> int:
    return sum(models.SpanBatch.objects.values_list("span_count", flat=True))


@pytest.mark.parametrize("privacy", models.Privacy.values)
def test_every_odd_trace_is_stored_whole_and_analysed(exporter: Exporter, privacy: str) -> None:
    models.Project.objects.update(privacy=privacy)
    files = sorted({*ODD.glob("*.json")} - {ODD / "23-exact-resend-b.json"})
    sent = 0
    for file in files:
        sent += file.read_bytes().count(b'"startTimeUnixNano"')
        assert rejected(exporter.send(file.read_bytes())) == 0, file
    assert stored_spans() == sent
    assert analyse_all() == models.Trace.objects.count() >= len(files) - 4  # some share a trace
    assert not models.Trace.objects.exclude(failure="").exists()


def test_every_file_has_an_answer() -> None:
    assert {answer.file for answer in ANSWERS} == {file.name for file in INPUTS.iterdir()}
