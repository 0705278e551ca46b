"""What Celery runs. A message says "look at the rows": losing or repeating one does no harm."""

from celery import shared_task
from django.utils import timezone

from tracebudget import partition, pipeline


@shared_task
def analyze_due() -> None:
    pipeline.analyze_due(timezone.now)


@shared_task
def create_partitions() -> None:
    partition.create_ahead(timezone.now())
