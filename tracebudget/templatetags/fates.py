"""Words of the pages of settings: what the privacy door did, and what owners changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from django import template
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from tracebudget.models import Changed, Fate, Place, Privacy, Role
from tracebudget.queries.receipts import Name

register = template.Library()

FATES: dict[str, str | Promise] = {
    Fate.KEPT: _("stored as it was sent"),
    Fate.PSEUDONYM: _("an id of a person or session: stored as a keyed digest, which still joins"),
    Fate.MASKED: _("stored, with what has the form of a secret or of personal data taken out"),
    Fate.CUT: _("stored up to the length that is allowed"),
    Fate.WITHHELD: _("only its length and a keyed digest are stored"),
    Fate.LEFT_OUT: _("not stored: the name itself could have told something"),
}
# Parts of a span that have no names of their own.
NAMELESS = {Place.NAME, Place.STATUS_MESSAGE, Place.TRACE_STATE, Place.EVENT_NAME}


Columns = Sequence[tuple[Fate, str | Promise]]


@register.simple_tag
def fates(names: Iterable[Name]) -> Columns:
    """The fates that any value met, and their words, in the order of columns."""
    met = total(names)
    return [(fate, fate.label) for fate in Fate if met[fate]]


@register.filter
def fate_text(fate: str) -> str | Promise:
    return FATES[fate]


@register.filter
def counts(name: Name, columns: Columns) -> list[int]:
    """How many values met each fate."""
    return [name.fates[fate] for fate, _word in columns]


@register.filter
def totals(names: Iterable[Name], columns: Columns) -> list[int]:
    """The same of many names."""
    met = total(names)
    return [met[fate] for fate, _word in columns]


def total(names: Iterable[Name]) -> Counter[Fate]:
    return sum((name.fates for name in names), Counter())


@register.filter
def stored_as(value: str | None, what: str) -> str | Promise:
    """A value of the audit log in words: a mode or a role by its name, of a key its beginning."""
    if value is None:
        return _("none")
    if what == Changed.PRIVACY:
        return Privacy(value).label
    return Role(value).label if what == Changed.MEMBER else f"{value}…"


@register.filter
def has_names(place: Place) -> bool:
    return place not in NAMELESS
