"""The analysis object as a page of plain text: what `manage.py analyze` prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.utils.translation import gettext

from tracebudget import wording
from tracebudget.templatetags.duration import amount, count, duration, percent

Document = dict[str, Any]
BAR_CHARS = 40  # the whole request


def summary(document: Document) -> str:
    """One request in text: segments, turns with their calls and tools, budgets and findings."""
    parts = (_head, _segments, _turns, _budgets, _findings, _data_quality)
    blocks = ["\n".join(lines) for part in parts if (lines := list(part(document)))]
    return "\n\n".join(blocks) + "\n"


def _head(document: Document) -> Iterator[str]:
    verdict = wording.verdict(document)
    facts = [document["app"], document["name"], document["started_at"], document["trace_id"]]
    if document["state"] != "complete":
        facts.append(str(wording.STATES[document["state"]]))
    yield "  ".join(fact for fact in facts if fact)
    said = (f"{verdict.total}.", verdict.against, verdict.largest, verdict.advice, verdict.ceiling)
    yield " ".join(text for text in said if text)


def _segments(document: Document) -> Iterator[str]:
    total = document["end_to_end_ns"]
    rows = []
    for name, segment in document["segments"].items():
        ns = segment["critical_ns"]
        if name == "wait" and not ns:
            continue
        share = ns / total if total else 0
        rows.append((name, duration(ns), percent(share), "#" * round(share * BAR_CHARS)))
        rows += [
            (f"  {wording.PARTS[part]}", duration(part_ns), "", "")
            for part, part_ns in segment["parts"].items()
            if part_ns
        ]
    yield from table(rows, right={1, 2})


def _turns(document: Document) -> Iterator[str]:
    by_turn: dict[int | None, list[Document]] = {}
    for step in document["steps"]:
        by_turn.setdefault(step["turn"], []).append(step)
    rows: list[Sequence[str]] = []
    for turn in document["turns"]:
        name = gettext("turn %(n)s") % {"n": turn["index"]}
        rows.append((name, turn["agent"], duration(turn["duration_ns"]), ""))
        steps = by_turn.get(turn["index"], ())
        rows += [_step(step) for step in steps if step["kind"] != "workflow"]
    yield from table(rows, right={2})


def _step(step: Document) -> Sequence[str]:
    kind = str(wording.KINDS[step["kind"]])
    notes = [step["error_type"] or gettext("error")] if step["status"] == "error" else []
    if step["kind"] == "model_call":
        notes += [_ttft(step), _tokens(step)]
    return (f"  {kind}", step["name"], duration(step["duration_ns"]), "  ".join(notes))


def _ttft(step: Document) -> str:
    source = str(wording.TTFT_SOURCES[step["ttft_source"]])
    return f"TTFT {duration(step['ttft_ns'])} ({source})"


def _tokens(step: Document) -> str:
    read, written = step["input_tokens"], step["output_tokens"]
    if read is written is None:
        return ""
    return gettext("%(in)s in, %(out)s out") % {"in": count(read), "out": count(written)}


def _budgets(document: Document) -> Iterator[str]:
    yield from table(
        (
            (
                gettext("budget of %(metric)s") % {"metric": wording.metric_name(budget["metric"])},
                amount(budget["value"], budget["metric"]),
                gettext("of %(limit)s") % {"limit": amount(budget["limit"], budget["metric"])},
                str(wording.BUDGET_STATES[budget["state"]]),
            )
            for budget in document["budgets"]
        ),
        right={1},
    )


def _findings(document: Document) -> Iterator[str]:
    for finding in document["findings"]:
        if finding["kind"] == "performance":
            said = wording.explain(finding)
            saving = finding["saving_ns"]
            saves = gettext(" Saves up to %(time)s.") % {"time": duration(saving)} if saving else ""
            yield f"{finding['code']} ({wording.SEVERITIES[finding['severity']]}): {said.title}."
            yield f"  {said.text}{saves}"
            yield f"  {said.remedy}"


def _data_quality(document: Document) -> Iterator[str]:
    doubts: dict[str, list[Document]] = {}
    for finding in document["findings"]:
        if finding["kind"] == "data_quality":
            doubts.setdefault(finding["code"], []).append(finding)
    for code, same in doubts.items():
        times = gettext(" (%(n)s times)") % {"n": len(same)} if same[1:] else ""
        yield f"{code}{times}: {wording.explain(same[0]).text}"


def table(rows: Iterable[Sequence[str]], *, right: set[int]) -> Iterator[str]:
    """Rows of text with their columns aligned, those in `right` to the right."""
    lines = list(rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()
