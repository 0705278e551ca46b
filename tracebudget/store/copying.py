"""Rows into tables by binary COPY."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connection
from django.db.backends.utils import CursorWrapper

from tracebudget import models

# Binary COPY must be told the types; Django's fields know them under other names.
POSTGRES_TYPES = {
    "BigIntegerField": "int8",
    "BinaryField": "bytea",
    "BooleanField": "bool",
    "CharField": "text",
    "DateField": "date",
    "DateTimeField": "timestamptz",
    "ForeignKey": "int8",
    "IntegerField": "int4",
    "TextField": "text",
}


def copy_rows(
    cursor: CursorWrapper, model: type[models.DayPartitioned], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Binary COPY of rows, given by column name, into a table."""
    if not rows:
        return
    fields = [field for field in model._meta.local_concrete_fields if field.attname in rows[0]]
    names = [field.attname for field in fields]
    columns = ", ".join(f'"{field.column}"' for field in fields)
    statement = f"COPY {model._meta.db_table} ({columns}) FROM STDIN (FORMAT BINARY)"
    # Django does not know of COPY, so its errors must be asked for.
    with connection.wrap_database_errors, cursor.copy(statement) as copy:
        copy.set_types([POSTGRES_TYPES[field.get_internal_type()] for field in fields])
        for row in rows:
            copy.write_row([row[name] for name in names])
