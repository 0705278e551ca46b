"""Codes to words in templates; the words themselves are in `wording`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template

from tracebudget import wording

register = template.Library()


def _say(words: Any) -> Any:
    """A filter: the word of a code, or the code itself where there is none."""
    return lambda code: words.get(code, code)


register.filter("segment", _say(wording.SEGMENTS | wording.PARTS))
register.filter("segment_text", _say(wording.SEGMENT_TEXTS | wording.PART_TEXTS))
register.filter("kind", _say(wording.KINDS))
register.filter("state", _say(wording.STATES))
register.filter("state_reason", _say(wording.STATE_REASONS))
register.filter("budget_state", _say(wording.BUDGET_STATES))
register.filter("severity", _say(wording.SEVERITIES))
register.filter("fact", _say(wording.FACTS))
register.filter("standing", _say(wording.STANDINGS))
register.filter("ttft_source", _say(wording.TTFT_SOURCES))
register.filter("ttft_text", _say(wording.TTFT_TEXTS))
register.filter("triage_name", _say(wording.STEPS))
register.filter("triage_clear", _say(wording.STEPS_CLEAR))
register.filter("why", _say(wording.WHYS))
register.filter("metric_text", wording.metric_text)
register.filter("metric", wording.metric_name)
register.filter("finding_title", wording.finding_title)


@register.filter
def ttft_interval(document: Mapping[str, Any], step: Mapping[str, Any]) -> list[int] | None:
    """The ns between which an inferred first token lies; None for any other."""
    interval: list[int] | None = document["ttft_intervals"].get(step["span_id"])
    return interval
