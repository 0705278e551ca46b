"""Where the next page of a list begins: a row number, or a cursor that only we can read."""

from __future__ import annotations

import re
from datetime import datetime

from django.core import signing
from django.http import HttpRequest

from tracebudget.queries.traces import Position, TraceFilter

SALT = "tracebudget.paging"


ROW_NUMBER = re.compile(r"[0-9]{1,9}")


def row_number(request: HttpRequest, name: str) -> int:
    """A row number in the address, counted from 0; what is no such number begins at the start."""
    text = request.GET.get(name, "")
    return int(text) if ROW_NUMBER.fullmatch(text) else 0


class BadCursor(ValueError):
    """A cursor that was not made here, or for another order."""


def encode(position: Position, chosen: TraceFilter) -> str:
    """A cursor for the page behind a position in the filter's order. Signed, and safe in a URL."""
    value = position.value
    said = value.isoformat() if isinstance(value, datetime) else value
    return signing.dumps([_order(chosen), said, position.id], salt=SALT)


def decode(cursor: str, chosen: TraceFilter) -> Position:
    """The position in a cursor. Raises BadCursor if it does not continue this order."""
    try:
        order, value, id_ = signing.loads(cursor, salt=SALT)
    except signing.BadSignature:
        raise BadCursor("This link to a next page was not made by this server.") from None
    if order != _order(chosen):
        raise BadCursor("This link to a next page belongs to a list in another order.")
    return Position(datetime.fromisoformat(value) if isinstance(value, str) else value, id_)


def _order(chosen: TraceFilter) -> str:
    return f"{'-' if chosen.descending else ''}{chosen.sort}"
