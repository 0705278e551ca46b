"""What tests share: real servers and programs, started when a test needs them, ended in any case.

They are the product's own (tracebudget.runtime), in a data directory that lives as long as the test
run. Core tests need none of them, and start none.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen

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
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402
from playwright.sync_api import Browser, sync_playwright  # noqa: E402

from tests.browser import chromium  # noqa: E402
from tests.running import RunningUp  # noqa: E402
from tracebudget.runtime import postgres, sockets, valkey  # noqa: E402
from tracebudget.runtime.child import Command, running  # noqa: E402

# Reading a setting here, at import, is what makes pytest-django set Django up.
CLUSTER = settings.DATA_DIR / "postgres"
# Nothing has to survive the test run.
FAST_AND_FORGETFUL = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


# ---- servers and programs ------------------------------------------------------------------------


@pytest.fixture(scope="session")
def socket_dir() -> Path:
    sockets.make_socket_directory(settings.SOCKET_DIR, owner=postgres.system_uid())
    return settings.SOCKET_DIR


@pytest.fixture(scope="session")
def postgres_server(socket_dir: Path) -> Iterator[None]:
    """A real PostgreSQL at `settings.DATABASES`. Tests ask for `db` or `transactional_db`."""
    postgres.prepare(CLUSTER)
    command = postgres.command(CLUSTER, socket_dir, options=FAST_AND_FORGETFUL)
    with running(command, log=DATA_DIR / "postgres.log") as server:
        postgres.create_database(socket_dir, timeout=30, is_alive=lambda: server.poll() is None)
        yield


@pytest.fixture(scope="session")
def django_db_modify_db_settings(postgres_server: None) -> None:
    """pytest-django asks for this before it connects: the server runs when a test needs it."""


@pytest.fixture(scope="session")
def broker(socket_dir: Path) -> Iterator[str]:
    """A real Valkey; the URL is `settings.CELERY_BROKER_URL`."""
    with running(valkey.command(socket_dir), log=DATA_DIR / "valkey.log"):
        yield settings.CELERY_BROKER_URL


@pytest.fixture
def run_program(
    transactional_db: None, broker: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Command], Popen[bytes]]]:
    """Start a program of tracebudget.runtime.programs on the test database, until the test ends.

    Its output is in `DATA_DIR / "<name>.log"`.
    """
    test_database = connection.settings_dict["NAME"]
    monkeypatch.setenv("DATABASE_URL", postgres.database_url(settings.SOCKET_DIR, test_database))
    with ExitStack() as programs:
        yield lambda command: programs.enter_context(
            running(command, log=DATA_DIR / f"{command.name}.log")
        )


@pytest.fixture(scope="session")
def static_files() -> None:
    """Pages name their static files by digest, which collectstatic computes."""
    call_command("collectstatic", verbosity=0, interactive=False)


@pytest.fixture
def client(static_files: None) -> Client:
    return Client()


# ---- the product in a browser --------------------------------------------------------------------


@pytest.fixture(scope="session")
def product() -> Iterator[RunningUp]:
    """All of `manage.py up`, running. One for the whole test run."""
    with tempfile.TemporaryDirectory(prefix="tb-product-") as directory:
        up = RunningUp(Path(directory))
        try:
            up.start_and_wait()
            yield up
        finally:
            up.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    # Playwright runs an event loop in this thread, where Django would refuse to use the database.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "yes"
    with sync_playwright() as playwright:
        chrome = playwright.chromium.launch(
            executable_path=chromium.find(), args=list(chromium.FLAGS)
        )
        yield chrome
        chrome.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if chromium.find():
        return
    if os.environ.get("REQUIRE_BROWSER"):
        raise pytest.UsageError(f"No Chromium for the browser tests: {chromium.HOW_TO_INSTALL}")
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.skip(reason="no Chromium"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly what was not run."""
    skipped = [
        report
        for report in terminalreporter.stats.get("skipped", [])
        if "browser" in report.keywords
    ]
    if skipped:
        terminalreporter.write_sep(
            "!", f"NOT RUN: {len(skipped)} browser tests", red=True, bold=True
        )
        terminalreporter.write_line(f"There is no Chromium: {chromium.HOW_TO_INSTALL}", red=True)
