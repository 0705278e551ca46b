"""Probes for whoever starts us: does the process live, and can it do its work?"""

from __future__ import annotations

import logging
from functools import lru_cache

from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

logger = logging.getLogger(__name__)
NO_STORE = {"Cache-Control": "no-store"}


@login_not_required
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """200 while the process answers. A database that is away is no reason to restart us."""
    return HttpResponse("ok\n", content_type="text/plain", headers=NO_STORE)


@login_not_required
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """200 when the database answers and is migrated, else 503 with the reason."""
    reason = why_not_ready()
    return HttpResponse(
        f"{reason or 'ready'}\n",
        content_type="text/plain",
        status=503 if reason else 200,
        headers=NO_STORE,
    )


def why_not_ready() -> str | None:
    try:
        missing = _migrations() - set(MigrationRecorder(connection).applied_migrations())
    except DatabaseError as error:
        # The details, addresses among them, are not for everyone who can ask.
        logger.warning("The database does not answer: %s", error)
        return "The database does not answer; the log says why."
    if missing:
        names = ", ".join(sorted(f"{app}.{name}" for app, name in missing))
        return f"Migrations are not applied: {names}. Run `python manage.py migrate`."
    return None


@lru_cache(maxsize=1)
def _migrations() -> frozenset[tuple[str, str]]:
    """The migrations that this code expects; they cannot change while the process lives."""
    loader = MigrationLoader(connection=None, ignore_no_migrations=True)
    return frozenset(loader.disk_migrations)
