"""The Celery app. Messages only say "look at the rows": a lost one costs the seconds until the next tick."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tracebudget.settings")

app = Celery("tracebudget")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
