"""Codes of this package to sentences. As in `wording`: what the core says in codes and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_lazy as _

from tracebudget.core.declaration import Observed
from tracebudget.core.gateway import SETTINGS
from tracebudget.finding_words import Text
from tracebudget.templatetags.duration import count, duration

# --- declared settings ----------------------------------------------------------------------------

OBSERVATIONS: dict[str, Text] = {
    "confirmed": _("confirmed"),
    "contradicted": _("contradicted"),
    "unseen": _("unseen"),
}

SETTING_TEXTS: dict[str, Text] = {
    "endpoint": _("where model calls go; host and port are compared"),
    "model": _("the model that is asked for; a dated release of it counts as the same"),
    "temperature": _("above 0 the same input may give other arguments, and so more repeats"),
    "max_tokens": _("the cap on an answer, and so on how long decode can take"),
    "stream": _("answers come token by token, so that TTFT and TPOT can be told"),
    "parallel": _("tools of one answer run at the same time"),
    "max_parallel": _("as many of them at most"),
    "timeout_ms": _("a tool call that lasts longer is ended"),
    "retry": _("how often a failed tool call is tried again"),
    "tool_result_ttl_seconds": _("how long the result of a read-only tool is kept"),
    "prefix_cache": _("the service keeps what it has computed of a prompt's beginning"),
}

WHYS: dict[str, Text] = {
    "calls_agree": _("Told by {told} of {calls} calls, and all agree."),
    "call_differs": _("Told by {told} of {calls} calls; in {others} it is {other_values}."),
    "calls_do_not_tell": _("None of {calls} calls tells it."),
    "tools_together": _("Turns in which tools ran at the same time: {together}."),
    "tools_in_a_row": _(
        "Turns in which tools of one answer ran one after another: {in_a_row}; at the same time: "
        "{together}."
    ),
    "no_several_tools": _("No answer asked for several tools."),
    "more_at_once": _("Up to {most} tools ran at one time; more than {limit} in {turns} turns."),
    "waited_for_a_place": _(
        "More tools were asked for in {turns} turns, and never more than {limit} ran at one time."
    ),
    "never_so_many": _("Never more than {most} ran at one time: a limit of {limit} is not felt."),
    "ran_longer": _("Calls longer than {limit_ns}: {longer} ({tools}), the longest {longest_ns}."),
    "ended_at_limit": _("Calls that failed at {limit_ns}: {ended} ({tools})."),
    "never_so_long": _("The longest call took {longest_ns}: a limit of {limit_ns} is not felt."),
    "no_tools": _("No tool was called."),
    "tried_more": _("A failed call was tried again {most} times, {limit} are declared."),
    "never_tried_again": _("Failed calls: {failed}, and none was tried again in its turn."),
    "tried_again": _("Failed calls: {failed}, tried again: {again}, at most {most} times."),
    "not_tried_again": _("Failed calls: {failed}, and none was tried again, as declared."),
    "no_failed_tools": _("No tool call failed at its work."),
    "asked_anew": _("{tools}: asked again within that time, with equal arguments: {repeats}."),
    "repeats_unmarked": _(
        "{tools}: asked again within that time, with equal arguments: {repeats}. Mark a tool "
        "that only reads, below."
    ),
    "no_repeats": _(
        "No call was repeated within that time. A result from a cache leaves no call, so it cannot "
        "be seen at work."
    ),
    "prefix_reused": _(
        "Calls with tokens from the cache: {hits}; without, where it could be: {misses}."
    ),
    "prefix_not_reused": _(
        "Calls that sent a known beginning again and had nothing from the cache: {misses}; calls "
        "with tokens from it: {hits}."
    ),
    "no_cached_tokens_told": _("No call reports cached tokens."),
}

# How a setting that calls do not tell can be made to show.
HINTS: dict[str, Text] = {
    "endpoint": _("Record server.address, or instrument the HTTP client."),
    "model": _("Record gen_ai.request.model."),
    "temperature": _("Record gen_ai.request.temperature."),
    "max_tokens": _("Record gen_ai.request.max_tokens."),
    "stream": _("Record gen_ai.request.stream, and the first chunk."),
}

CONSEQUENCES: dict[str, Text] = {
    "worst_tool": _(
        "A tool that fails each time may take {worst_ns}: its time limit, with each try."
    ),
    "worst_answer": _("An answer of full length takes {worst_ns}, at this app's usual TPOT."),
}
CONSEQUENCES_OVER: dict[str, Text] = {
    "worst_tool": _("That is more than the budget of {limit_ns} for tools."),
    "worst_answer": _("That is more than the budget of {limit_ns} for the whole request."),
}


def setting_path(name: str) -> str:
    """A setting as the file names it."""
    return SETTINGS[name].path(name)


def observed_words(observed: Observed) -> str:
    """What the traces say of a setting."""
    said = fill(WHYS[observed.why], observed.evidence)
    hint = HINTS.get(observed.setting, "") if observed.why == "calls_do_not_tell" else ""
    return f"{said} {hint}".rstrip()


def fill(text: Text, evidence: Mapping[str, Any]) -> str:
    """A text with its figures; the ending of a key tells the unit."""
    return str(text).format_map({key: figure(key, value) for key, value in evidence.items()})


def figure(key: str, value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if key.endswith("_ns"):
        return duration(value)
    return count(value) if isinstance(value, int) and not isinstance(value, bool) else str(value)


# --- answers to findings --------------------------------------------------------------------------

VERDICTS: dict[str, Text] = {
    "accepted": _("accepted"),
    "dependent": _("dependent"),
    "not_idempotent": _("not idempotent"),
    "will_not_fix": _("will not be fixed"),
    "open": _("opened again"),
}

VERDICT_TEXTS: dict[str, Text] = {
    "accepted": _("we know, and live with it"),
    "dependent": _("these tools need each other's results"),
    "not_idempotent": _("it changes something, so its result must not be reused"),
    "will_not_fix": _("it is not worth the work"),
}

MARKS: dict[str, Text] = {
    "read_only": _("read-only"),
    "dependent": _("dependent"),
    "read_only dependent": _("read-only, dependent"),
}
