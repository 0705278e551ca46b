"""Spans in: durable once, however often and from however many threads they come."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from django.db import OperationalError, connection
from pytest_django import Settings

from tests.store.spans import NOW, span
from tracebudget import models, partition, store
from tracebudget.core.span import FLAG_HAS_IS_REMOTE, FLAG_IS_REMOTE, Span
from tracebudget.store.arrival import CHUNK_BYTES, Arrival, due_at

SECOND = timedelta(seconds=1)


def stored(project: models.Project) -> list[Span]:
    batches = models.SpanBatch.objects.filter(trace__project=project)
    found = store.unpack_batches(batch.payload for batch in batches)
    return sorted(found, key=lambda one: (one.trace_id, one.span_id))


def test_an_export_becomes_one_row_a_trace(project: models.Project) -> None:
    spans = [span(1, trace=1), span(2, trace=1, parent=1), span(3, trace=2)]
    store.store_spans(project, spans, now=NOW)
    traces = models.Trace.objects.order_by("trace_id")
    assert stored(project) == spans
    assert [(t.trace_id, t.revision, t.batch_count, t.span_count) for t in traces] == [
        (UUID(int=1), 1, 1, 2),
        (UUID(int=2), 1, 1, 1),
    ]
    assert {(t.day, t.first_seen_at, t.last_seen_at, t.state) for t in traces} == {
        (NOW.date(), NOW, NOW, None)
    }


def test_nothing_is_stored_of_nothing(project: models.Project) -> None:
    store.store_spans(project, [], now=NOW)
    assert not models.Trace.objects.exists()


def test_storing_twice_is_storing_once(project: models.Project) -> None:
    spans = [span(1), span(2, parent=1)]
    store.store_spans(project, spans, now=NOW)
    before = models.Trace.objects.values().get()
    store.store_spans(project, list(reversed(spans)), now=NOW + SECOND)
    assert models.Trace.objects.values().get() == before
    assert stored(project) == spans


def test_only_traces_with_something_new_change(project: models.Project) -> None:
    store.store_spans(project, [span(1, trace=1), span(1, trace=2)], now=NOW)
    again = [span(1, trace=1), span(1, trace=2), span(2, trace=2, parent=1)]
    store.store_spans(project, again, now=NOW + SECOND)
    revisions = models.Trace.objects.order_by("trace_id").values_list("revision", "last_seen_at")
    assert list(revisions) == [(1, NOW), (2, NOW + SECOND)]


@pytest.mark.parametrize("size", [10, 1_000, 1_990, 3_000, 20_000])
def test_a_payload_is_cut_where_postgres_cuts(project: models.Project, size: int) -> None:
    """What fills whole chunks is the head; of the head no byte lies in a chunk that is not full."""
    text = random.Random(size).randbytes(size).hex()
    spans = [span(attributes={"text": text})]
    store.store_spans(project, spans, now=NOW)
    batch = models.SpanBatch.objects.get()
    assert len(batch.head) % CHUNK_BYTES == 0
    assert len(batch.tail) < CHUNK_BYTES
    assert stored(project) == spans
    assert chunk_sizes(batch) <= {CHUNK_BYTES}


def chunk_sizes(batch: models.SpanBatch) -> set[int]:
    """Of the chunks that Postgres made of the rows of the batch's day."""
    with connection.cursor() as cursor:
        name = partition.partition_name("tracebudget_spanbatch", batch.day)
        cursor.execute("SELECT reltoastrelid::regclass FROM pg_class WHERE relname = %s", [name])
        (toast,) = cursor.fetchone()
        cursor.execute(f"SELECT octet_length(chunk_data) FROM {toast}")  # noqa: S608 (ours)
        return {size for (size,) in cursor.fetchall()}


def test_two_contents_of_one_span_are_both_kept(project: models.Project) -> None:
    first, second = span(1), span(1, name="other")
    for one in (first, second):
        store.store_spans(project, [one], now=NOW)
    assert {one.name for one in stored(project)} == {"span 1", "other"}
    assert models.Trace.objects.get().revision == 2


def test_late_spans_join_their_trace_on_its_own_day(project: models.Project) -> None:
    store.store_spans(project, [span(1)], now=NOW)
    store.store_spans(project, [span(2, parent=1)], now=NOW + timedelta(days=3))
    assert {batch.day for batch in models.SpanBatch.objects.all()} == {NOW.date()}
    assert models.Trace.objects.get().last_seen_at == NOW + timedelta(days=3)


def test_a_day_without_tables_gets_them(project: models.Project) -> None:
    far = NOW + timedelta(days=900)
    assert not partition.exists(far.date())
    store.store_spans(project, [span()], now=far)
    assert len(stored(project)) == 1


def test_projects_do_not_see_each_other(project: models.Project) -> None:
    other = models.Project.objects.create(slug="other", name="Other")
    store.store_spans(project, [span(1)], now=NOW)
    store.store_spans(other, [span(1), span(2)], now=NOW)
    assert (len(stored(project)), len(stored(other))) == (1, 2)


def test_a_full_trace_refuses_more_and_says_so(project: models.Project, settings: Settings) -> None:
    settings.MAX_TRACE_SPANS = 2
    first, late = [span(1), span(2, parent=1)], [span(3, parent=1)]
    beside = span(1, trace=2)
    assert store.store_spans(project, first, now=NOW) == 0
    assert store.store_spans(project, [*late, beside], now=NOW + SECOND) == 1
    assert store.store_spans(project, first, now=NOW + SECOND) == 0  # sent again, not refused
    full = models.Trace.objects.get(trace_id=UUID(int=1))
    assert (full.span_count, full.refused_span_count, full.revision) == (2, 1, 1)
    assert stored(project) == [*first, beside]


