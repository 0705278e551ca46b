"""What `up` does, in order: lock, check, servers, database, first start, programs, watch."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from typing import IO

from django.conf import settings
from django.core.management import call_command
from kombu.exceptions import OperationalError as BrokerError

from tracebudget.celery import app as celery_app
from tracebudget.runtime import postgres, programs, valkey
from tracebudget.runtime.addresses import listens, require_free_port
from tracebudget.runtime.data_dir import locked, make_secret
from tracebudget.runtime.database import prepare_database
from tracebudget.runtime.first_start import announcement
from tracebudget.runtime.log import MergedLog
from tracebudget.runtime.readiness import is_ready
from tracebudget.runtime.sockets import make_socket_directory
from tracebudget.runtime.supervisor import Supervisor

# Together below 5 s: then all is down after a Ctrl-C. A worker with nothing to do needs 2 s.
PROGRAM_GRACE_SECONDS, SERVER_GRACE_SECONDS = 3.3, 1.5
POSTGRES_START_SECONDS = 120  # after a crash it first replays its log


def run(stream: IO[str], *, with_demo: bool) -> None:
    """Start everything and keep it running until KeyboardInterrupt. StartError says why not.

    `with_demo`: an empty database gets demo data once all is ready.
    """
    log = MergedLog(stream, as_json=settings.LOG_FORMAT == "json")
    with locked(settings.DATA_DIR) as lock:
        make_secret(settings.SECRET_KEY_FILE)
        shutil.rmtree(settings.METRICS_DIR, ignore_errors=True)  # counts of processes that are gone
        _require_free_ports()
        supervisor = Supervisor(log, inherit=[lock])
        try:
            _start_servers(supervisor, log)
            log.write("up", "Migrating the database and collecting static files")
            call_command("collectstatic", verbosity=0, interactive=False)
            is_first = prepare_database()
            supervisor.start(
                programs.web(),
                programs.otlp(),
                programs.grpc(),
                programs.worker(),
                programs.beat(),
                grace=PROGRAM_GRACE_SECONDS,
            )
            supervisor.watch(until=_all_ready())
            log.announce(announcement(settings.CREDENTIALS_FILE, is_first=is_first))
            if is_first and with_demo:
                supervisor.start(programs.demo(), grace=PROGRAM_GRACE_SECONDS)
            supervisor.watch()
        finally:
            _ignore_signals()  # a second Ctrl-C must not interrupt the stop
            supervisor.stop()


def _require_free_ports() -> None:
    require_free_port(settings.HOST, settings.PORT, setting="TRACEBUDGET_PORT")
    require_free_port(settings.HOST, settings.OTLP_PORT, setting="TRACEBUDGET_OTLP_PORT")
    require_free_port(settings.HOST, settings.GRPC_PORT, setting="TRACEBUDGET_GRPC_PORT")


def _start_servers(supervisor: Supervisor, log: MergedLog) -> None:
    """Start the servers that the environment does not name."""
    make_socket_directory(settings.SOCKET_DIR, owner=postgres.system_uid())
    servers = []
    if settings.EMBEDDED_BROKER:
        servers.append(valkey.command(settings.SOCKET_DIR))
    if settings.EMBEDDED_DATABASE:
        cluster = settings.DATA_DIR / "postgres"
        log.write("up", f"The database is in {cluster}")
        postgres.prepare(cluster)
        servers.append(postgres.command(cluster, settings.SOCKET_DIR))
    supervisor.start(*servers, grace=SERVER_GRACE_SECONDS)
    if settings.EMBEDDED_DATABASE:
        postgres.create_database(
            settings.SOCKET_DIR, timeout=POSTGRES_START_SECONDS, is_alive=supervisor.all_alive
        )


def _all_ready() -> Callable[[], bool]:
    """A check that turns true once every program has answered."""
    waiting = [
        lambda: is_ready(settings.PORT),
        lambda: is_ready(settings.OTLP_PORT),
        lambda: listens(settings.HOST, settings.GRPC_PORT),
        _worker_answers,
    ]

    def all_ready() -> bool:
        while waiting and waiting[0]():
            waiting.pop(0)
        return not waiting

    return all_ready


def _worker_answers() -> bool:
    try:
        return bool(celery_app.control.ping(timeout=0.5))
    except BrokerError:
        return False


def _ignore_signals() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
