"""The outbox: claim what is due, send it, write down what came of it.

Rows are the queue here too. A claim moves `next_try_at` behind a lease, so what a killed worker had
in hand is due again by itself: it may arrive twice, with one id, and never not at all. Of one alert
a channel hears in order: a recovery waits until the breach before it has arrived or was given up.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction

from tracebudget import metrics, models
from tracebudget.alerts import channel as channels
from tracebudget.alerts.errors import DeliveryError
from tracebudget.alerts.message import compose

logger = logging.getLogger(__name__)
Clock = Callable[[], datetime]

AT_ONCE = 8  # tries that wait for the network side by side
SLICE = timedelta(seconds=10)  # how long one task drains the outbox before it frees the worker
# Beyond the time limit of a try: looking a name up has limits of its own, and writing takes time.
LEASE_MARGIN = timedelta(seconds=30)
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=10), timedelta(hours=1)
JITTER = 0.2  # so that what failed together does not come back together
MAX_ANSWER_CHARS = 500  # of one line in the log

CLAIM = """
    WITH due AS (
        SELECT delivery.id FROM tracebudget_delivery AS delivery
        LEFT JOIN tracebudget_alertevent AS event ON event.id = delivery.event_id
        WHERE delivery.next_try_at <= %(now)s AND NOT EXISTS (
            SELECT FROM tracebudget_alertevent AS before
            JOIN tracebudget_delivery AS earlier ON earlier.event_id = before.id
            WHERE before.alert_id = event.alert_id AND before.id < event.id
                AND earlier.channel_id = delivery.channel_id AND earlier.next_try_at IS NOT NULL
        )
        ORDER BY delivery.next_try_at LIMIT %(limit)s FOR UPDATE OF delivery SKIP LOCKED
    )
    UPDATE tracebudget_delivery AS delivery
    SET next_try_at = %(lease)s, tries = tries + 1
    FROM due WHERE delivery.id = due.id RETURNING delivery.id
"""


class Outcome(NamedTuple):
    """What a try met: the other side's words, or what went wrong."""

    took_ms: int
    answer: str
    error: DeliveryError | None


def deliver_due(clock: Clock) -> int:
    """Send what is due until nothing is or the time slice is used up; how many tries."""
    done, until = 0, clock() + SLICE
    while clock() < until:
        claimed = _claim(now=clock())
        if not claimed:
            break
        for delivery, outcome in _send_all(claimed, now=clock()):
            _record(delivery, outcome, now=clock())
        done += len(claimed)
    return done


def _claim(*, now: datetime) -> list[models.Delivery]:
    """At most AT_ONCE due deliveries, the longest due first, with all that their messages need."""
    lease = timedelta(seconds=settings.DELIVERY_SECONDS) + LEASE_MARGIN
    with connection.cursor() as cursor:
        cursor.execute(CLAIM, {"now": now, "limit": AT_ONCE, "lease": now + lease})
        claimed: list[UUID] = [row[0] for row in cursor.fetchall()]
    if not claimed:
        return []
    rows = models.Delivery.objects.filter(pk__in=claimed)
    return list(rows.select_related("channel__project", "event__alert__project"))


def _send_all(
    deliveries: Sequence[models.Delivery], *, now: datetime
) -> Iterator[tuple[models.Delivery, Outcome]]:
    """Send side by side, and yield each as it is done. The threads leave the database alone."""
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        tries: dict[Future[Outcome], models.Delivery] = {
            pool.submit(_try, delivery, now): delivery for delivery in deliveries
        }
        for done in as_completed(tries):
            yield tries[done], done.result()


def _try(delivery: models.Delivery, now: datetime) -> Outcome:
    started, error = time.monotonic(), None
    try:
        answer = channels.send(delivery.channel, compose(delivery), now=now)
    except DeliveryError as failure:
        answer, error = str(failure), failure
    except Exception as failure:  # a fault of ours: try again, somebody may have mended it
        logger.exception("Delivery %s could not be sent", delivery.pk)
        answer = f"{type(failure).__name__}: {failure}"
        error = DeliveryError(answer)
    return Outcome(round((time.monotonic() - started) * 1000), answer, error)


@transaction.atomic
def _record(delivery: models.Delivery, outcome: Outcome, *, now: datetime) -> None:
    """A line in the log, and the delivery's new state. Success holds, whoever else tried."""
    outcome_word = "failed" if outcome.error else "sent"
    metrics.DELIVERIES.labels(delivery.channel.kind, outcome_word).inc()
    models.DeliveryTry.objects.create(
        delivery=delivery,
        at=now,
        took_ms=outcome.took_ms,
        is_success=outcome.error is None,
        answer=outcome.answer[:MAX_ANSWER_CHARS].replace("\0", "\ufffd"),
    )
    mine = models.Delivery.objects.filter(pk=delivery.pk, state=models.DeliveryState.WAITING)
    if outcome.error is None:
        mine.update(state=models.DeliveryState.SENT, next_try_at=None, ended_at=now)
        return
    # Another worker may have it by now, if our lease ran out: then the word is with that one.
    mine = mine.filter(tries=delivery.tries)
    retry_at = next_try(delivery, outcome.error, now=now)
    if retry_at is None:
        logger.warning("Delivery %s is given up: %s", delivery.pk, outcome.answer)
        mine.update(state=models.DeliveryState.FAILED, next_try_at=None, ended_at=now)
    else:
        mine.update(next_try_at=retry_at)


def next_try(delivery: models.Delivery, error: DeliveryError, *, now: datetime) -> datetime | None:
    """After growing pauses, or as late as the other side asked; None when it is given up."""
    pause = min(FIRST_PAUSE * 2 ** (delivery.tries - 1), LONGEST_PAUSE)
    pause *= random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 (no secret)
    at = now + max(pause, timedelta(seconds=error.retry_after or 0))
    is_old = at - delivery.created_at > timedelta(hours=settings.DELIVERY_HOURS)
    return None if error.is_permanent or is_old else at
