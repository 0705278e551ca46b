"""The Django app: importing `tracebudget.celery` binds every shared task to our Celery app."""

from django.apps import AppConfig


class TracebudgetConfig(AppConfig):
    name = "tracebudget"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from tracebudget import celery  # noqa: F401  (settings must be ready before the Celery app reads them)
