"""The settings of the OTLP port: no pages, so no sessions, no cookies and no check of names in `Host` (keys guard it)."""

from tracebudget.settings import *  # noqa: F403

ROOT_URLCONF = "tracebudget.otlp_urls"
WSGI_APPLICATION = "tracebudget.otlp_wsgi.application"
MIDDLEWARE = []
