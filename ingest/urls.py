"""The OTLP/HTTP endpoint, served on the OTLP port and on the web port."""

from django.urls import URLPattern, path

from ingest import views

urlpatterns: list[URLPattern] = [
    path("v1/traces", views.export_traces, name="export_traces"),
    path("v1/logs", views.ignore_export, name="ignore_logs"),
    path("v1/metrics", views.ignore_export, name="ignore_metrics"),
]