def test_a_trace_that_retention_deletes_meanwhile_is_stored_by_a_second_try(
    project: models.Project,
) -> None:
    """The row goes between making sure that it is there and locking it."""
    first, second = span(1), span(2, parent=1)
    store.store_spans(project, [first], now=NOW)
    with connection.cursor() as cursor:
        cursor.execute(VANISH_ONCE)
    store.store_spans(project, [second], now=NOW + SECOND)
    assert stored(project) == [first, second]


VANISH_ONCE = """
CREATE SEQUENCE tries;
CREATE FUNCTION vanish_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('tries') = 1 THEN
        DELETE FROM tracebudget_trace;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER vanish_once AFTER INSERT ON tracebudget_trace EXECUTE FUNCTION vanish_once();
"""


@pytest.mark.django_db(transaction=True)
def test_overlapping_exports_from_many_threads_lose_and_double_nothing(
    project: models.Project,
) -> None:
    """Eight senders, the same 30 traces in different orders, each batch sent by two of them."""
    spans = [span(n, trace=t, parent=None if n == 1 else 1) for t in range(1, 31) for n in (1, 2)]
    start = threading.Barrier(8)

    def send(sender: int) -> None:
        mine = [one for one in spans if int(one.span_id, 16) == 1 + sender % 2]
        random.Random(sender).shuffle(mine)
        start.wait()
        try:
            for _ in range(5):
                store.store_spans(project, mine, now=NOW)
        finally:
            connection.close()

    partition.create(NOW.date())
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(send, sender) for sender in range(8)]:
            done.result()
    assert stored(project) == spans
    assert set(models.Trace.objects.values_list("revision", "span_count")) == {(2, 2)}


FAIL_ONCE = """
CREATE SEQUENCE tries;
CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('tries') <= {times} THEN
        RAISE EXCEPTION 'as if by chance' USING ERRCODE = '{code}';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER fail_once BEFORE INSERT ON tracebudget_trace EXECUTE FUNCTION fail_once();
"""


def fail(code: str, times: int) -> None:
    """Let Postgres end the next `times` store transactions with an error."""
    partition.create(NOW.date())
    with connection.cursor() as cursor:
        cursor.execute(FAIL_ONCE.format(code=code, times=times))


@pytest.mark.parametrize("code", ["40P01", "40001"], ids=["deadlock", "serialization"])
def test_a_transaction_that_lost_to_another_is_tried_once_more(
    project: models.Project, code: str
) -> None:
    fail(code, times=1)
    store.store_spans(project, [span()], now=NOW)
    assert len(stored(project)) == 1


@pytest.mark.parametrize(("code", "times"), [("40P01", 2), ("53100", 1)])
def test_what_does_not_pass_by_itself_is_left_to_the_sender(
    project: models.Project, code: str, times: int
) -> None:
    """A second deadlock, a full disk: nothing is stored, and the exporter will send again."""
    fail(code, times)
    with pytest.raises(OperationalError):
        store.store_spans(project, [span()], now=NOW)
    assert not models.Trace.objects.exists()


# --- when a trace is due ---


@pytest.fixture(autouse=True)
def _pauses(settings: Settings) -> None:
    settings.QUIET_SECONDS, settings.QUIET_WITHOUT_ROOT_SECONDS = 2, 10
    settings.QUIET_CAP_SECONDS = 30


def arrival(
    pending: int | None = None, seen: int = 0, analyzed: int | None = None, state: str | None = None
) -> Arrival:
    """A trace's row; all times in seconds before (or, pending, after) now."""

    def at(seconds: int | None) -> datetime | None:
        return None if seconds is None else NOW + seconds * SECOND

    first_seen = NOW - seen * SECOND
    analyzed_at = at(None if analyzed is None else -analyzed)
    return Arrival(1, UUID(int=1), NOW.date(), 1, 1, first_seen, analyzed_at, state, at(pending))


@pytest.mark.parametrize(
    ("row", "has_root", "seconds"),
    [
        (arrival(), True, 2),
        (arrival(), False, 10),
        (arrival(state="complete", analyzed=60), False, 2),
        (arrival(state="incomplete", analyzed=60), False, 10),
        (arrival(pending=1), False, 2),
        (arrival(pending=5, seen=5), False, 10),
        (arrival(pending=5, seen=25), False, 5),
        (arrival(pending=5, seen=29), True, 1),
        (arrival(pending=5, seen=300, analyzed=29), True, 1),
    ],
    ids=[
        "root is here",
        "root is missing",
        "root was here before",
        "root was missing before",
        "about to be analysed",
        "still arriving",
        "cap is near",
        "cap is nearer than quiet",
        "cap counts from the last analysis",
    ],
)
def test_a_trace_is_due_once_it_falls_quiet(row: Arrival, has_root: bool, seconds: int) -> None:
    assert due_at(row, has_root=has_root, now=NOW) == NOW + seconds * SECOND


def test_a_remote_parent_counts_as_root(project: models.Project) -> None:
    remote = span(2, parent=1, flags=FLAG_HAS_IS_REMOTE | FLAG_IS_REMOTE)
    store.store_spans(project, [remote], now=NOW)
    assert models.Due.objects.get().due_at == NOW + 2 * SECOND


def test_new_spans_give_a_failed_trace_another_chance(project: models.Project) -> None:
    store.store_spans(project, [span(1)], now=NOW)
    models.Due.objects.update(attempts=5)
    store.store_spans(project, [span(2, parent=1)], now=NOW)
    assert models.Due.objects.get().attempts == 0
