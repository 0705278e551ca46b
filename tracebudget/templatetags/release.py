"""Words of the release package in templates."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django import template
from django.utils.translation import gettext

from tracebudget import answers
from tracebudget.core.gateway import SETTINGS
from tracebudget.models import Verdict
from tracebudget.release import checklist_words, gate_words, words
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
def item_text(item: str) -> str:
    """An item of the release checklist; a name that is none any more stays what it is."""
    return str(checklist_words.ITEMS.get(item, item))


@register.filter
def item_state(state: str) -> str:
    return str(checklist_words.STATES[state])


register.filter("shell", shlex.quote)  # what traces name may be copied into a shell
register.filter("verdict_words", checklist_words.verdict_words)
register.filter("place", checklist_words.place)
register.filter("check_name", gate_words.check_name)
register.filter("check_outcome", gate_words.check_outcome)
register.filter("check_words", gate_words.check_words)
register.filter("check_change", gate_words.change)
register.filter("grown_words", gate_words.grown_words)


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
