"""The one family of errors that an exporter is told about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import InterfaceError, OperationalError


class OtlpError(Exception):
    """A whole request, or file, that cannot be taken, with an HTTP status and what to do about it.

    `retry_after` is given, in seconds, only where sending the same again can help.
    """

    def __init__(self, status: int, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after


# A fault of ours. Exporters do not retry it: the same again would fail the same way.
INTERNAL = OtlpError(500, "Internal error. The log of Tracebudget says why.")


@contextmanager
def retried_when_away() -> Iterator[None]:
    """A database that is away or too slow becomes a 503, which exporters retry."""
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise OtlpError(
            503,
            "The database is not available. Try again.",
            retry_after=settings.RETRY_AFTER_SECONDS,
        ) from error
