"""Whether a port of ours answers."""

from __future__ import annotations

from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException

from django.conf import settings

from tracebudget.runtime.addresses import local_authority


def is_ready(port: int) -> bool:
    """The program at the port says that it can work."""
    with closing(HTTPConnection(local_authority(settings.HOST, port), timeout=1)) as probe:
        try:
            probe.request("GET", "/readyz")
            return probe.getresponse().status == HTTPStatus.OK
        except (OSError, HTTPException):
            return False
