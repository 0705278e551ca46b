"""What is said of each finding: symptom, cause, how to check, remedy. `docs/findings.md` explains
each code at length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

Text = str | Promise


@dataclass(frozen=True, slots=True)
class Words:
    """How a code is said. `title` is the symptom; `forms` are texts with {evidence} in them, the
    richest first, the last without any.
    """

    title: Text
    forms: tuple[Text, ...]
    cause: Text
    check: Text
    remedy: Text


FINDINGS: dict[str, Words] = {
    "tools_dominate": Words(
        title=_("Tools are the largest share"),
        forms=(
            _(
                "{tool_ns} of {end_to_end_ns} went to tools, over their budget of {limit_ns}; "
                "model calls took {model_ns}."
            ),
            _("{tool_ns} of {end_to_end_ns} went to tools; model calls took {model_ns}."),
            _("Most of the time went to tools."),
        ),
        cause=_("Tools wait for databases, services or networks, or run one after another."),
        check=_(
            "Compare the tool segment with prefill and decode, and look at step 3 for the "
            "longest tools."
        ),
        remedy=_("A faster model would change little. See step 3 for what the tools do."),
    ),
    "framework_overhead": Words(
        title=_("The agent's own code takes long"),
        forms=(
            _(
                "{framework_ns} between calls in {turns} turns, {per_turn_ns} a turn; "
                "{allowed_ns} would be in order."
            ),
            _("Much time passes between calls, in nobody's span."),
        ),
        cause=_(
            "Serialisation, routing, prompt building, logging or a state store holds the loop up."
        ),
        check=_(
            "Look in the waterfall for framework time between a call's end and the next step's "
            "start, and for I/O in it."
        ),
        remedy=_(
            "Profile what runs between calls: prompt building, serialisation, logging, state "
            "stores, cold starts. I/O in it has spans of its own below."
        ),
    ),
    "many_turns": Words(
        title=_("The agent keeps thinking"),
        forms=(
            _("{turns} turns, more than the {limit} that are planned for."),
            _("More turns than are planned for."),
        ),
        cause=_("The model does not get what it needs in one go, or cannot tell that it is done."),
        check=_("Read what each turn asked for, and whether the last ones brought anything new."),
        remedy=_(
            "Look at what the last turns added. Sharpen the tools' descriptions, let one tool "
            "answer more, or stop earlier."
        ),
    ),
    "double_generation": Words(
        title=_("The answer was generated twice"),
        forms=(
            _("A second call asked the same again {gap_ns} after the first and took {second_ns}."),
            _("A second call asked the same again right after the first."),
        ),
        cause=_("The stream was only shown, and a second, unstreamed call made the final answer."),
        check=_(
            "Look for two calls of one prompt on end, the first streamed and the second not, "
            "with no tool between."
        ),
        remedy=_(
            "Keep the streamed text instead of asking once more without streaming. If that is "
            "meant as a fallback, log why the stream was not used."
        ),
    ),
    "malformed_tool_arguments": Words(
        title=_("The model was asked again, since a tool's arguments did not parse"),
        forms=(
            _(
                "Arguments for {tools} were no valid JSON or did not fit; the repeat took "
                "{repeat_ns}."
            ),
            _("Arguments were no valid JSON or did not fit, and the model was asked again."),
        ),
        cause=_("The model wrote its arguments as free text, and nothing held it to the schema."),
        check=_(
            "Look at the first call's tool request and at the error of the tool that refused it."
        ),
        remedy=_(
            "Use strict tool schemas or constrained decoding, shorten the schema, and mend small"
            " faults in code instead of asking again."
        ),
    ),
    "model_retry": Words(
        title=_("Model calls failed and were tried again"),
        forms=(
            _(
                "Failed attempts: {failed}. They took {failed_ns}, and the waits between them "
                "{wait_ns}."
            ),
            _("Failed attempts: {failed}. How long they took is not recorded."),
            _("Attempts failed before one succeeded."),
        ),
        cause=_(
            "A rate limit, an overloaded service, or a limit of time below the call's usual one."
        ),
        check=_("Look at the error of each failed attempt, and at the wait before the next."),
        remedy=_(
            "See the error: for 429 ask for a higher limit or spread the load, for timeouts "
            "check the limit itself, and keep the back-off short for interactive use."
        ),
    ),
    "queueing": Words(
        title=_("The call waited in a queue"),
        forms=(
            _("{queue_ns} of the {ttft_ns} until the first token were queue."),
            _("{queue_ns} passed in a queue before the call was sent."),
            _("Calls wait for their turn."),
        ),
        cause=_("The service or the client had more calls than it may run at once."),
        check=_(
            "Compare the queue's share of TTFT in busy and quiet hours, at prompts of like length."
        ),
        remedy=_(
            "Compare busy with quiet hours. Raise the concurrency or rate limit, move batch work"
            " elsewhere, or reserve capacity for interactive calls."
        ),
    ),
    "slow_first_token": Words(
        title=_("The first token was late, though the prompt is not long"),
        forms=(
            _(
                "{ttft_ns} until the first token, limit {limit_ns}, for {uncached_tokens} "
                "uncached tokens; usual here are {usual_tokens}."
            ),
            _("The first token came later than promised for a prompt of usual length."),
        ),
        cause=_(
            "Queueing, a cold start, a distant region, or thinking before the first visible token."
        ),
        check=_(
            "Compare this call's TTFT with others of as many uncached tokens, and see whether a "
            "queue is reported."
        ),
        remedy=_(
            "Look for queueing, cold starts, a distant region or a thinking mode that nobody "
            "asked for."
        ),
    ),
    "slow_decode": Words(
        title=_("Text comes slowly"),
        forms=(
            _("{tpot_ns} for each output token, limit {limit_ns}, over {output_tokens} tokens."),
            _("Time per output token is over its budget."),
        ),
        cause=_(
            "The server decodes many requests in one batch, or its memory is too slow for the "
            "model."
        ),
        check=_(
            "Compare time per output token at busy and quiet hours, and p95 instead of the mean."
        ),
        remedy=_(
            "Ask for less text, use a smaller or faster model for this step, or lower the batch "
            "size on your own server."
        ),
    ),
    "decode_stutter": Words(
        title=_("Text comes haltingly"),
        forms=(
            _("Gaps between chunks: p95 {p95_gap_ns}, median {median_gap_ns}, over {gaps} gaps."),
            _("Some gaps between chunks are far longer than the usual one."),
        ),
        cause=_(
            "Large prefills in the same batch, preemption, or a proxy that collects the stream."
        ),
        check=_("Compare the gaps between chunks at the server with those at the client."),
        remedy=_(
            "Look for preemption and large prefills in the same batch, memory swaps, and proxies"
            " that buffer the stream."
        ),
    ),
    "oversized_model": Words(
        title=_("A simple request on a large model"),
        forms=(
            _("Requests like this take {median_ns} on {model} and {other_median_ns} on {other}."),
            _("A smaller model of this app answers such requests faster."),
        ),
        cause=_("All requests go to one model, however simple they are."),
        check=_("Compare medians of short requests without tools over the models of this app."),
        remedy=_(
            "Route short questions without tools to the smaller model, and check the answers' "
            "quality."
        ),
    ),
    "serial_tools": Words(
        title=_("Tool calls of one answer ran one after another"),
        forms=(
            _("{calls} calls, {tools}: {sum_ns} in a row, the longest {longest_ns}."),
            _("Tools of one answer ran one after another."),
        ),
        cause=_(
            "The framework runs the tools of one answer in a loop, each waiting for the one before."
        ),
        check=_(
            "See in the waterfall that each tool of the turn begins when the one before it ends."
        ),
        remedy=_("Run them at the same time, if they are independent."),
    ),
    "repeated_tool_call": Words(
        title=_("The same tool call was made again"),
        forms=(
            _("{tool} was called {calls} times with equal arguments; the repeats took {sum_ns}."),
            _("A tool was called again with equal arguments, soon after it succeeded."),
        ),
        cause=_("The result is not kept, or the model does not see that it has asked before."),
        check=_(
            "Compare tool name and arguments of both calls, and how long the first one's result "
            "stays true."
        ),
        remedy=_(
            "Does it change anything? If it only reads, keep its result for a while and answer "
            "repeats from there."
        ),
    ),
    "tool_timeout": Words(
        title=_("A tool ran into its time limit"),
        forms=(
            _("{tool} ended after {duration_ns}, at its limit of {limit_ns}."),
            _("{tool} timed out after {duration_ns}."),
            _("A tool timed out."),
        ),
        cause=_("The service behind the tool is slow or down, or the limit is too short for it."),
        check=_("Compare how long the tool took with its limit, and with what it usually takes."),
        remedy=_(
            "Set the limit near the tool's p99, fail early, and give the model a short answer "
            "that it can work with."
        ),
    ),
    "tool_retry": Words(
        title=_("A tool failed and was called again"),
        forms=(
            _("{tool} failed after {failed_ns} and was called again."),
            _("A tool failed and was called again."),
        ),
        cause=_("The tool or the service behind it failed, and the loop or the model tried again."),
        check=_("Look at the first attempt's error, and at the wait before the second."),
        remedy=_(
            "See its error. Mend the cause, or retry inside the tool with a short back-off "
            "instead of through the model."
        ),
    ),
    "context_growth": Words(
        title=_("The context grows, and each turn reads it again"),
        forms=(
            _(
                "Input grew from {first_input_tokens} to {last_input_tokens} tokens in {turns} "
                "turns, TTFT from {first_ttft_ns} to {last_ttft_ns}: about {ns_per_1000_tokens} "
                "for each 1,000 tokens."
            ),
            _("Input and time to first token grow from turn to turn."),
        ),
        cause=_(
            "Each turn adds tool results and messages, and the server computes the whole prompt "
            "again."
        ),
        check=_("Compare input tokens, cached tokens and TTFT turn by turn."),
        remedy=_(
            "Keep the beginning of the prompt unchanged so that the prefix cache works, shorten "
            "tool results and history, or summarise."
        ),
    ),
    "prefix_cache_unused": Words(
        title=_("The prompt's beginning was sent again, and nothing of it was cached"),
        forms=(
            _(
                "{calls} calls sent {repeated_tokens} tokens again; the service reports 0 from "
                "its cache. Longest pause between: {longest_idle_ns}."
            ),
            _("The service reports no cached tokens for a prompt that was sent before."),
        ),
        cause=_(
            "The service has no prefix cache, or the prompt's beginning changes from call to "
            "call; a cache key that only the framework knows saves nothing."
        ),
        check=_(
            "Compare cached with input tokens of two calls on end, and the beginnings of their "
            "prompts."
        ),
        remedy=_(
            "Turn the prefix cache on, keep dates, ids and shuffled tools out of the prompt's "
            "beginning, and send calls of one session to one server. After a long pause the "
            "cache may just have expired."
        ),
    ),
    "tool_result_inflates_context": Words(
        title=_("One tool result makes the next prompt long"),
        forms=(
            _("{tool} added {added_tokens} tokens: from {before_tokens} to {after_tokens}."),
            _("One tool's result makes the next prompt much longer."),
        ),
        cause=_("The tool's raw answer goes into the prompt as it is."),
        check=_("Compare input tokens before and after the tool, and the length of its result."),
        remedy=_(
            "Return only what the model needs: select fields, page, summarise, or give a reference."
        ),
    ),
    "network_gap": Words(
        title=_("Client and server disagree on how long the call took"),
        forms=(
            _("{client_ns} at the client, {server_ns} at the server: {gap_ns} lie between."),
            _("Much of the call passed neither in the client nor in the server."),
        ),
        cause=_("Network, gateway, TLS set-up or authentication between client and server."),
        check=_("Compare the client's span with the server's, at its beginning and at its end."),
        remedy=_(
            "Look at gateway, proxy, TLS set-up and authentication. Keep connections open, and "
            "move nearer."
        ),
    ),
    "handoff_gap": Words(
        title=_("Time passes between agents"),
        forms=(
            _("{gap_ns} in which neither agent worked."),
            _("Neither agent worked for a while."),
        ),
        cause=_("A queue, a scheduler or a state store lies between the agents."),
        check=_("Look at what begins and ends at the edges of the gap."),
        remedy=_("Look at the queue or the framework step between them."),
    ),
    "model_not_bottleneck": Words(
        title=_("A faster model would not be enough"),
        forms=(
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
        cause=_("Tools and framework take longer than the budget leaves for them."),
        check=_("Take the model's time away, and see what remains."),
        remedy=_("Spend on the steps above first; hardware is not the first thing to buy."),
    ),
    "model_bound": Words(
        title=_("The model has most of the time, and all else is clear"),
        forms=(
            _("Prefill {prefill_ns}, decode {decode_ns}, of which {unsplit_ns} are not split."),
            _("Steps 2 to 5 are clear, and the model has most of the time."),
        ),
        cause=_("Prompt length and prefill, or answer length and the pace of decoding."),
        check=_(
            "See which of prefill and decode is larger, and compare them with other models and "
            "services."
        ),
        remedy=_(
            "If prefill is the larger part: shorter or cached prompts. If decode is: shorter "
            "answers, or a faster model."
        ),
    ),
}

QUALITY: dict[str, Words] = {
    "launcher_root": Words(
        title=_("The first span only launched the work"),
        forms=(
            _(
                "It ended after {ended_after_ns}, before the first step was done; the request is"
                " measured until the last step."
            ),
            _(
                "It ended before the first step was done; the request is measured until the last"
                " step."
            ),
        ),
        cause=_("A handler that starts a task and answers at once."),
        check=_("Compare the first span's end with the last step's."),
        remedy=_("Keep the span open until the answer is sent, if you can."),
    ),
    "outside_parent": Words(
        title=_("Steps reach beyond the span that holds them"),
        forms=(_("In the attribution they are cut to it."),),
        cause=_("Clocks that disagree, or a span that was ended too early."),
        check=_("Compare the ends of the spans named here with those of the spans above them."),
        remedy=_("Check clocks, and end spans in the order of nesting."),
    ),
    "tokens_refused": Words(
        title=_("Token counts that cannot be true"),
        forms=(
            _("Refused: {keys}."),
            _("Negative, fractional or absurd counts were refused."),
        ),
        cause=_("An instrumentation that writes differences, costs or texts where counts belong."),
        check=_("Look at the attributes named here, on the span itself."),
        remedy=_("Check what the instrumentation writes there."),
    ),
    "missing_root": Words(
        title=_("The span that began the request is missing"),
        forms=(_("An empty one stands in for it, over all that is here."),),
        cause=_("It was sampled away, is still on its way, or was never exported."),
        check=_("Look for the missing id at the service that received the request."),
        remedy=_("Check sampling and that the root's exporter is flushed at exit."),
    ),
    "missing_parent": Words(
        title=_("A span above others is missing"),
        forms=(_("What hangs below it is shown; the time in between is not traced."),),
        cause=_(
            "Sampling, a process that ended before its exporter was flushed, or a service that "
            "exports elsewhere."
        ),
        check=_("Look for the missing id in that service's own export."),
        remedy=_("Check sampling, and that every service exports to this project."),
    ),
    "parent_cycle": Words(
        title=_("Spans name each other as parents"),
        forms=(_("The ring was cut; its spans are shown and not counted."),),
        cause=_("Ids that were copied or rewritten between the SDK and here."),
        check=_("Look at the parent ids of the spans named here."),
        remedy=_("Report it to the author of the instrumentation."),
    ),
    "clock_skew": Words(
        title=_("Two hosts' clocks disagree"),
        forms=(
            _(
                "One host's spans are shifted by {offset_ns} for picture and attribution; raw "
                "times are unchanged."
            ),
            _("One host's spans are shifted for picture and attribution; raw times are unchanged."),
        ),
        cause=_("Two machines whose clocks are set apart."),
        check=_("Compare the clocks of both hosts, and their time synchronisation."),
        remedy=_("Synchronise clocks (NTP) on both hosts."),
    ),
    "ends_before_start": Words(
        title=_("A span ends before it starts"),
        forms=(
            _("By {by_ns}; it counts as having no length."),
            _("It counts as having no length."),
        ),
        cause=_("A clock that was set back while the span was open, or two clocks in one span."),
        check=_("Compare start and end on the span itself."),
        remedy=_("Check the clock of its sender."),
    ),
    "unfinished_span": Words(
        title=_("A span has no end"),
        forms=(_("It is taken to end with the last span below it."),),
        cause=_("The process ended, or an error passed by, before the span was ended."),
        check=_("Look for an exception or an exit at the time of the last span below it."),
        remedy=_("End spans in a finally block, and flush at exit."),
    ),
    "span_conflict": Words(
        title=_("One span id came with two contents"),
        forms=(_("The one that ends later is used."),),
        cause=_(
            "A span that is exported while it is open and again when it has ended, or an id used"
            " twice."
        ),
        check=_("Compare both copies: which attributes and times differ?"),
        remedy=_("Export a span once, when it has ended."),
    ),
    "twin_spans": Words(
        title=_("Two spans describe one piece of work"),
        forms=(_("They are counted once; the one with usage and TTFT stays."),),
        cause=_("Two instrumentations, of the framework and of its client, see the same call."),
        check=_("Compare the scopes of the two spans: they name the libraries that made them."),
        remedy=_("Two instrumentations are active. Turn one off to halve the traffic."),
    ),
    "ttft_equals_duration": Words(
        title=_("A TTFT as long as the whole call"),
        forms=(
            _("{from} says {value_ns}, the whole call; it is refused."),
            _("The figure was stamped at the end of the call; it is refused."),
        ),
        cause=_(
            "The first token is stamped when the stream is closed, or the answer came in one piece."
        ),
        check=_(
            "Compare the figure with the call's duration, and see whether the call was streamed."
        ),
        remedy=_("Record the first chunk while streaming, not when the stream is closed."),
    ),
    "ttft_out_of_range": Words(
        title=_("A TTFT that cannot be true"),
        forms=(
            _("{from} says {value_ns}, outside the call; it is refused."),
            _("It lies outside the call, and is refused."),
        ),
        cause=_("Another unit, another origin, or a figure of another call."),
        check=_("Compare the figure with the call's start and end, in seconds, ms and ns."),
        remedy=_("Check unit and origin of the figure."),
    ),
    "ttft_not_prefill": Words(
        title=_("A late first chunk that is not prefill"),
        forms=(
            _(
                "{from} says {value_ns}; the rest of the call is too short for its output. Kept "
                "as the time until something was visible."
            ),
            _(
                "The rest of the call is too short for its output. Kept as the time until "
                "something was visible."
            ),
        ),
        cause=_("The provider thinks or buffers before it sends its first visible chunk."),
        check=_("Divide the rest of the call by its output tokens: no model writes that fast."),
        remedy=_(
            "The provider thinks or buffers before its first visible chunk. Reported server "
            "figures would tell more."
        ),
    ),
    "reported_exceeds_wall": Words(
        title=_("Reported figures do not fit into the call"),
        forms=(
            _(
                "Reported figures add up to {reported_ns}; the call took {duration_ns}. The wall"
                " clock wins."
            ),
            _("A queue of {queue_ns} is reported for a TTFT of {ttft_ns}. The wall clock wins."),
            _(
                "Figures that add up to {ttft_ns} are reported; the call took {duration_ns}. The"
                " wall clock wins."
            ),
            _("The wall clock wins."),
        ),
        cause=_("Another unit, or figures of the whole batch instead of this call."),
        check=_("Add up what is reported, and compare it with the call's span."),
        remedy=_("Check what the service reports, and in which unit."),
    ),
    "late_model_end": Words(
        title=_("A model call that stayed open while its tools ran"),
        forms=(
            _("Its span closed {by_ns} late; the call is taken to end before its tools."),
            _("The call is taken to end before its tools."),
        ),
        cause=_("The span closes with the tools that its answer asked for, not with the stream."),
        check=_("Compare the span's end with the start of the first tool."),
        remedy=_("End the span when the stream ends."),
    ),
    "rehung_step": Words(
        title=_("Steps hang where they cannot belong"),
        forms=(_("They were moved below the span that was open when they ran."),),
        cause=_(
            "The context was not passed to a thread or task, so that its spans hang where it was"
            " started."
        ),
        check=_("Compare the step's start with the end of the span that it names as its parent."),
        remedy=_("Pass the current context to tasks and threads that you start."),
    ),
    "suspect_unit": Words(
        title=_("Times before the year 2000"),
        forms=(_("Probably a wrong unit: nanoseconds are expected. Nothing was changed."),),
        cause=_(
            "Microseconds or milliseconds sent as nanoseconds, or a clock that counts from its "
            "start."
        ),
        check=_("Divide: which unit makes the time a date of today?"),
        remedy=_("Send Unix times in nanoseconds."),
    ),
    "tokens_missing": Words(
        title=_("Token counts are missing"),
        forms=(
            _("{count} of {of} calls have no count of input or output tokens."),
            _("Some calls have no token counts."),
        ),
        cause=_("Streams without usage, or an instrumentation that does not read it."),
        check=_("Look at the usage attributes of the calls named here."),
        remedy=_(
            "For OpenAI streams set stream_options.include_usage; without counts there is no "
            "TPOT and no word on context."
        ),
    ),
    "tools_not_traced": Words(
        title=_("Tools were asked for, and no span shows them"),
        forms=(
            _("{unattributed_ns} after the answer are drawn as not traced."),
            _("The time after the answer is drawn as not traced."),
        ),
        cause=_("Tools run in code that no instrumentation wraps."),
        check=_("Look at what the agent does between this call's end and the next call's start."),
        remedy=_("Trace the tools, or the framework that runs them."),
    ),
    "content_truncated": Words(
        title=_("Content was cut before it arrived"),
        forms=(_("Some attributes are longer than the sender's or our limit."),),
        cause=_(
            "Limits of the SDK, the collector or this project on the length and number of "
            "attributes."
        ),
        check=_("Look at the dropped counts and at the ends of long attributes."),
        remedy=_("Findings that compare content may be missing."),
    ),
    "session_conflict": Words(
        title=_("One request names several sessions"),
        forms=(
            _("{sessions} different ones; the first is used."),
            _("The first is used."),
        ),
        cause=_("Several conversations in one trace, or a session id that is set per call."),
        check=_("Compare the session attributes of the spans named here."),
        remedy=_("Set one conversation id a request."),
    ),
    "turns_disagree": Words(
        title=_("The trace counts turns differently"),
        forms=(
            _("{spans} turn spans, {turns} turns by the rules of measuring. The rules win."),
            _("The rules of measuring win."),
        ),
        cause=_("The framework counts steps, or retries, as turns."),
        check=_("Compare its turn spans with the turns on this page."),
        remedy=_("Nothing to do; both are shown."),
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
