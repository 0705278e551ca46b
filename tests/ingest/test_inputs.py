"""Bodies made after public bug reports: each has its answer, in every mode, and harms no other."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.ingest.exporter import Exporter, rejected
from tests.otlp import JSON, PROTOBUF
from tracebudget import models

INPUTS = Path(__file__).parents[1] / "fixtures" / "inputs"


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
    Answer("broken-gzip-truncated.json.gz", 400, 0, 0),
    Answer("bytes-values.json", 200, 0, 1),
    Answer("duplicate-keys.json", 200, 0, 1),
    Answer("enum-names.json", 200, 0, 3),
    Answer("float-rounded-nanos.json", 200, 0, 1),
    Answer("future-timestamps.json", 200, 1, 0),
    Answer("good-and-bad-mixed.json", 200, 2, 2),
    Answer("ints-number-or-text.json", 200, 0, 1),
    Answer("invalid-utf8.pb", 200, 0, 1),
    Answer("json-lines-body-bom.json", 200, 0, 1),
    Answer("json-lines-body.jsonl", 400, 0, 0),
    Answer("long-object-times.json", 200, 0, 1),
    Answer("missing-ids.json", 200, 3, 1),
    Answer("mixed-and-empty-arrays.json", 200, 0, 1),
    Answer("nan-infinity-strings.json", 200, 0, 1),
    Answer("no-times.json", 200, 1, 0),
    Answer("nul-character.json", 200, 0, 2),
    Answer("odd-and-long-ids.json", 200, 4, 1),
    Answer("old-library-spans.json", 200, 0, 1),
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
    assert sum(models.SpanBatch.objects.values_list("span_count", flat=True)) == answer.stored


def test_every_file_has_an_answer() -> None:
    assert {answer.file for answer in ANSWERS} == {file.name for file in INPUTS.iterdir()}
