"""Where the reader is, for the page's head."""

from __future__ import annotations

from django import template

register = template.Library()


@register.filter
def among(name: str, names: str) -> bool:
    """Whether an address has one of the names, which are separated by blanks."""
    return name in names.split()
