"""The web port: pages, trace export, probes."""

from django.urls import include, path

from tracebudget import probes
from tracebudget.web.metrics import metrics

urlpatterns = [
    path("healthz", probes.healthz),
    path("readyz", probes.readyz),
    path("metrics", metrics),
    path("", include("ingest.urls")),
    path("", include("tracebudget.web.urls")),
]

handler400 = "tracebudget.web.errors.bad_request"
handler403 = "tracebudget.web.errors.forbidden"
handler404 = "tracebudget.web.errors.not_found"
handler500 = "tracebudget.web.errors.server_error"
