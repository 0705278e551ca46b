"""The one family of errors that an exporter is told about."""

from __future__ import annotations


class OtlpError(Exception):
    """A whole request, or file, that cannot be taken, with an HTTP status and what to do about it.

    `retry_after` is given, in seconds, only where sending the same again can help.
    """

    def __init__(self, status: int, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after
