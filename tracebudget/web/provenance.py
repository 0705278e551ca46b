"""Where the facts of a step were read, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from tracebudget.core.provenance import Telling, Told, tellings
from tracebudget.core.span import Span
from tracebudget.templatetags.duration import duration

MAX_SHOWN = 200  # characters of one value; the whole stands among the attributes


@dataclass(frozen=True, slots=True)
class ToldLine:
    """One fact. `fact` and `standing` are codes with a word in `wording`."""

    fact: str
    text: str
    where: str
    standing: str


@dataclass(frozen=True, slots=True)
class ToldBy:
    """What one span tells, as lines."""

    span_id: str
    name: str
    dialect: str
    lines: list[ToldLine]


def told_by(spans: Sequence[Span], span_id: str) -> list[ToldBy]:
    """Who tells what of the step that a span is: that span first."""
    return [
        ToldBy(
            telling.span.span_id,
            telling.span.name,
            telling.dialect,
            [
                ToldLine(told.fact, _text(told, telling), told.where, told.standing)
                for told in telling.facts
            ],
        )
        for telling in tellings(spans, span_id)
    ]


def _text(told: Told, telling: Telling) -> str:
    if told.is_moment:
        return _("%(time)s after the span's start") % {
            "time": duration(told.value - telling.span.start_ns)
        }
    value = told.value
    if isinstance(value, list):
        text = ", ".join(map(str, value))
    else:
        text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{text[:MAX_SHOWN]} {told.unit}".rstrip()


def derived(step: Mapping[str, Any], told: Sequence[ToldBy]) -> Iterator[tuple[str, str]]:
    """The figures of a model call that no span tells as they are: fact and how it came about."""
    said = {(line.fact, line.text) for by in told for line in by.lines}
    facts = {fact for fact, _text in said}
    if step["tpot_ns"] is not None:
        yield "tpot", _("(end − first token) / (output tokens − 1)")
    if step["ttft_source"] == "inferred":
        yield "ttft", _("from other calls of this app and model")
    for fact, how in (
        ("input_tokens", _("what was told, and what the cache served")),
        ("output_tokens", _("what was told, and the reasoning")),
    ):
        if step[fact] is not None and (fact, str(step[fact])) not in said:
            yield fact, how
    if step["streamed"] is not None and "streaming" not in facts:
        yield "streaming", _streamed(step["streamed"])


def _streamed(is_streamed: bool) -> str:
    if is_streamed:
        return _("a first chunk, or an end before the answer's, shows a stream")
    return _("this emitter writes its flag on streams only")
