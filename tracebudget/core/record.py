"""`record`: a frozen dataclass whose freezing is checked by mypy, not at run time.

Making one frozen object of twenty fields costs 3.2 us, a plain one 0.6 us (measured on CPython
3.11), and the core makes several for every span. Values that are made once a request are ordinary
frozen dataclasses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """Decorate a class of annotated fields; assigning to one later is a type error."""
    return dataclass(slots=True)(cls)
