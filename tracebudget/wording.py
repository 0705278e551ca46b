"""Codes to sentences: what the core says in codes and numbers, in words, in any language.

What is said of findings stands in `finding_words`. A text may have several forms: the first whose
figures are all known is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any

from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from tracebudget.core.analysis import iso_time
from tracebudget.finding_words import ALL, EVIDENCE, Text
from tracebudget.templatetags.duration import count, duration, percent

Document = Mapping[str, Any]

MOMENTS = frozenset({"assumed_end_ns", "start_ns"})  # evidence that is Unix time, not a duration


@dataclass(frozen=True, slots=True)
class Sentence:
    """A finding in words. `figures` is its evidence, labelled, for the reader who checks."""

    title: str
    text: str
    cause: str
    check: str
    remedy: str
    figures: tuple[tuple[str, str], ...]


# --- words for single codes ----------------------------------------------------------------------

SEGMENTS: dict[str, Text] = {
    "prefill": _("prefill"),
    "decode": _("decode"),
    "tool": _("tool"),
    "framework": _("framework"),
    "wait": _("waiting for a person"),
}

SEGMENT_TEXTS: dict[str, Text] = {
    "prefill": _("model time before the first token: queue, network, reading the prompt"),
    "decode": _("model time after the first token: writing the answer"),
    "tool": _("tool calls, retrieval and embedding"),
    "framework": _("the agent's own code between calls"),
    "wait": _("blocked on a person; outside every budget"),
}

PARTS: dict[str, Text] = {
    "queue": _("queued"),
    "network": _("network"),
    "engine_other": _("engine, not told"),
    "unsplit": _("model, not split"),
    "unattributed": _("not traced"),
    "io": _("I/O"),
    "retry_wait": _("wait before a retry"),
    "handoff": _("hand-off between agents"),
}

PART_TEXTS: dict[str, Text] = {
    "queue": _("the request waited for its turn at the service"),
    "network": _("from the client's span to the server's"),
    "engine_other": _("the engine's phases do not add up to its own first token"),
    "unsplit": _("nothing says when the first token came; booked as decode"),
    "unattributed": _("no span says what ran here; outside the framework budget"),
    "io": _("client spans that belong to no model call and no tool"),
    "retry_wait": _("back-off before the next attempt of a failed call"),
    "handoff": _("neither agent was at work"),
}

KINDS: dict[str, Text] = {
    "model_call": _("model call"),
    "server_call": _("model call, seen by the server"),
    "tool_call": _("tool call"),
    "tool_server": _("tool call, seen by the server"),
    "agent": _("agent"),
    "workflow": _("workflow"),
    "retrieval": _("retrieval"),
    "embedding": _("embedding"),
    "guardrail": _("guardrail"),
    "wait": _("waiting for a person"),
    "queue": _("queue"),
}

FACTS: dict[str, Text] = {
    "model_request": _("model asked for"),
    "model_response": _("model that answered"),
    "provider": _("provider"),
    "streaming": _("streamed"),
    "input_tokens": _("input tokens"),
    "output_tokens": _("output tokens"),
    "total_tokens": _("tokens in all"),
    "cache_read_tokens": _("input tokens read from the cache"),
    "cache_write_tokens": _("input tokens written to the cache"),
    "reasoning_tokens": _("reasoning tokens"),
    "ttft": _("first token"),
    "tpot": _("time per output token"),
    "queue_time": _("queue"),
    "prefill_time": _("prefill"),
    "decode_time": _("decode"),
    "attempt": _("number of the attempt"),
    "resends": _("resends"),
    "attempt_start": _("start of the last attempt"),
    "last_token": _("last token"),
    "stream_duration": _("length of the stream"),
    "ends_early": _("the span ends where the stream begins"),
    "ends_after_tools": _("the span ends after the tools"),
    "holds_rounds": _("the span holds all rounds"),
    "is_record": _("the span only records a call's cost"),
    "response_id": _("id of the answer"),
    "finish_reason": _("why it ended"),
    "agent_name": _("agent"),
    "workflow_name": _("workflow"),
    "tool_name": _("tool"),
    "tool_call_id": _("id of the tool call"),
    "tool_error": _("the tool failed"),
    "tool_args_invalid": _("arguments refused"),
    "error": _("failed"),
    "error_type": _("type of the error"),
    "http_status": _("HTTP status"),
    "success": _("succeeded"),
}

STANDINGS: dict[str, Text] = {
    "attribute": _("attribute"),
    "inside": _("inside an attribute's text"),
    "event": _("event"),
    "child": _("span below"),
    "above": _("attribute of a span above"),
    "name": _("the span's name"),
}

TTFT_SOURCES: dict[str, Text] = {
    "measured": _("measured"),
    "reported": _("reported"),
    "inferred": _("inferred"),
    "unknown": _("unknown"),
}

TTFT_TEXTS: dict[str, Text] = {
    "measured": _("the client recorded the first token or chunk"),
    "reported": _("the inference server's own figure"),
    "inferred": _("estimated from other calls of this app and model; for reading only"),
    "unknown": _("not streamed, or nothing in the trace says when the first token came"),
}

METRICS: dict[str, Text] = {
    "end_to_end": _("end-to-end"),
    "turn": _("turn, longest"),
    "ttft": _("TTFT, worst"),
    "first_visible": _("first visible text, worst"),
    "tpot": _("time per output token, worst"),
    "tool": _("tool time"),
    "framework": _("framework time"),
    "turns": _("turns"),
    "input_tokens": _("input tokens, largest prompt"),
}

METRIC_TEXTS: dict[str, Text] = {
    "end_to_end": _("The whole request, without time spent waiting for a person."),
    "turn": _("The longest single turn, without time spent waiting for a person."),
    "ttft": _("Until the first token of the slowest call, where measured or reported."),
    "first_visible": _(
        "Until the user saw something: the first visible chunk of the slowest call."
    ),
    "tpot": _("Time per output token after the first, of the slowest call."),
    "tool": _("Time that the request spent in tools."),
    "framework": _("The agent's own code; without untraced time and waits before retries."),
    "turns": _("Rounds of the top agent."),
    "input_tokens": _("Tokens of the largest prompt, cached ones included."),
}

STATES: dict[str, Text] = {
    "complete": _("complete"),
    "incomplete": _("incomplete"),
    "running": _("running"),
}

STATE_REASONS: dict[str, Text] = {
    "root_not_ended": _("the first span has not ended yet, or its end was never sent"),
    "missing_root": _("the span that began the request has not arrived"),
    "missing_parent": _("the span above the first one has not arrived"),
}

BUDGET_STATES: dict[str, Text] = {
    "over": _("over"),
    "within": _("within"),
    "unknown": _("unknown"),
}

SEVERITIES: dict[str, Text] = {
    "critical": _("critical"),
    "warning": _("warning"),
    "info": _("for information"),
}

STEPS: dict[int, Text] = {
    1: _("Where the time goes"),
    2: _("Model calls"),
    3: _("Tools"),
    4: _("Context"),
    5: _("Network and gateway"),
    6: _("Hardware and capacity"),
}

STEPS_CLEAR: dict[int, Text] = {
    1: _("No segment stands out, and the number of turns is usual."),
    2: _("No retries, no second generation, nothing slow against its budget."),
    3: _("Nothing serial, repeated, failed or timed out."),
    4: _("The prompt does not grow in a way that costs time."),
    5: _("No gap between client and server, or between agents."),
    6: _("Nothing here says that faster hardware is the first thing to buy."),
}

WHYS: dict[str, Text] = {
    "mostly_untraced": _(
        "More than half of the request is not traced, so no share can be trusted."
    ),
    "untraced_could_be_model": _(
        "What is not traced could be model time, so its ceiling is unknown."
    ),
    "work_beside_model": _(
        "Work ran beside the model; whether it waited for the model, no span tells."
    ),
    "earlier_steps_unknown": _(
        "Earlier steps could not be decided, so the model cannot be blamed."
    ),
    "no_server_spans": _(
        "The inference server sent no spans, so client and server cannot be compared."
    ),
    "arguments_not_recorded": _(
        "Tool arguments were not recorded, so repeats and faulty arguments cannot be told."
    ),
    "ttft_unknown": _(
        "TTFT is unknown for too many calls. Record it: stream, and note the first chunk."
    ),
    "no_usual_prompt": _("There are too few other requests to say what prompt is usual here."),
    "queue_not_reported": _(
        "A first token was late, and the service does not report how long it queued."
    ),
    "tpot_unknown": _(
        "Time per output token is unknown for some call: its TTFT or its token count is missing."
    ),
    "chunks_dropped": _(
        "The sender dropped some chunk events, so the gaps in the text are not its own."
    ),
    "tokens_unknown": _("Token counts are missing, so the size of prompts cannot be compared."),
    "tools_not_traced": _("Tools were asked for that no span shows."),
    "tool_error_not_recorded": _(
        "A tool failed, and neither an error nor a declared limit says whether it timed out."
    ),
    "streaming_not_proven": _(
        "Calls repeat one prompt, but no stream flag says which was the streamed one."
    ),
    "untraced_between": _(
        "Calls repeat one prompt, but between them something ran that is not traced."
    ),
    "cached_tokens_unknown": _(
        "The service does not report cached tokens, so reuse of the prefix cannot be told."
    ),
}

# Evidence that is a code of ours, not a name from the trace.
VALUES: dict[tuple[str, str], Text] = {
    ("same_by", "prompt"): _("the prompt"),
    ("same_by", "tokens"): _("model and token counts"),
    ("larger", "unsplit"): _("not split"),
}


# --- sentences -----------------------------------------------------------------------------------


def explain(finding: Document) -> Sentence:
    """A finding of the analysis object in words. A code without words is named as it is."""
    words = ALL.get(finding["code"])
    said = {key: say(key, value) for key, value in finding["evidence"].items()}
    known = {key: text for key, text in said.items() if text}
    if words is None:
        return Sentence(finding["code"], "", "", "", "", _figures(known))
    form = _first_form(words.forms, known)
    rest = {key: text for key, text in known.items() if f"{{{key}}}" not in form}
    return Sentence(
        title=str(words.title),
        text=form.format_map(known),
        cause=str(words.cause),
        check=str(words.check),
        remedy=str(words.remedy),
        figures=_figures(rest),
    )


def _first_form(forms: Sequence[Text], known: Mapping[str, str]) -> str:
    """The richest form whose figures are all known."""
    for form in map(str, forms):
        if all(name in known for _t, name, _s, _c in Formatter().parse(form) if name):
            return form
    raise LookupError("the last form of a text must need no evidence")


def _figures(known: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((_label(key), text) for key, text in known.items())


def _label(key: str) -> str:
    return str(EVIDENCE.get(key, key.removesuffix("_ns").replace("_", " ")))


def say(key: str, value: Any) -> str | None:
    """One piece of evidence as text; its key's ending tells the unit. None for nothing to say."""
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, list):
        return " → ".join(str(item) for item in value if item is not None) or None
    if isinstance(value, str):
        return str(VALUES.get((key, value), value)) or None
    return _say_number(key, value)


