"""What came in lately and what the privacy door did with it, for the page that shows it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tracebudget import models
from tracebudget.models import Fate, Place


@dataclass(frozen=True, slots=True)
class Name:
    """One name at one place, and how many of its values met each fate. `key` is "" where the place
    has no names, or the name itself was not stored.
    """

    place: Place
    key: str
    fates: Counter[Fate]


def latest_receipts(project: models.Project) -> list[models.Receipt]:
    """All that are kept, the latest first."""
    return list(models.Receipt.objects.filter(project=project).order_by("-id"))


def names_in(receipts: Iterable[models.Receipt]) -> list[Name]:
    """What the exports behind the receipts held: by place in the order of a span, then by name."""
    names: defaultdict[tuple[Place, str], Counter[Fate]] = defaultdict(Counter)
    for receipt in receipts:
        for place, key, fate, count in receipt.fates:
            names[Place(place), key][Fate(fate)] += count
    order = list(Place)
    found = sorted(names, key=lambda name: (order.index(name[0]), name[1]))
    return [Name(place, key, names[place, key]) for place, key in found]
