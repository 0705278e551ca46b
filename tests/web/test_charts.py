"""A chart says the same as a table."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.web.traces import MS
from tracebudget.templatetags.charts import Row, Table, table_of
from tracebudget.web.figures import turns_figure


def test_bars_become_columns() -> None:
    turns = [{"prefill": 58 * MS, "tool": 184 * MS}, {"prefill": 62 * MS}]
    assert table_of(turns_figure(turns, ["0", "1"])) == Table(
        "turn",
        ["prefill", "tool"],
        [Row("0", None, ["58 ms", "184 ms"]), Row("1", None, ["62 ms", "0 ms"])],
    )


def test_moments_are_told_apart_from_names() -> None:
    x = ["2026-01-01T12:00:00+00:00", "Tuesday"]
    bars = {"name": "requests", "x": x, "y": [1, None]}
    table = table_of({"data": [bars], "layout": {"xaxis": {}}})
    assert table is not None
    assert [row.moment for row in table.rows] == [datetime(2026, 1, 1, 12, tzinfo=UTC), None]
    assert [row.values for row in table.rows] == [["1"], ["—"]]


def test_cloud_of_dots_and_nothing_have_no_table() -> None:
    dots = {"name": "calls", "x": [1, 2], "y": [3, 4]}
    line = {"name": "slope", "x": [1, 9], "y": [3, 4]}
    assert table_of({"data": [dots, line], "layout": {"xaxis": {}}}) is None
    assert table_of({"data": [], "layout": {"xaxis": {}}}) is None