def _say_number(key: str, value: int) -> str:
    if key in MOMENTS:
        return iso_time(value)
    if key.endswith("_percent"):
        return percent(value / 100)
    if key.endswith("_ns") or key == "ns_per_1000_tokens":
        return duration(value)
    return count(value)


def finding_title(code: str) -> str:
    """What a finding's code is called in lists."""
    words = ALL.get(code)
    return code if words is None else str(words.title)


def metric_name(metric: str) -> str:
    """A budget metric in words; `tool_call:<name>` names its tool."""
    prefix, colon, tool = metric.partition(":")
    if colon and prefix == "tool_call":
        return gettext("tool %(name)s, slowest call") % {"name": tool}
    return str(METRICS.get(metric, metric))


def metric_text(metric: str) -> str:
    """What a budget metric measures, for beside its field."""
    return str(METRIC_TEXTS.get(metric, _("The slowest call of that tool.")))


# --- the verdict ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verdict:
    """A request in three sentences: how long against what, where it went, and what would help.

    `state` is `over`, `within`, `unknown`, or `none` where there is no budget.
    """

    state: str
    total: str
    against: str
    largest: str
    advice: str
    ceiling: str


def verdict(document: Document) -> Verdict:
    state, against = _against(document["budgets"])
    findings = [f for f in document["findings"] if f["kind"] == "performance"]
    return Verdict(
        state=state,
        total=duration(document["end_to_end_ns"]),
        against=against,
        largest=_largest(document),
        advice=_advice(findings, document),
        ceiling=_ceiling(findings),
    )


