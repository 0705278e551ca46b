"""The settings of the OTLP port: no pages, so no sessions, no cookies, no check of `Host`.

Keys guard it, and a browser has none.
"""

from tracebudget.settings import *  # noqa: F403

ROOT_URLCONF = "tracebudget.otlp_urls"
WSGI_APPLICATION = "tracebudget.otlp_wsgi.application"
MIDDLEWARE = ["tracebudget.metrics.measure_exports"]
