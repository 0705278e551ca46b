"""Receipts: what came, and what became of it, without any of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from ingest import receipts
from ingest.decode import Export
from ingest.errors import OtlpError
from ingest.privacy import pass_door
from ingest.receipts import EVERY, RECEIPTS_KEPT, Stream
from tests import otlp
from tests.ingest.exporter import Exporter
from tests.ingest.test_privacy import KEY, PLAIN, SECRET, SECRETIVE
from tests.otlp import PROTOBUF
from tracebudget import models
from tracebudget.core.span import Span
from tracebudget.models import Fate, Place, Privacy, Signal, Way
from tracebudget.queries.receipts import latest_receipts, names_in

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def fresh_tallies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts, "_tallies", receipts.Tallies())


@pytest.fixture
def stream(project: models.Project) -> Stream:
    return Stream(project, Way.HTTP, Signal.TRACES)


def note(stream: Stream, *spans: Span, at: float = 0, refused: str = "") -> None:
    export = Export(spans=list(spans), stored=len(spans))
    if refused:
        export.refused[refused] += 1
    passed = pass_door(export.spans, stream.project, KEY)
    receipts.note_export(stream, export, passed, now=NOW + timedelta(seconds=at))


def fates(stream: Stream, *spans: Span, privacy: Privacy) -> dict[tuple[Place, str], set[Fate]]:
    stream.project.privacy = privacy
    note(stream, *spans)
    names = names_in(latest_receipts(stream.project))
    return {(name.place, name.key): set(name.fates) for name in names}


def test_timings_only_tells_what_it_kept_and_what_it_withheld(stream: Stream) -> None:
    odd = replace(SECRETIVE, attributes={**SECRETIVE.attributes, f"order of {SECRET}": 1})
    told = fates(stream, odd, privacy=Privacy.TIMINGS_ONLY)
    assert told[Place.SPAN, "gen_ai.request.model"] == {Fate.KEPT}
    assert told[Place.SPAN, "gen_ai.input.messages"] == {Fate.WITHHELD}
    assert told[Place.SPAN, "user.id"] == {Fate.PSEUDONYM}
    assert told[Place.SPAN, ""] == {Fate.LEFT_OUT}
    assert told[Place.NAME, ""] == {Fate.WITHHELD}
    assert told[Place.STATUS_MESSAGE, ""] == {Fate.WITHHELD}
    assert told[Place.EVENT_NAME, ""] == {Fate.KEPT, Fate.WITHHELD}
    assert told[Place.EVENT, "exception.message"] == {Fate.WITHHELD}
    assert told[Place.LINK, "note"] == {Fate.WITHHELD}
    assert told[Place.SCOPE, "owner"] == {Fate.WITHHELD}
    assert told[Place.RESOURCE, "service.name"] == {Fate.KEPT}


def test_masked_tells_what_it_masked_and_cut(stream: Stream) -> None:
    attributes = {
        "note": "to jane@example.com",
        "long": "x" * 300_000,
        "jane@example.com": 1,
        "user.id": "jane@example.com",
        "plain": "text",
    }
    told = fates(stream, replace(PLAIN, attributes=attributes), privacy=Privacy.MASKED)
    assert told[Place.SPAN, "note"] == {Fate.MASKED}
    assert told[Place.SPAN, "long"] == {Fate.CUT}
    assert told[Place.SPAN, ""] == {Fate.MASKED}
    assert told[Place.SPAN, "user.id"] == {Fate.PSEUDONYM}
    assert told[Place.SPAN, "plain"] == {Fate.KEPT}


@pytest.mark.parametrize("privacy", [Privacy.TIMINGS_ONLY, Privacy.MASKED])
def test_no_value_stands_in_a_receipt(stream: Stream, privacy: Privacy) -> None:
    odd = {f"order of {SECRET}": 1, "jane@example.com": SECRET}
    fates(stream, replace(PLAIN, attributes=odd), SECRETIVE, privacy=privacy)
    with connection.cursor() as cursor:
        cursor.execute("SELECT receipt::text FROM tracebudget_receipt AS receipt")
        (row,) = cursor.fetchall()
    assert "gen_ai.request.model" in row[0] or privacy == Privacy.MASKED
    assert "jane@" not in row[0]
    assert privacy == Privacy.MASKED or "4711" not in row[0]


def test_names_are_counted_by_span_and_shared_ones_by_set(stream: Stream) -> None:
    resource = {"service.name": "shop"}
    spans = [replace(PLAIN, attributes={"note": n}, resource=resource) for n in range(3)]
    note(stream, *spans)
    names = {name.key: name for name in names_in(latest_receipts(stream.project))}
    assert names["note"].fates == {Fate.KEPT: 3}
    assert names["service.name"].fates == {Fate.KEPT: 1}


def test_exports_within_a_second_are_counted_into_the_next_receipt(stream: Stream) -> None:
    note(stream, PLAIN)
    note(stream, PLAIN, at=0.4, refused="no start")
    note(stream, PLAIN, at=0.9, refused="no start")
    first = models.Receipt.objects.get()
    note(stream, PLAIN, PLAIN, at=EVERY.total_seconds() + 0.1)
    latest, earlier = latest_receipts(stream.project)
    assert earlier == first
    assert (first.export_count, first.span_count, first.refused) == (1, 1, {})
    assert (latest.export_count, latest.span_count) == (3, 4)
    assert latest.refused == {"no start": 2}


def test_only_the_latest_are_kept_of_each_project(stream: Stream) -> None:
    other = models.Project.objects.create(slug="other", name="Other")
    note(stream._replace(project=other), PLAIN)
    for second in range(RECEIPTS_KEPT + 5):
        note(stream, PLAIN, at=2 * second)
    kept = latest_receipts(stream.project)
    assert len(kept) == RECEIPTS_KEPT
    assert kept[0].at == NOW + timedelta(seconds=2 * (RECEIPTS_KEPT + 4))
    assert len(latest_receipts(other)) == 1


def test_an_export_refused_whole_is_noted_with_its_reason(stream: Stream) -> None:
    with pytest.raises(OtlpError), receipts.errors_noted(stream, now=NOW):
        raise OtlpError(400, "The body is broken.")
    (receipt,) = latest_receipts(stream.project)
    assert receipt.errors == {"The body is broken.": 1}
    assert (receipt.export_count, receipt.span_count) == (1, 0)


def test_each_way_and_signal_has_its_receipts(exporter: Exporter, project: models.Project) -> None:
    assert exporter.send(otlp.recorded(otlp.two_turns), PROTOBUF).status_code == 200
    assert exporter.send(b"", PROTOBUF, path="/v1/logs").status_code == 200
    assert exporter.send(b"", PROTOBUF, path="/v1/metrics").status_code == 200
    told = [(r.way, r.signal, r.export_count, r.span_count) for r in latest_receipts(project)]
    assert told == [("http", "metrics", 1, 0), ("http", "logs", 1, 0), ("http", "traces", 1, 5)]


def test_a_receipt_that_cannot_be_written_harms_no_export(
    stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    gone = Stream(models.Project(pk=-1, privacy="x" * 21), Way.HTTP, Signal.TRACES)
    receipts.note_ignored(gone, now=NOW)
    assert "could not be written" in caplog.text
