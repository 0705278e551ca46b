"""WSGI entry of the OTLP port, which has settings of its own whatever the environment says."""

import os
import signal

from django.conf import settings
from django.core.wsgi import get_wsgi_application

from tracebudget.runtime.spread import Application, spread
from tracebudget.runtime.tether import die_with_parent

os.environ["DJANGO_SETTINGS_MODULE"] = "tracebudget.otlp_settings"
# This is a worker of granian: it would outlive a killed main process, and keep the port.
die_with_parent(os.getppid(), signal.SIGKILL)
application: Application = get_wsgi_application()
if settings.OTLP_PROCESSES > 1:
    application = spread(application)
