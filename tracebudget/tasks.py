"""What Celery runs. A message says "look at the rows": losing or repeating one does no harm."""

import logging

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from tracebudget import learning, partition, pipeline, store
from tracebudget.alerts import dispatch, watch

logger = logging.getLogger(__name__)


@shared_task
def analyze_due() -> None:
    pipeline.analyze_due(timezone.now)


@shared_task
def refresh_rollups() -> None:
    store.refresh_rollups(timezone.now)


@shared_task
def learn() -> None:
    learning.learn(timezone.now)


@shared_task
def check_budgets() -> None:
    watch.check_budgets(now=timezone.now())


@shared_task
def deliver_due() -> None:
    dispatch.deliver_due(timezone.now)


@shared_task
def create_partitions() -> None:
    partition.create_ahead(timezone.now())


@shared_task(time_limit=settings.PRUNE_TIME_LIMIT)
def prune() -> None:
    try:
        store.prune(now=timezone.now())
    except store.PruneError as error:
        logger.warning("Old traces stay for now: %s", error)
