"""WSGI entry of the OTLP port, which has settings of its own whatever the environment says."""

import os
import signal

from django.core.wsgi import get_wsgi_application

from tracebudget.runtime.tether import die_with_parent

os.environ["DJANGO_SETTINGS_MODULE"] = "tracebudget.otlp_settings"
# This is a worker of granian: it would outlive a killed main process, and keep the port.
die_with_parent(os.getppid(), signal.SIGKILL)
application = get_wsgi_application()
