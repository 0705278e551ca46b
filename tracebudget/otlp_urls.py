"""The OTLP port: trace export and probes, and nothing else."""

from django.urls import include, path

from tracebudget import probes

handler404 = "ingest.views.not_found"
urlpatterns = [
    path("healthz", probes.healthz),
    path("readyz", probes.readyz),
    path("", include("ingest.urls")),
]
