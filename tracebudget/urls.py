"""The web port: pages, trace export, probes."""

from django.urls import include, path

from tracebudget import probes

urlpatterns = [
    path("healthz", probes.healthz),
    path("readyz", probes.readyz),
    path("", include("ingest.urls")),
    path("", include("tracebudget.web.urls")),
]
