"""What tests share: an embedded PostgreSQL and Valkey, started when the first test needs them, ended in any case.

The product's own servers are used (tracebudget.runtime), in a data directory that lives as long as the test run.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Before Django reads its settings: a data directory of our own, and nothing from the outside.
DATA_DIR = Path(tempfile.mkdtemp(prefix="tracebudget-tests-"))
atexit.register(shutil.rmtree, DATA_DIR, ignore_errors=True)
for name in [name for name in os.environ if name.startswith("TRACEBUDGET_")]:
    del os.environ[name]
os.environ.pop("DATABASE_URL", None)
os.environ.pop("BROKER_URL", None)
os.environ["DJANGO_SETTINGS_MODULE"] = "tracebudget.settings"
os.environ["TRACEBUDGET_DATA_DIR"] = str(DATA_DIR)
os.environ["TRACEBUDGET_SECRET_KEY"] = "only for tests"

import pytest  # noqa: E402
from django.conf import settings  # noqa: E402

from tracebudget.runtime import postgres, sockets, valkey  # noqa: E402
from tracebudget.runtime.child import running  # noqa: E402

CLUSTER = (
    settings.DATA_DIR / "postgres"
)  # reading a setting now lets pytest-django set Django up with them
# Nothing has to survive the test run.
FAST_AND_FORGETFUL = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


@pytest.fixture(scope="session")
def socket_dir() -> Path:
    sockets.make_socket_directory(settings.SOCKET_DIR, owner=postgres.system_uid())
    return settings.SOCKET_DIR


@pytest.fixture(scope="session")
def postgres_server(socket_dir: Path) -> Iterator[None]:
    """A real PostgreSQL at `settings.DATABASES`. Tests do not ask for it: `db` and `transactional_db` do."""
    postgres.prepare(CLUSTER)
    command = postgres.command(CLUSTER, socket_dir, options=FAST_AND_FORGETFUL)
    with running(command, log=DATA_DIR / "postgres.log") as server:
        postgres.create_database(socket_dir, timeout=30, is_alive=lambda: server.poll() is None)
        yield


@pytest.fixture(scope="session")
def broker(socket_dir: Path) -> Iterator[str]:
    """A real Valkey; the URL is `settings.CELERY_BROKER_URL`."""
    with running(valkey.command(socket_dir), log=DATA_DIR / "valkey.log"):
        yield settings.CELERY_BROKER_URL


@pytest.fixture(scope="session")
def django_db_modify_db_settings(postgres_server: None) -> None:
    """pytest-django asks for this before it connects: so the server runs when a test needs it, and only then."""
