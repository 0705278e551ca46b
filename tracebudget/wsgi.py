"""WSGI entry of the web port."""

import os
import signal

from django.core.wsgi import get_wsgi_application

from tracebudget.runtime.tether import die_with_parent

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tracebudget.settings")
# This is a worker of granian: it would outlive a killed main process, and keep the port.
die_with_parent(os.getppid(), signal.SIGKILL)
application = get_wsgi_application()
