"""Day partitions: made ahead, listed, dropped whole."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta

import psycopg
import pytest
from django.db import OperationalError, connection

from tests.store.spans import NOW, span
from tracebudget import models, partition, store

TODAY = NOW.date()

pytestmark = pytest.mark.django_db


def test_days_are_made_ahead_and_making_them_again_changes_nothing() -> None:
    for _ in range(2):
        partition.create_ahead(NOW)
    ahead = [TODAY + timedelta(days=days) for days in range(partition.DAYS_AHEAD + 1)]
    assert set(ahead) <= set(partition.sizes())
    assert list(partition.sizes()) == sorted(partition.sizes())


def test_every_growing_table_gets_its_part() -> None:
    partition.create(TODAY)
    for model in partition.PARTITIONED:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT to_regclass(%s) IS NOT NULL",
                [partition.partition_name(model._meta.db_table, TODAY)],
            )
            assert cursor.fetchone() == (True,)


def test_what_is_compressed_already_is_stored_as_it_is() -> None:
    """`e`: outside of the row, uncompressed; `p`: in the row, uncompressed."""
    partition.create(TODAY)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT attname, attstorage::text FROM pg_attribute"
            " WHERE attrelid = %s::regclass AND attname IN ('head', 'tail')",
            [partition.partition_name("tracebudget_spanbatch", TODAY)],
        )
        assert dict(cursor.fetchall()) == {"head": "e", "tail": "p"}


def test_a_dropped_day_takes_no_other_with_it(project: models.Project) -> None:
    yesterday = NOW - timedelta(days=1)
    store.store_spans(project, [span(trace=1)], now=yesterday)
    store.store_spans(project, [span(trace=2)], now=NOW)
    partition.drop(yesterday.date())
    assert [batch.day for batch in models.SpanBatch.objects.all()] == [TODAY]
    assert not partition.exists(yesterday.date())


@pytest.mark.django_db(transaction=True)
def test_two_processes_may_make_one_day() -> None:
    day = date(2031, 1, 1)

    def create(_: int) -> None:
        try:
            partition.create(day)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(create, range(4)))
    assert partition.exists(day)


@pytest.mark.django_db(transaction=True)
def test_making_a_day_waits_for_no_reader_and_dropping_one_gives_up() -> None:
    """A backup reads all day; neither tomorrow's tables nor ingest may queue behind it."""
    partition.create(TODAY)
    with psycopg.connect(**connection.get_connection_params()) as backup:
        backup.execute("LOCK TABLE tracebudget_spanbatch IN ACCESS SHARE MODE")
        partition.create(date(2031, 1, 2))
        assert partition.exists(date(2031, 1, 2))
        with pytest.raises(OperationalError, match="lock timeout"):
            partition.drop(TODAY, lock_timeout_ms=50)
    assert partition.exists(TODAY)
