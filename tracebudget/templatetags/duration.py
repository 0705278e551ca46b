"""The only formatter of numbers: three significant digits and a unit, or a dash if unknown.

Used by templates as filters and by `wording` as functions, so that a figure reads the same in a
table, in a sentence and in a picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from math import floor, log10
from typing import Any

from django import template
from django.utils.formats import get_format, number_format
from django.utils.translation import gettext as _

register = template.Library()

UNKNOWN = "—"
SIGNIFICANT = 3
SMALLEST_SHARE, LARGEST_SHARE = 0.001, 0.9995  # beyond them rounding would say nothing, or all
THOUSAND = 1_000
US, MS, SECOND = 1_000, 1_000_000, 1_000_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86400 * SECOND
UNITS = ((SECOND, "s"), (MS, "ms"), (US, "µs"), (1, "ns"))
LONG_UNITS = ((DAY, "d", HOUR, "h"), (HOUR, "h", MINUTE, "min"), (MINUTE, "min", SECOND, "s"))


@register.filter
def duration(ns: int | float | None) -> str:
    """1_234_000_000 -> "1.23 s", 134_000_000_000 -> "2 min 14 s", None -> a dash."""
    if ns is None:
        return UNKNOWN
    if ns < 0:
        return f"−{duration(-ns)}"
    for large, name, small, small_name in LONG_UNITS:
        # What would round up to a whole large unit is one.
        if ns >= large - small / 2 and ns >= MINUTE:
            return _long(ns, large, name, small, small_name)
    for unit, name in UNITS:
        if ns >= unit * LARGEST_SHARE:
            return f"{significant(ns / unit)} {name}"
    return "0 ms"


def _long(ns: float, large: int, name: str, small: int, small_name: str) -> str:
    whole, rest = divmod(round(ns / small), large // small)
    return f"{whole} {name} {rest} {small_name}" if rest else f"{whole} {name}"


@register.filter
def percent(share: float | None) -> str:
    """0.551 -> "55.1 %", None -> a dash. What is not nothing never reads 0 %."""
    if share is None:
        return UNKNOWN
    if 0 < share < SMALLEST_SHARE:
        return "< 0.1 %"
    if LARGEST_SHARE <= share < 1:
        return "> 99.9 %"
    return f"{significant(share * 100)} %"


@register.filter
def count(number: int | None) -> str:
    """1240 -> "1,240": counts are exact."""
    return UNKNOWN if number is None else number_format(number, use_l10n=True, force_grouping=True)


@register.filter
def amount(value: int | None, metric: str) -> str:
    """A value of a budget metric in its unit."""
    return count(value) if is_count(metric) else duration(value)


def exact(value: int, metric: str) -> str:
    """The same for a form to fill in again: nothing is rounded, no thousands are separated."""
    if is_count(metric):
        return str(value)
    unit, name = next((u, n) for u, n in UNITS if value >= u or u == 1)
    for longer, long_name in ((HOUR, "h"), (MINUTE, "min")):
        if value % longer == 0:
            unit, name = longer, long_name
            break
    return f"{(Decimal(value) / unit).normalize():f} {name}"


def is_count(metric: str) -> bool:
    return metric in {"turns", "input_tokens"}


@register.filter
def significant(value: float) -> str:
    """Three significant digits, no exponent, no trailing zeros: 1234.5 -> "1,230", 2.9 -> "2.9"."""
    rounded = float(f"{value:.{SIGNIFICANT - 1}e}")
    if rounded >= THOUSAND:
        return number_format(int(rounded), use_l10n=True, force_grouping=True)
    places = SIGNIFICANT - 1 - (floor(log10(rounded)) if rounded else 0)
    text = f"{rounded:.{places}f}"
    text = text.rstrip("0").rstrip(".") if places else text
    return text.replace(".", get_format("DECIMAL_SEPARATOR"))


@register.filter
def share_of(part: int | None, whole: int | None) -> float | None:
    """A share for `percent`; None where there is nothing to share."""
    return None if part is None or not whole else part / whole


@register.filter
def over_by(value: int, budget: Mapping[str, Any]) -> str:
    """By how much a value is over its budget."""
    return amount(value - budget["limit"], budget["metric"])


@register.filter
def calls_known(known: int, calls: int) -> str:
    """Coverage in words, for beside a percentile."""
    if known == calls:
        return _("known for all %(calls)s calls") % {"calls": count(calls)}
    return _("known for %(known)s of %(calls)s calls") % {
        "known": count(known),
        "calls": count(calls),
    }


@register.filter
def since(ns: int, start_ns: int) -> str:
    """A moment, counted from another."""
    return duration(ns - start_ns)