def _against(budgets: Sequence[Document]) -> tuple[str, str]:
    """The end-to-end budget's word; else whichever budget is over."""
    if not budgets:
        return "none", gettext("No budget is set for this app.")
    whole = next((b for b in budgets if b["metric"] == "end_to_end"), None)
    over = [b for b in budgets if b["state"] == "over"]
    if whole is not None and whole["state"] == "over":
        by = duration(whole["value"] - whole["limit"])
        return "over", gettext("%(by)s over the %(limit)s budget.") % {
            "by": by,
            "limit": duration(whole["limit"]),
        }
    if over:
        names = ", ".join(metric_name(b["metric"]) for b in over[:3])
        return "over", gettext("Over budget: %(metrics)s.") % {"metrics": names}
    if whole is not None and whole["state"] == "within":
        return "within", gettext("Within the %(limit)s budget.") % {
            "limit": duration(whole["limit"])
        }
    if any(b["state"] == "unknown" for b in budgets):
        return "unknown", gettext("Not over any budget, but some figures are unknown.")
    return "within", gettext("Within every budget.")


def _largest(document: Document) -> str:
    segments, total = document["segments"], document["end_to_end_ns"]
    name = max(segments, key=lambda s: segments[s]["critical_ns"])
    ns = segments[name]["critical_ns"]
    if not ns:
        return ""
    unknown = segments["decode"]["parts"]["unsplit"] if name == "decode" else 0
    if name == "framework" and segments["framework"]["parts"]["unattributed"] * 2 > ns:
        return gettext("%(ns)s (%(share)s) is not traced.") % {
            "ns": duration(segments["framework"]["parts"]["unattributed"]),
            "share": percent(segments["framework"]["parts"]["unattributed"] / total),
        }
    said = {"ns": duration(ns), "share": percent(ns / total)}
    form = _LARGEST_UNSPLIT if unknown * 2 > ns else _LARGEST[name]
    return str(form) % said


