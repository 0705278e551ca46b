"""The release checklist in words: its items, what traces say of each, and where to look."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils.translation import gettext_lazy as _

from tracebudget.core.checklist import Verdict
from tracebudget.finding_words import Text
from tracebudget.templatetags.duration import count, percent

STATES: dict[str, Text] = {
    "done": _("done"),
    "not_done": _("not done"),
    "unknown": _("cannot tell"),
}

ITEMS: dict[str, Text] = {
    "recorded": _("Every model call records TTFT, TPOT, input and output tokens."),
    "split": _("End-to-end is split by turn and by segment."),
    "parallel": _("Tools that do not need each other run at the same time."),
    "cached": _("Results of tools are kept for a while, of idempotent ones only."),
    "context": _("The context of many turns has a cap, beyond which it is summarised or cut."),
    "timeouts": _("Tools have a time limit, and an answer comes without them."),
    "one_generation": _("What is streamed is the answer: nothing is generated a second time."),
    "routing": _("Simple requests go to a small model, or to a cache."),
    "limits": _("Production has rate limits, circuit breaking and error codes."),
    "benchmark": _("After each change of model or framework, latency is measured anew."),
}

OF_CALLS = _(
    "Of {calls} answered calls, TTFT is told by {ttft}, TPOT by {tpot}, input tokens by "
    "{input_tokens}, output tokens by {output_tokens}."
)
OF_TIME = _(
    "{with_turns} of requests have turns; of all time, {unsplit} is model time that nothing splits "
    "into prefill and decode, and {unattributed} is told by no span."
)
FOUND = _("Found in {found} of {requests} requests.")

WHYS: dict[str, Text] = {
    "no_requests": _("There are no whole requests."),
    "no_calls": _("No model call was answered."),
    "all_recorded": OF_CALLS,
    "not_recorded": OF_CALLS,
    "is_split": OF_TIME,
    "not_split": OF_TIME,
    "ran_in_a_row": _(
        "Tools of one answer ran one after another in {found} of {requests} requests."
    ),
    "ran_together": _("Turns in which tools ran at the same time, among the latest: {together}."),
    "no_several_tools": _("No answer asked for several tools."),
    "asked_again": _(
        "A tool that only reads was asked the same again in {found} of {requests} requests."
    ),
    "repeats_unmarked": _(
        "Tools were asked the same again in {found} requests; whether they only read, nobody has "
        "said. Mark them."
    ),
    "no_ttl": _("No time is declared for which results are kept."),
    "cache_unseen": _(
        "Declared: {seconds} seconds. No call was repeated; a result from a cache leaves no trace."
    ),
    "context_grows": FOUND,
    "no_cap": _("No cap is known: set a budget for input tokens. The p95 of the largest is {p95}."),
    "over_cap": _(
        "{within} of {requests} requests kept the cap of {limit} input tokens, {objective} % are "
        "promised; the p95 is {p95}."
    ),
    "under_cap": _(
        "{within} of {requests} requests kept the cap of {limit} input tokens, {objective} % are "
        "promised; the p95 is {p95}."
    ),
    "cap_unproven": _(
        "{requests} requests, {unjudged} of them without a figure, cannot prove that {objective} % "
        "keep the cap of {limit} input tokens."
    ),
    "ran_longer": _("Tools ran longer than the declared {ms} ms."),
    "ended_there": _(
        "A tool ran into its limit in {timeouts} of the latest requests; only {went_on} of those "
        "went on to an answer."
    ),
    "no_timeout_declared": _("No time limit is declared."),
    "no_timeout_seen": _("Declared: {ms} ms. No tool ran into it, so nothing shows what happens."),
    "went_on": _(
        "A tool ran into its limit in {timeouts} of the latest requests, and all went on."
    ),
    "generated_twice": _("The answer was generated twice in {found} of {requests} requests."),
    "generated_once": _("{streamed} calls were streamed, and none was made again without."),
    "nothing_streamed": _("No call is known to have been streamed."),
    "oversized": _("A simple request used a large model in {found} of {requests} requests."),
    "no_simple_requests": _("There was no simple request: one call, and no tool."),
    "only_simple_requests": _("There were only simple requests: one call, and no tool."),
    "one_model": _("Simple requests and others use the same model: {simple}."),
    "routed": _("Simple requests use {simple}, others {other}."),
    "no_failures": _("No model call failed among the latest requests, so no error code is seen."),
    "no_codes": _("Of {failed} failed model calls only {coded} tell an error code."),
    "codes_told": _(
        "{coded} failed model calls, all with an error code: {codes}. Limits and circuit breakers "
        "leave no trace."
    ),
    "not_frozen": _("No baseline of this release is frozen."),
    "frozen": _("A baseline of this release was frozen on {at}."),
}

# What to do about an item that is not done or cannot be told: page of the app, and words.
PLACES: dict[str, tuple[str, Text]] = {
    "repeats_unmarked": ("declared", _("mark tools")),
    "no_ttl": ("declared", _("declare it")),
    "no_timeout_declared": ("declared", _("declare it")),
    "ran_longer": ("declared", _("see what is declared")),
    "no_cap": ("budgets", _("set a budget")),
    "over_cap": ("budgets", _("see the budgets")),
}

SHARES = frozenset(
    ("ttft", "tpot", "input_tokens", "output_tokens", "with_turns", "unsplit", "unattributed")
)
UNTOLD = _("no call")  # of which the figure could be told


def verdict_words(verdict: Verdict) -> str:
    """What traces say."""
    said = {key: _figure(key, value) for key, value in verdict.evidence.items()}
    return str(WHYS[verdict.why]).format_map(_Said(said))


class _Said(dict[str, str]):
    """Figures; those that no call should have read as words."""

    def __missing__(self, key: str) -> str:
        return str(UNTOLD)


def _figure(key: str, value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d}"
    if key in SHARES:
        return percent(value)
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else count(value)


def place(verdict: Verdict) -> tuple[str, Text] | None:
    """Where to do something about it: the name of a page, and a text for the link."""
    return PLACES.get(verdict.why)
