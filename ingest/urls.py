"""The OTLP/HTTP endpoint, served on the OTLP port and on the web port."""

from django.urls import URLPattern, path

from ingest import views
from tracebudget.models import Signal

urlpatterns: list[URLPattern] = [
    path("v1/traces", views.export_traces, name="export_traces"),
    path("v1/logs", views.ignore_export, {"signal": Signal.LOGS}, "ignore_logs"),
    path("v1/metrics", views.ignore_export, {"signal": Signal.METRICS}, "ignore_metrics"),
]