_LARGEST: dict[str, Text] = {
    "prefill": _("Prefill took %(ns)s (%(share)s)."),
    "decode": _("Decode took %(ns)s (%(share)s)."),
    "tool": _("Tools took %(ns)s (%(share)s)."),
    "framework": _("The framework took %(ns)s (%(share)s)."),
    "wait": _("%(ns)s (%(share)s) were spent waiting for a person."),
}
_LARGEST_UNSPLIT: Text = _("The model took %(ns)s (%(share)s), not split into prefill and decode.")


def _advice(findings: Sequence[Document], document: Document) -> str:
    """The finding that would save the most, and what the request would be without it."""
    best = max(findings, key=lambda f: f["saving_ns"] or 0, default=None)
    if best is None or not best["saving_ns"]:
        return ""
    title, left = finding_title(best["code"]), document["end_to_end_ns"] - best["saving_ns"]
    where = "" if best["turn"] is None else gettext(" (turn %(turn)s)") % {"turn": best["turn"]}
    form = (
        gettext("%(title)s%(where)s: without that, %(rest)s, within budget.")
        if _would_keep(document, best["saving_ns"])
        else gettext("%(title)s%(where)s: without that, %(rest)s.")
    )
    return form % {"title": title, "where": where, "rest": duration(left)}


def _would_keep(document: Document, saving_ns: int) -> bool:
    """The saving alone brings an overlong request below its end-to-end limit."""
    return any(
        b["metric"] == "end_to_end"
        and b["state"] == "over"
        and b["value"] - saving_ns <= b["limit"]
        for b in document["budgets"]
    )


def _ceiling(findings: Sequence[Document]) -> str:
    found = next((f for f in findings if f["code"] == "model_not_bottleneck"), None)
    if found is None:
        return ""
    return gettext(
        "A faster model alone would not do: with model time at zero, %(rest)s remain."
    ) % {"rest": duration(found["evidence"].get("remaining_ns"))}


# --- triage --------------------------------------------------------------------------------------


def triage_facts(step: int, document: Document) -> str:
    """What was looked at in one step of the investigation, in numbers, or "" for nothing to say."""
    facts = _FACTS.get(step)
    return facts(document["steps"]) if facts is not None else ""


def _model_facts(steps: Sequence[Document]) -> str:
    calls = _of_kind(steps, "model_call")
    return _calls_fact(calls, ngettext("%(n)s model call", "%(n)s model calls", len(calls)))


def _tool_facts(steps: Sequence[Document]) -> str:
    tools = _of_kind(steps, "tool_call")
    return _calls_fact(tools, ngettext("%(n)s tool call", "%(n)s tool calls", len(tools)))


def _of_kind(steps: Sequence[Document], kind: str) -> list[Document]:
    return [step for step in steps if step["kind"] == kind]


def _calls_fact(steps: Sequence[Document], text: str) -> str:
    errors = sum(1 for s in steps if s["status"] == "error")
    failed = ngettext("%(n)s failed", "%(n)s failed", errors) % {"n": count(errors)}
    calls = text % {"n": count(len(steps))}
    return gettext("%(calls)s, %(failed)s.") % {"calls": calls, "failed": failed}


def _context_facts(steps: Sequence[Document]) -> str:
    inputs = [call["input_tokens"] for call in _of_kind(steps, "model_call")]
    known = [tokens for tokens in inputs if tokens is not None]
    if not known[1:]:
        return ""
    return gettext("Input: %(first)s tokens in the first call, %(last)s in the last.") % {
        "first": count(known[0]),
        "last": count(known[-1]),
    }


_FACTS: dict[int, Callable[[Sequence[Document]], str]] = {
    2: _model_facts,
    3: _tool_facts,
    4: _context_facts,
}
