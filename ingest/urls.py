"""The OTLP/HTTP endpoint, served on the OTLP port and on the web port."""

from django.urls import URLPattern, re_path

from ingest import views
from tracebudget.models import Signal

# Some exporters end their addresses with a slash.
urlpatterns: list[URLPattern] = [
    re_path("^v1/traces/?$", views.export_traces, name="export_traces"),
    re_path("^v1/logs/?$", views.ignore_export, {"signal": Signal.LOGS}, "ignore_logs"),
    re_path("^v1/metrics/?$", views.ignore_export, {"signal": Signal.METRICS}, "ignore_metrics"),
]
