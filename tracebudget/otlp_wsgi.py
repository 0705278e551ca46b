"""WSGI entry of the OTLP port, which has settings of its own whatever the environment says."""

import os

from django.core.wsgi import get_wsgi_application

os.environ["DJANGO_SETTINGS_MODULE"] = "tracebudget.otlp_settings"
application = get_wsgi_application()
