"""What Celery runs. A message says "look at the rows": losing or repeating one does no harm."""

import logging
from collections.abc import Callable
from functools import wraps

from celery import shared_task
from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.utils import timezone

from tracebudget import learning, partition, pipeline, store
from tracebudget.alerts import dispatch, watch

logger = logging.getLogger(__name__)


def patient(task: Callable[[], None]) -> Callable[[], None]:
    """A database that is away costs a line of the log, not a page: the next tick tries again."""

    @wraps(task)
    def run() -> None:
        try:
            task()
        except (OperationalError, InterfaceError) as error:
            logger.warning("%s waits for the database: %s", task.__name__, error)

    return run


@shared_task
@patient
def analyze_due() -> None:
    pipeline.analyze_due(timezone.now)


@shared_task
@patient
def refresh_rollups() -> None:
    store.refresh_rollups(timezone.now)


@shared_task
@patient
def learn() -> None:
    learning.learn(timezone.now)


@shared_task
@patient
def check_budgets() -> None:
    watch.check_budgets(now=timezone.now())


@shared_task
@patient
def deliver_due() -> None:
    dispatch.deliver_due(timezone.now)


@shared_task
@patient
def create_partitions() -> None:
    partition.create_ahead(timezone.now())


@shared_task(time_limit=settings.PRUNE_TIME_LIMIT)
@patient
def prune() -> None:
    try:
        store.prune(now=timezone.now())
    except store.PruneError as error:
        logger.warning("Old traces stay for now: %s", error)
