"""What the last requests of an app say about its budgets: counts, in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection

from tracebudget import models, partition
from tracebudget.core.alerting import Rule, Window

# "The last 20 judged" are looked for among so many latest requests. Where fewer than one in fifty
# can be judged, an alert would rest on chance.
LATEST = 1_000

# A request counts when it ended, by its sender's clock but never later than its last span arrived;
# and for a budget only if it was judged by the budget as it is now. The index is by start: requests
# of the window started at most as long before it as the longest of the latest ones took. What
# retention has kept is left out: it is old, and kept for being slow.
COUNT = """
    WITH budget AS (
        SELECT * FROM unnest(%(metrics)s::text[], %(changed)s::timestamptz[])
            AS budget (metric, changed_at)
    ), request AS NOT MATERIALIZED (
        SELECT started_at, end_to_end_ns, analyzed_at, breached,
            coalesce(unjudged, '{}') AS unjudged,
            least(started_at + end_to_end_ns / 1000 * interval '1 microsecond', last_seen_at)
                AS ended_at
        FROM tracebudget_trace
        WHERE app_id = %(app)s AND started_at IS NOT NULL AND day > %(kept)s
    ), latest AS MATERIALIZED (
        SELECT * FROM request ORDER BY started_at DESC LIMIT %(latest)s
    ), reach AS MATERIALIZED (
        SELECT %(since)s::timestamptz
            - max(end_to_end_ns) / 1000 * interval '1 microsecond' AS earliest FROM latest
    ), inside AS MATERIALIZED (
        SELECT * FROM (
            SELECT * FROM request WHERE started_at > (SELECT earliest FROM reach)
            ORDER BY started_at DESC LIMIT %(most)s
        ) AS started WHERE ended_at > %(since)s
    )
    SELECT budget.metric,
        (
            SELECT count(*) FILTER (WHERE breached @> ARRAY[budget.metric]) FROM (
                SELECT breached FROM latest
                WHERE analyzed_at >= budget.changed_at AND NOT unjudged @> ARRAY[budget.metric]
                ORDER BY ended_at DESC LIMIT %(of_last)s
            ) AS last
        ),
        count(inside.ended_at),
        count(*) FILTER (WHERE inside.breached @> ARRAY[budget.metric]),
        (SELECT earliest FROM reach)
    FROM budget LEFT JOIN inside
        ON inside.analyzed_at >= budget.changed_at AND NOT inside.unjudged @> ARRAY[budget.metric]
    GROUP BY budget.metric, budget.changed_at
"""


class Seen(NamedTuple):
    """A budget's window, and since when its requests can have started."""

    window: Window
    earliest: datetime


def count_windows(
    budgets: Sequence[models.Budget], rule: Rule, *, now: datetime
) -> dict[str, Seen]:
    """The windows of one app's budgets, by metric."""
    if not budgets:
        return {}
    since = now - timedelta(microseconds=rule.window_ns // 1000)
    values: dict[str, Any] = {
        "app": budgets[0].app_id,
        "metrics": [budget.metric for budget in budgets],
        "changed": [budget.updated_at for budget in budgets],
        "kept": partition.KEPT,
        "since": since,
        "latest": LATEST,
        "most": settings.CHECK_MAX_REQUESTS,
        "of_last": rule.of_last,
    }
    with connection.cursor() as cursor:
        cursor.execute(COUNT, values)
        return {
            metric: Seen(Window(last_over, judged, over), earliest or since)
            for metric, last_over, judged, over, earliest in cursor.fetchall()
        }
