"""The Celery app. Messages only say "look at the rows": a lost one costs a tick."""

import os
import warnings
from typing import Any

from celery import Celery
from celery.exceptions import SecurityWarning
from celery.signals import setup_logging, worker_process_init
from django.conf import settings

from tracebudget.collector import relax_collector
from tracebudget.runtime.niceness import give_way

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tracebudget.settings")

# Root in a container, or on a machine of one's own, is no danger here: no message can carry code
# (JSON only).
warnings.simplefilter("ignore", SecurityWarning)

app = Celery("tracebudget")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def keep_our_logging(**_: Any) -> None:
    """Celery leaves logging alone when someone listens: settings.LOGGING holds in the worker."""


@worker_process_init.connect
def stand_back(**_: Any) -> None:
    """Analysis can wait, and exporters cannot: in a burst the cores belong to ingest first."""
    give_way(settings.WORKER_NICENESS)
    relax_collector()
