"""The command lines of Tracebudget's own programs."""

from __future__ import annotations

import sys
from pathlib import Path

from django.conf import settings

from tracebudget.runtime.child import Command

GRANIAN_LOG = Path(__file__).with_name("granian_log.json")  # its own lines as JSON too
CELERY = (sys.executable, "-m", "celery", "--quiet", "--app", "tracebudget.celery")


def web() -> Command:
    """Pages, API and trace export on the web port."""
    return granian("web", "tracebudget.wsgi", port=settings.PORT, processes=settings.WEB_PROCESSES)


def otlp() -> Command:
    """Trace export on the OTLP port."""
    return granian(
        "otlp", "tracebudget.otlp_wsgi", port=settings.OTLP_PORT, processes=settings.OTLP_PROCESSES
    )


def grpc() -> Command:
    """Trace export by gRPC."""
    return Command("grpc", (sys.executable, "-m", "tracebudget.otlp_grpc"))


def worker() -> Command:
    """Analyses what is due. Workers know nothing that others must hear: no mingle, no gossip."""
    return Command("worker", (*CELERY, "worker", "--without-mingle", "--without-gossip"))


def beat() -> Command:
    """Ticks: tells the worker to look at the rows."""
    return Command("beat", (*CELERY, "beat", "--pidfile="))


def demo() -> Command:
    """Fills the project `demo`, and ends."""
    return Command("demo", (sys.executable, "manage.py", "demo"), restarts=False)


def granian(name: str, module: str, *, port: int, processes: int) -> Command:
    """A web server for a WSGI application."""
    options = {
        "interface": "wsgi",
        "host": settings.HOST,
        "port": port,
        "workers": processes,
        "blocking-threads": settings.HTTP_THREADS,
        "backpressure": settings.HTTP_BACKPRESSURE,
        "workers-kill-timeout": 2,  # seconds; a request that hangs must not hold up the stop
    }
    flags = [word for option, value in options.items() for word in (f"--{option}", str(value))]
    if settings.LOG_FORMAT == "json":
        flags += ["--log-config", str(GRANIAN_LOG)]
    argv = (sys.executable, "-m", "granian", *flags, "--no-ws", f"{module}:application")
    return Command(name, argv)
