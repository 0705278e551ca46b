"""From the analysis object to what lists, figures and alerts read. Pure: no database, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tracebudget.core.subject import subject_of
from tracebudget.core.ttft import KNOWN
from tracebudget.document import dumps
from tracebudget.packing import compress

Document = dict[str, Any]
Row = dict[str, Any]

# Names are text from outside that goes into indexed columns: a B-tree entry holds 2.7 kB, a page
# far less.
MAX_NAME_CHARS = 200
MAX_NAMES = 50  # of one kind in one request's summary
MAX_TURNS = 20  # whose durations stand in the summary: tables by turn show no more

OBSERVED = {source.value for source in KNOWN}  # what budgets and percentiles may use


@dataclass(frozen=True, slots=True)
class Conclusions:
    """All that is stored of one analysis: the object, compressed, and what is read of many.

    `summary` has columns of `models.Trace`, JSON-ready; the rows have the columns of their tables.
    """

    app: str
    document: bytes
    summary: Row
    model_calls: list[Row]
    tool_calls: list[Row]
    breaches: list[Row]
    findings: list[Row]


def conclude(document: Document) -> Conclusions:
    """Turn the analysis object into rows, so that saving it cannot fail for what is in it."""
    return Conclusions(
        app=_cut(document["app"]),
        document=compress(dumps(document)),
        summary=_summary(document),
        model_calls=list(_model_calls(document)),
        tool_calls=list(_tool_calls(document)),
        breaches=list(_breaches(document)),
        findings=list(_findings(document)),
    )


def _summary(document: Document) -> Row:
    steps, findings = document["steps"], document["findings"]
    calls, tools = _of_kind(steps, "model_call"), _of_kind(steps, "tool_call")
    return {
        **{
            name: _name(document[name]) for name in ("name", "environment", "version", "session_id")
        },
        **_times(document),
        **_turn_figures(document["turns"]),
        **_call_figures(calls),
        "started_at": document["started_at"],
        "state": document["state"],
        "has_error": any(step["status"] == "error" for step in steps),
        "agent_names": _names(document["agents"]),
        "model_names": _names(call["model"] for call in calls),
        "tool_names": _names(tool["name"] for tool in tools),
        "finding_codes": _names(finding["code"] for finding in findings),
        "breached": _names(budget["metric"] for budget in _judged(document, "over")),
        "unjudged": _names(budget["metric"] for budget in _judged(document, "unknown")),
        "unknown_steps": [
            f"{step['step']} {step['why']}"
            for step in document["triage"]
            if step["state"] == "unknown"
        ],
        "model_call_count": len(calls),
        "tool_call_count": len(tools),
        "saving_ns": _max(finding["saving_ns"] for finding in findings),
    }


def _model_calls(document: Document) -> Iterator[Row]:
    same = ("model", "provider", "streamed", "ttft_ns", "ttft_source", "queue_ns", "tpot_ns")
    counts = ("input_tokens", "cached_input_tokens", "output_tokens", "ttft_is_bound")
    added, runs = _tool_results(document), _run_numbers(document)
    for row, step in _step_rows(document, "model_call"):
        row |= {column: step[column] for column in same + counts}
        row |= {"model": _name(step["model"]), "provider": _name(step["provider"])}
        row |= {"run": None if step["turn"] is None else runs[step["turn"]]}
        yield row | {"tool_result_tokens": added.get(step["span_id"])}


def _tool_results(document: Document) -> dict[str, int]:
    """By the span id of a turn's first good call: how much longer its prompt is than that of the
    turn before with its answer, where tools ran between.
    """
    openers, with_tools = (
        _openers(document),
        {step["turn"] for step in document["steps"] if step["kind"] == "tool_call"},
    )
    added: dict[str, int] = {}
    last: dict[str, Document] = {}  # by run
    for turn in document["turns"]:
        before, call = last.get(turn["agent_span_id"]), openers.get(turn["index"])
        if call is not None:
            last[turn["agent_span_id"]] = call
        if before is None or call is None or before["turn"] not in with_tools:
            continue
        read, told = call["input_tokens"], (before["input_tokens"], before["output_tokens"])
        if read is not None and None not in told:
            added[call["span_id"]] = max(0, read - sum(told))
    return added


def _openers(document: Document) -> dict[int, Document]:
    """The first good call of each turn, by the turn's index."""
    calls = [step for step in _of_kind(document["steps"], "model_call") if step["status"] == "ok"]
    return {call["turn"]: call for call in reversed(calls) if call["turn"] is not None}


def _tool_calls(document: Document) -> Iterator[Row]:
    timeouts = {
        span_id
        for finding in document["findings"]
        if finding["code"] == "tool_timeout"
        for span_id in finding["span_ids"]
    }
    failed_before = dict(_retries(document["findings"]))
    attempts: dict[str, int] = {}
    for row, step in _step_rows(document, "tool_call"):
        span_id = step["span_id"]
        is_timeout = span_id in timeouts or "timeout" in (step["error_type"] or "").lower()
        attempts[span_id] = attempts.get(failed_before.get(span_id, ""), -1) + 1
        own = {"is_timeout": is_timeout, "attempt": attempts[span_id]}
        yield row | {"name": _cut(step["name"])} | own


def _retries(findings: Iterable[Document]) -> Iterator[tuple[str, str]]:
    """Each tool call that was a retry, with the failed one before it."""
    for finding in findings:
        if finding["code"] == "tool_retry":
            failed, again = finding["span_ids"]
            yield again, failed


