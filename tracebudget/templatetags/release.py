"""Words of the release package in templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django import template
from django.utils.translation import gettext

from tracebudget import answers
from tracebudget.core.gateway import SETTINGS
from tracebudget.models import Verdict
from tracebudget.release import words
from tracebudget.templatetags.duration import UNKNOWN

register = template.Library()
TOOL = "tool:"  # before a tool's name in a line of history


@register.filter
def observation(state: str) -> str:
    return str(words.OBSERVATIONS[state])


@register.filter
def trace_id(hex_id: str) -> UUID:
    """As addresses want it."""
    return UUID(hex_id)


@register.filter
def at(rows: Mapping[Any, Any], key: Any) -> Any:
    """What stands in a mapping under a key; None for nothing."""
    return rows.get(key)


@register.filter
def declared_what(what: str) -> str:
    """A setting, or a tool, as a line of history names it."""
    if what.startswith(TOOL):
        return gettext("tool %(name)s") % {"name": what.removeprefix(TOOL)}
    return words.setting_path(what) if what in SETTINGS else what


@register.filter
def declared_value(value: str | None) -> str:
    return UNKNOWN if value is None else str(words.MARKS.get(value, value))


@register.filter
def verdict(code: str) -> str:
    """An answer in a word or two."""
    return str(words.VERDICTS[code])


@register.filter
def verdicts(finding: str) -> list[tuple[str, str, str]]:
    """The answers that fit a finding: value, words, and what they mean."""
    return [
        (value, str(words.VERDICTS[value]), str(text))
        for value, text in words.VERDICT_TEXTS.items()
        if answers.fits(Verdict(value), finding)
    ]
