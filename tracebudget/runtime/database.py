"""Makes a database ready for the programs: migrations, partitions, the first project."""

from __future__ import annotations

from django.conf import settings
from django.core.management import call_command
from django.db import OperationalError, connection
from django.utils import timezone

from tracebudget import partition
from tracebudget.runtime.errors import StartError
from tracebudget.runtime.first_start import make_first_project, update_addresses


def prepare_database() -> bool:
    """Migrate, make the coming days' partitions and the first project. Whether it made one.

    Safe to repeat. StartError when the database does not answer.
    """
    try:
        connection.ensure_connection()
    except OperationalError as error:
        raise StartError(f"The database of DATABASE_URL does not answer: {error}") from error
    call_command("migrate", verbosity=0, interactive=False)
    now = timezone.now()
    partition.create_ahead(now)
    is_first = make_first_project(settings.CREDENTIALS_FILE, now=now)
    update_addresses(settings.CREDENTIALS_FILE)
    connection.close()
    return is_first
