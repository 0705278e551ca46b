"""The release checklist as Markdown: a list of tasks, for a ticket or a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from django.utils.translation import gettext as _

from tracebudget import models
from tracebudget.core.gate import worst_first
from tracebudget.release import gate_words
from tracebudget.release.checklist import Checklist, Item
from tracebudget.release.checklist_words import ITEMS, STATES, verdict_words
from tracebudget.release.gate import Judged

SPECIAL = re.compile(r"([\\`*_\[\]<>|~&])")  # what Markdown or HTML would read as a mark anywhere,
FIRST = re.compile(r"^(\d*)([-+#.)=])")  # and what it would at the beginning of a line


def write_markdown(checklist: Checklist, judged: Judged | None, *, now: datetime) -> str:
    """The list with its evidence, and what the gate says if it was asked."""
    release = checklist.release
    where = release.environment or _("all environments")
    lines = [
        "# "
        + _("Release checklist: %(app)s %(release)s")
        % {"app": escape(release.app.name), "release": escape(release.version)},
        "",
        _("%(requests)s requests (%(where)s), written %(now)s UTC")
        % {
            "requests": f"{checklist.requests:,}",
            "where": escape(where),
            "now": f"{now:%Y-%m-%d %H:%M}",
        },
        "",
        *(line for item in checklist.items for line in _item(item)),
        *(() if judged is None else _gate(judged)),
    ]
    return "\n".join(lines) + "\n"


def _item(item: Item) -> Iterator[str]:
    mark = "x" if item.state == "done" else " "
    yield f"- [{mark}] **{item.number}.** {ITEMS[item.name]} ({STATES[item.state]})"
    yield f"  - {line(verdict_words(item.verdict))}"
    if item.tick is not None and item.is_by_hand:
        yield f"  - {line(tick_words(item.tick))}"


def tick_words(tick: models.ChecklistTick) -> str:
    """Who said so, when and why."""
    done, open_ = _("%(who)s, %(when)s: %(note)s"), _("%(who)s, %(when)s, not done: %(note)s")
    return (done if tick.is_done else open_) % {
        "who": tick.ticked_by or "—",
        "when": f"{tick.ticked_at:%Y-%m-%d}",
        "note": tick.note,
    }


def _gate(judged: Judged) -> Iterator[str]:
    verdict = _("pass") if judged.is_passed else _("fail")
    yield ""
    yield "## " + _("Gate: %(verdict)s") % {"verdict": verdict}
    yield ""
    if judged.baseline is not None:
        yield _("Against %(baseline)s.") % {
            "baseline": escape(gate_words.baseline_words(judged.baseline))
        }
        yield ""
    yield f"| {_('check')} | {_('outcome')} | {_('why')} |"
    yield "| --- | --- | --- |"
    for check in worst_first(judged.checks):
        cells = [gate_words.check_name(check), gate_words.check_outcome(check)]
        cells.append(" ".join([gate_words.check_words(check), gate_words.change(check)]).strip())
        yield f"| {' | '.join(map(escape, cells))} |"


def escape(text: str) -> str:
    """Text that stays text, in one line, wherever Markdown is shown; within a line."""
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))


def line(text: str) -> str:
    """The same at the beginning of one."""
    return FIRST.sub(r"\1\\\2", escape(text))
