"""Codes to sentences: what the core says in codes and numbers, in words, in any language.

A finding has a title, a text with its evidence, and a remedy. A text may have several forms: the
first whose figures are all known is said. `docs/findings.md` explains each code at length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from tracebudget.templatetags.duration import count, duration, percent

Text = str | Promise
Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Words:
    """How a code is said. `forms` are texts with {evidence} in them, the richest first."""

    title: Text
    forms: tuple[Text, ...]
    remedy: Text


@dataclass(frozen=True, slots=True)
class Sentence:
    """A finding in words. `figures` is its evidence, labelled, for the reader who checks."""

    title: str
    text: str
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

# --- findings ------------------------------------------------------------------------------------

FINDINGS: dict[str, Words] = {
    "tools_dominate": Words(
        _("Tools are the largest share"),
        (
            _(
                "{tool_ns} of {end_to_end_ns} went to tools, over their budget of {limit_ns}; "
                "model calls took {model_ns}."
            ),
            _("{tool_ns} of {end_to_end_ns} went to tools; model calls took {model_ns}."),
            _("Most of the time went to tools."),
        ),
        _("A faster model would change little. See step 3 for what the tools do."),
    ),
    "framework_overhead": Words(
        _("The agent's own code takes long"),
        (
            _(
                "{framework_ns} between calls in {turns} turns, {per_turn_ns} a turn; "
                "{allowed_ns} would be in order."
            ),
            _("Much time passes between calls, in nobody's span."),
        ),
        _(
            "Profile what runs between calls: prompt building, serialisation, logging, state "
            "stores, cold starts. I/O in it has spans of its own below."
        ),
    ),
    "many_turns": Words(
        _("The agent keeps thinking"),
        (
            _("{turns} turns, more than the {limit} that are planned for."),
            _("More turns than are planned for."),
        ),
        _(
            "Look at what the last turns added. Sharpen the tools' descriptions, let one tool "
            "answer more, or stop earlier."
        ),
    ),
    "double_generation": Words(
        _("The answer was generated twice"),
        (
            _("A second call asked the same again {gap_ns} after the first and took {second_ns}."),
            _("A second call asked the same again right after the first."),
        ),
        _(
            "Keep the streamed text instead of asking once more without streaming. If that is "
            "meant as a fallback, log why the stream was not used."
        ),
    ),
    "malformed_tool_arguments": Words(
        _("The model was asked again, since a tool's arguments did not parse"),
        (
            _(
                "Arguments for {tools} were no valid JSON or did not fit; the repeat took "
                "{repeat_ns}."
            ),
            _("Arguments were no valid JSON or did not fit, and the model was asked again."),
        ),
        _(
            "Use strict tool schemas or constrained decoding, shorten the schema, and mend "
            "small faults in code instead of asking again."
        ),
    ),
    "model_retry": Words(
        _("Model calls failed and were tried again"),
        (
            _(
                "Failed attempts: {failed}. They took {failed_ns}, and the waits between them "
                "{wait_ns}."
            ),
            _("Failed attempts: {failed}. How long they took is not recorded."),
            _("Attempts failed before one succeeded."),
        ),
        _(
            "See the error: for 429 ask for a higher limit or spread the load, for timeouts "
            "check the limit itself, and keep the back-off short for interactive use."
        ),
    ),
    "queueing": Words(
        _("The call waited in a queue"),
        (
            _("{queue_ns} of the {ttft_ns} until the first token were queue."),
            _("{queue_ns} passed in a queue before the call was sent."),
            _("Calls wait for their turn."),
        ),
        _(
            "Compare busy with quiet hours. Raise the concurrency or rate limit, move batch "
            "work elsewhere, or reserve capacity for interactive calls."
        ),
    ),
    "slow_first_token": Words(
        _("The first token was late, though the prompt is not long"),
        (
            _(
                "{ttft_ns} until the first token, limit {limit_ns}, for {uncached_tokens} "
                "uncached tokens; usual here are {usual_tokens}."
            ),
            _("The first token came later than promised for a prompt of usual length."),
        ),
        _(
            "Look for queueing, cold starts, a distant region or a thinking mode that nobody "
            "asked for."
        ),
    ),
    "slow_decode": Words(
        _("Text comes slowly"),
        (
            _("{tpot_ns} for each output token, limit {limit_ns}, over {output_tokens} tokens."),
            _("Time per output token is over its budget."),
        ),
        _(
            "Ask for less text, use a smaller or faster model for this step, or lower the "
            "batch size on your own server."
        ),
    ),
    "decode_stutter": Words(
        _("Text comes haltingly"),
        (
            _("Gaps between chunks: p95 {p95_gap_ns}, median {median_gap_ns}, over {gaps} gaps."),
            _("Some gaps between chunks are far longer than the usual one."),
        ),
        _(
            "Look for preemption and large prefills in the same batch, memory swaps, and "
            "proxies that buffer the stream."
        ),
    ),
    "oversized_model": Words(
        _("A simple request on a large model"),
        (
            _("Requests like this take {median_ns} on {model} and {other_median_ns} on {other}."),
            _("A smaller model of this app answers such requests faster."),
        ),
        _(
            "Route short questions without tools to the smaller model, and check the answers' "
            "quality."
        ),
    ),
    "serial_tools": Words(
        _("Tool calls of one answer ran one after another"),
        (
            _("{calls} calls, {tools}: {sum_ns} in a row, the longest {longest_ns}."),
            _("Tools of one answer ran one after another."),
        ),
        _("Run them at the same time, if they are independent."),
    ),
    "repeated_tool_call": Words(
        _("The same tool call was made again"),
        (
            _("{tool} was called {calls} times with equal arguments; the repeats took {sum_ns}."),
            _("A tool was called again with equal arguments, soon after it succeeded."),
        ),
        _(
            "Does it change anything? If it only reads, keep its result for a while and answer "
            "repeats from there."
        ),
    ),
    "tool_timeout": Words(
        _("A tool ran into its time limit"),
        (
            _("{tool} ended after {duration_ns}, at its limit of {limit_ns}."),
            _("{tool} timed out after {duration_ns}."),
            _("A tool timed out."),
        ),
        _(
            "Set the limit near the tool's p99, fail early, and give the model a short answer "
            "that it can work with."
        ),
    ),
    "tool_retry": Words(
        _("A tool failed and was called again"),
        (
            _("{tool} failed after {failed_ns} and was called again."),
            _("A tool failed and was called again."),
        ),
        _(
            "See its error. Mend the cause, or retry inside the tool with a short back-off "
            "instead of through the model."
        ),
    ),
    "context_growth": Words(
        _("The context grows, and each turn reads it again"),
        (
            _(
                "Input grew from {first_input_tokens} to {last_input_tokens} tokens in {turns} "
                "turns, TTFT from {first_ttft_ns} to {last_ttft_ns}: about "
                "{ns_per_1000_tokens} for each 1,000 tokens."
            ),
            _("Input and time to first token grow from turn to turn."),
        ),
        _(
            "Keep the beginning of the prompt unchanged so that the prefix cache works, "
            "shorten tool results and history, or summarise."
        ),
    ),
    "prefix_cache_unused": Words(
        _("The prompt's beginning was sent again, and nothing of it was cached"),
        (
            _(
                "{calls} calls sent {repeated_tokens} tokens again; the service reports 0 from "
                "its cache. Longest pause between: {longest_idle_ns}."
            ),
            _("The service reports no cached tokens for a prompt that was sent before."),
        ),
        _(
            "Turn the prefix cache on, keep dates, ids and shuffled tools out of the prompt's "
            "beginning, and send calls of one session to one server. After a long pause the "
            "cache may just have expired."
        ),
    ),
    "tool_result_inflates_context": Words(
        _("One tool result makes the next prompt long"),
        (
            _("{tool} added {added_tokens} tokens: from {before_tokens} to {after_tokens}."),
            _("One tool's result makes the next prompt much longer."),
        ),
        _("Return only what the model needs: select fields, page, summarise, or give a reference."),
    ),
    "network_gap": Words(
        _("Client and server disagree on how long the call took"),
        (
            _("{client_ns} at the client, {server_ns} at the server: {gap_ns} lie between."),
            _("Much of the call passed neither in the client nor in the server."),
        ),
        _(
            "Look at gateway, proxy, TLS set-up and authentication. Keep connections open, and "
            "move nearer."
        ),
    ),
    "handoff_gap": Words(
        _("Time passes between agents"),
        (
            _("{gap_ns} in which neither agent worked."),
            _("Neither agent worked for a while."),
        ),
        _("Look at the queue or the framework step between them."),
    ),
    "model_not_bottleneck": Words(
        _("A faster model would not be enough"),
        (
            _(
                "With model time at zero the request would still take {remaining_ns} of "
                "{end_to_end_ns}, over the limit of {limit_ns}: at most {gain_percent} to gain."
            ),
            _(
                "With model time at zero the request would still take {remaining_ns} of "
                "{end_to_end_ns}: at most {gain_percent} to gain."
            ),
            _("Most of the time is not the model's."),
        ),
        _("Spend on the steps above first; hardware is not the first thing to buy."),
    ),
    "model_bound": Words(
        _("The model has most of the time, and all else is clear"),
        (
            _("Prefill {prefill_ns}, decode {decode_ns}, of which {unsplit_ns} are not split."),
            _("Steps 2 to 5 are clear, and the model has most of the time."),
        ),
        _(
            "If prefill is the larger part: shorter or cached prompts. If decode is: shorter "
            "answers, or a faster model."
        ),
    ),
}

QUALITY: dict[str, Words] = {
    "launcher_root": Words(
        _("The first span only launched the work"),
        (
            _(
                "It ended after {ended_after_ns}, before the first step was done; the request "
                "is measured until the last step."
            ),
            _(
                "It ended before the first step was done; the request is measured until the "
                "last step."
            ),
        ),
        _("Keep the span open until the answer is sent, if you can."),
    ),
    "outside_parent": Words(
        _("Steps reach beyond the span that holds them"),
        (_("In the attribution they are cut to it."),),
        _("Check clocks, and end spans in the order of nesting."),
    ),
    "tokens_refused": Words(
        _("Token counts that cannot be true"),
        (_("Refused: {keys}."), _("Negative, fractional or absurd counts were refused.")),
        _("Check what the instrumentation writes there."),
    ),
    "missing_root": Words(
        _("The span that began the request is missing"),
        (_("An empty one stands in for it, over all that is here."),),
        _("Check sampling and that the root's exporter is flushed at exit."),
    ),
    "missing_parent": Words(
        _("A span above others is missing"),
        (_("What hangs below it is shown; the time in between is not traced."),),
        _("Check sampling, and that every service exports to this project."),
    ),
    "parent_cycle": Words(
        _("Spans name each other as parents"),
        (_("The ring was cut; its spans are shown and not counted."),),
        _("Report it to the author of the instrumentation."),
    ),
    "clock_skew": Words(
        _("Two hosts' clocks disagree"),
        (
            _(
                "One host's spans are shifted by {offset_ns} for picture and attribution; raw "
                "times are unchanged."
            ),
            _("One host's spans are shifted for picture and attribution; raw times are unchanged."),
        ),
        _("Synchronise clocks (NTP) on both hosts."),
    ),
    "ends_before_start": Words(
        _("A span ends before it starts"),
        (_("By {by_ns}; it counts as having no length."), _("It counts as having no length.")),
        _("Check the clock of its sender."),
    ),
    "unfinished_span": Words(
        _("A span has no end"),
        (_("It is taken to end with the last span below it."),),
        _("End spans in a finally block, and flush at exit."),
    ),
    "span_conflict": Words(
        _("One span id came with two contents"),
        (_("The one that ends later is used."),),
        _("Export a span once, when it has ended."),
    ),
    "twin_spans": Words(
        _("Two spans describe one piece of work"),
        (_("They are counted once; the one with usage and TTFT stays."),),
        _("Two instrumentations are active. Turn one off to halve the traffic."),
    ),
    "ttft_equals_duration": Words(
        _("A TTFT as long as the whole call"),
        (
            _("{from} says {value_ns}, the whole call; it is refused."),
            _("The figure was stamped at the end of the call; it is refused."),
        ),
        _("Record the first chunk while streaming, not when the stream is closed."),
    ),
    "ttft_out_of_range": Words(
        _("A TTFT that cannot be true"),
        (
            _("{from} says {value_ns}, outside the call; it is refused."),
            _("It lies outside the call, and is refused."),
        ),
        _("Check unit and origin of the figure."),
    ),
    "ttft_not_prefill": Words(
        _("A late first chunk that is not prefill"),
        (
            _(
                "{from} says {value_ns}; the rest of the call is too short for its output. "
                "Kept as the time until something was visible."
            ),
            _(
                "The rest of the call is too short for its output. Kept as the time until "
                "something was visible."
            ),
        ),
        _(
            "The provider thinks or buffers before its first visible chunk. Reported server "
            "figures would tell more."
        ),
    ),
    "reported_exceeds_wall": Words(
        _("Reported figures do not fit into the call"),
        (
            _(
                "Reported figures add up to {reported_ns}; the call took {duration_ns}. The "
                "wall clock wins."
            ),
            _("A queue of {queue_ns} is reported for a TTFT of {ttft_ns}. The wall clock wins."),
            _(
                "Figures that add up to {ttft_ns} are reported; the call took {duration_ns}. "
                "The wall clock wins."
            ),
            _("The wall clock wins."),
        ),
        _("Check what the service reports, and in which unit."),
    ),
    "late_model_end": Words(
        _("A model call that stayed open while its tools ran"),
        (
            _("Its span closed {by_ns} late; the call is taken to end before its tools."),
            _("The call is taken to end before its tools."),
        ),
        _("End the span when the stream ends."),
    ),
    "rehung_step": Words(
        _("Steps hang where they cannot belong"),
        (_("They were moved below the span that was open when they ran."),),
        _("Pass the current context to tasks and threads that you start."),
    ),
    "suspect_unit": Words(
        _("Times before the year 2000"),
        (_("Probably a wrong unit: nanoseconds are expected. Nothing was changed."),),
        _("Send Unix times in nanoseconds."),
    ),
    "tokens_missing": Words(
        _("Token counts are missing"),
        (
            _("{count} of {of} calls have no count of input or output tokens."),
            _("Some calls have no token counts."),
        ),
        _(
            "For OpenAI streams set stream_options.include_usage; without counts there is no "
            "TPOT and no word on context."
        ),
    ),
    "tools_not_traced": Words(
        _("Tools were asked for, and no span shows them"),
        (
            _("{unattributed_ns} after the answer are drawn as not traced."),
            _("The time after the answer is drawn as not traced."),
        ),
        _("Trace the tools, or the framework that runs them."),
    ),
    "content_truncated": Words(
        _("Content was cut before it arrived"),
        (_("Some attributes are longer than the sender's or our limit."),),
        _("Findings that compare content may be missing."),
    ),
    "session_conflict": Words(
        _("One request names several sessions"),
        (_("{sessions} different ones; the first is used."), _("The first is used.")),
        _("Set one conversation id a request."),
    ),
    "turns_disagree": Words(
        _("The trace counts turns differently"),
        (
            _("{spans} turn spans, {turns} turns by the rules of measuring. The rules win."),
            _("The rules of measuring win."),
        ),
        _("Nothing to do; both are shown."),
    ),
}

ALL: Mapping[str, Words] = FINDINGS | QUALITY

# What a piece of evidence is called where the text does not say it.
EVIDENCE: dict[str, Text] = {
    "added_tokens": _("tokens added"),
    "agent": _("agent"),
    "cached_input_tokens": _("cached tokens"),
    "calls": _("calls"),
    "count": _("spans"),
    "decode_ns": _("decode"),
    "duration_ns": _("duration"),
    "end_to_end_ns": _("end-to-end"),
    "ended_after_ns": _("ended after"),
    "errors": _("errors"),
    "failed": _("failed"),
    "failed_ns": _("failed attempts"),
    "framework_ns": _("framework"),
    "from": _("from"),
    "gap_ns": _("gap"),
    "io_ns": _("I/O in it"),
    "keys": _("attributes"),
    "larger": _("larger part"),
    "limit": _("limit"),
    "limit_ns": _("limit"),
    "longest_ns": _("longest"),
    "model_ns": _("model"),
    "of": _("of calls"),
    "parent": _("missing span"),
    "prefill_ns": _("prefill"),
    "queue_ns": _("queue"),
    "repeats": _("repeats"),
    "same_by": _("the same by"),
    "sum_ns": _("sum"),
    "to": _("to"),
    "tool": _("tool"),
    "tools": _("tools"),
    "turns": _("turns"),
    "value_ns": _("value"),
}


# --- sentences -----------------------------------------------------------------------------------


def explain(finding: Document) -> Sentence:
    """A finding of the analysis object in words. A code without words is named as it is."""
    words = ALL.get(finding["code"])
    said = {key: say(key, value) for key, value in finding["evidence"].items()}
    known = {key: text for key, text in said.items() if text}
    if words is None:
        return Sentence(finding["code"], "", "", _figures(known))
    form = _first_form(words.forms, known)
    rest = {key: text for key, text in known.items() if f"{{{key}}}" not in form}
    return Sentence(str(words.title), form.format_map(known), str(words.remedy), _figures(rest))


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
        return value or None
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
    return f"{text % {'n': count(len(steps))}}, {failed}."


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
