"""WSGI entry of the OTLP port. Its settings are not up to the environment: this port serves no pages."""

import os

from django.core.wsgi import get_wsgi_application

os.environ["DJANGO_SETTINGS_MODULE"] = "tracebudget.otlp_settings"
application = get_wsgi_application()