def _breaches(document: Document) -> Iterator[Row]:
    started_at = _moment(document["started_at"])
    for position, budget in enumerate(_judged(document, "over")):
        same = {column: budget[column] for column in ("limit", "value", "span_id")}
        metric = _cut(budget["metric"])
        yield {"position": position, "started_at": started_at, "metric": metric} | same


def _findings(document: Document) -> Iterator[Row]:
    started_at = _moment(document["started_at"])
    steps = {step["span_id"]: step for step in document["steps"]}
    for position, finding in enumerate(document["findings"]):
        same = {key: finding[key] for key in ("code", "kind", "severity", "turn", "saving_ns")}
        subject = _cut(subject_of(finding, steps))
        yield {"position": position, "started_at": started_at, "subject": subject} | same


def _times(document: Document) -> Row:
    segments = document["segments"]
    critical = {f"{name}_ns": segment["critical_ns"] for name, segment in segments.items()}
    parts = segments["framework"]["parts"]
    return critical | {
        "end_to_end_ns": document["end_to_end_ns"],
        "unsplit_ns": segments["decode"]["parts"]["unsplit"],
        "unattributed_ns": parts["unattributed"],
        "overhead_ns": critical["framework_ns"] - parts["unattributed"] - parts["retry_wait"],
    }


def _turn_figures(turns: list[Document]) -> Row:
    """Without the time in which turns waited for a person, as budgets judge them."""
    active = [turn["duration_ns"] - turn["segments"]["wait"] for turn in turns]
    of_top_run = [
        ns
        for ns, turn in zip(active, turns, strict=True)
        if turn["agent_span_id"] == turns[0]["agent_span_id"]
    ]
    return {
        "turn_count": len(turns),
        "run_turn_count": len(of_top_run),
        "longest_turn_ns": max(active, default=None),
        "turn_ns": of_top_run[:MAX_TURNS],
    }


def _call_figures(calls: list[Document]) -> Row:
    """Sums are of all calls; the worst is taken of those that promises are about."""
    good = [call for call in calls if call["status"] == "ok" and call["turn"] is not None]
    return {
        "ttft_count": len(_known(map(_ttft, calls))),
        "worst_ttft_ns": _max(map(_ttft, good)),
        "worst_first_visible_ns": _max(map(_first_visible, good)),
        "worst_tpot_ns": _max(call["tpot_ns"] for call in good),
        "input_tokens": _sum(call["input_tokens"] for call in calls),
        "largest_input_tokens": _max(call["input_tokens"] for call in good),
        "output_tokens": _sum(call["output_tokens"] for call in calls),
    }


def _ttft(call: Document) -> int | None:
    return call["ttft_ns"] if call["ttft_source"] in OBSERVED else None


def _first_visible(call: Document) -> int | None:
    visible = call["first_visible_ns"]
    return _ttft(call) if visible is None else visible


def _step_rows(document: Document, kind: str) -> Iterator[tuple[Row, Document]]:
    """What model and tool calls have in common, each with its step."""
    started_at, numbers = _moment(document["started_at"]), _turn_numbers(document)
    for position, step in enumerate(document["steps"]):
        if step["kind"] != kind:
            continue
        yield (
            {
                "position": position,
                "started_at": started_at + timedelta(microseconds=step["start_ns"] // 1000),
                "turn": None if step["turn"] is None else numbers[step["turn"]],
                "is_error": step["status"] == "error",
                "attempt": step["attempt"],
                "duration_ns": step["duration_ns"],
                "critical_ns": step["critical_ns"],
            },
            step,
        )


def _turn_numbers(document: Document) -> list[int]:
    """The number of each turn within its run; a run is known by its topmost span."""
    seen: dict[str, int] = {}
    numbers = []
    for turn in document["turns"]:
        number = seen[turn["agent_span_id"]] = seen.get(turn["agent_span_id"], -1) + 1
        numbers.append(number)
    return numbers


def _run_numbers(document: Document) -> list[int]:
    """The number of each turn's run within the request."""
    numbers: dict[str, int] = {}
    return [numbers.setdefault(turn["agent_span_id"], len(numbers)) for turn in document["turns"]]


def _moment(iso: str) -> datetime:
    """To the microsecond: Postgres and Python know no nanoseconds."""
    return datetime.fromisoformat(f"{iso[:26]}+00:00")


def _judged(document: Document, state: str) -> list[Document]:
    return [budget for budget in document["budgets"] if budget["state"] == state]


def _of_kind(steps: Iterable[Document], kind: str) -> list[Document]:
    return [step for step in steps if step["kind"] == kind]


def _known(values: Iterable[int | None]) -> list[int]:
    return [value for value in values if value is not None]


def _max(values: Iterable[int | None]) -> int | None:
    return max(_known(values), default=None)


def _sum(values: Iterable[int | None]) -> int | None:
    """None where nothing is known: an unknown count is never 0."""
    known = _known(values)
    return sum(known) if known else None


def _names(names: Iterable[str | None]) -> list[str]:
    return sorted({_cut(name) for name in names if name})[:MAX_NAMES]


def _name(name: str | None) -> str | None:
    return None if name is None else _cut(name)


def _cut(name: str) -> str:
    """Bounded, and without what Postgres text cannot hold: names may come from JSON in content."""
    return name[:MAX_NAME_CHARS].replace("\0", "\ufffd").encode("utf-8", "replace").decode()
