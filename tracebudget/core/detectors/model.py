"""Step 2 of the investigation: model calls made twice, made again, queued, slow to begin, slow or
halting to go on.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from statistics import fmean, median

from tracebudget.core.budget import call_tpot_ns
from tracebudget.core.detectors.tool import (
    REFUSED_WITHIN_NS,
    arguments_of,
    failed,
    is_mute,
    refused_arguments,
)
from tracebudget.core.finding import Case, Finding, Trait, Unknown, detector, performance
from tracebudget.core.gap import WORTH_NS
from tracebudget.core.profile import is_short
from tracebudget.core.replay import Change, saving_ns
from tracebudget.core.run import started_between
from tracebudget.core.step import StepKind
from tracebudget.core.timing import attempt_failed, http_attempts
from tracebudget.core.tree import Node

MS = 1_000_000

TOUCH_NS = 5 * MS  # calls that overlap by less followed one another
AGAIN_WITHIN_NS = (
    2_000 * MS
)  # a second generation for the same answer follows at once; later it is a new question
LOOK_BACK = 4  # earlier calls compared with each call
SAMPLING = 3  # so many equal calls in a row are a vote, not a lost stream
QUEUE_SHARE, QUEUE_NS = 0.30, 50 * MS  # of TTFT: shorter is scheduling
STUTTER_FACTOR, STUTTER_GAPS = (
    4,
    20,
)  # the source's own example is 20 ms that become 80; fewer gaps prove nothing
STUTTER_NS = 50 * MS  # twenty chunks a second still flow: nobody sees a shorter gap
BURST_SHARE = 0.5  # a usual gap below half of the mean: text that waits, then comes at once
KNOWN_SHARE = 0.5  # with TTFT known for fewer calls, nothing is said of model figures
FASTER_SHARE = 0.2  # medians of a few dozen requests differ by a tenth without any reason
CHUNK_EVENTS = (
    "gen_ai.content.completion.chunk",
    "llm.content.completion.chunk",
    "mlflow.chunk.item.",
)

_start = attrgetter("start")


# --- twice --------------------------------------------------------------------------------------


@detector("double_generation", step=2, needs=(Trait.SEVERAL_CALLS,))
def double_generation(case: Case) -> Iterator[Finding | Unknown]:
    """Streaming looked good, the final answer came late: it was generated twice (T-3)."""
    calls, tools = case.report.good_calls, case.report.tools
    for index, second in enumerate(calls):
        if second.facts.streamed is True:
            continue
        tool = _last_begun(tools, second.start)
        for first in reversed(calls[max(0, index - LOOK_BACK) : index]):
            if tool is not None and tool.start >= first.start:
                break  # it lies between the two, and between the second and all before the first
            if not _may_repeat(first, second):
                continue
            same = _same_prompt(case, first, second)
            if same is None:
                continue
            proven = first.facts.streamed is True and second.facts.streamed is False
            if _is_untraced(case, first.end, second.start):
                yield Unknown("untraced_between")
                break
            if not proven and _is_sampling(case, index):
                yield Unknown("streaming_not_proven")
                break
            change = Change(removed=frozenset({second}))
            yield performance(
                case,
                "double_generation",
                [first, second],
                turn=second.turn,
                saving_ns=saving_ns(case.report, change),
                second_ns=second.duration,
                gap_ns=max(0, second.start - first.end),
                same_by=same,
                streaming_proven=proven,
            )
            break


def _same_prompt(case: Case, first: Node, second: Node) -> str | None:
    """By "prompt" or by "tokens" one call repeats another's question; None: it does not, or nothing
    tells.
    """
    one, two = first.facts.tokens.input, second.facts.tokens.input
    if one is not None and two is not None and one != two:
        return None
    prompts = [call.step.prompt if call.step is not None else None for call in (first, second)]
    if prompts[0] is not None and prompts[1] is not None:
        return "prompt" if prompts[0][-1] == prompts[1][-1] else None
    same_run = case.run_of.get(first) is case.run_of.get(second)
    same_model = first.facts.model == second.facts.model
    return "tokens" if one is not None and one == two and same_run and same_model else None


def _last_begun(tools: Sequence[Node], moment: int) -> Node | None:
    """The last of the tools, in order of start, that had begun by then."""
    begun = bisect_right(tools, moment, key=_start)
    return tools[begun - 1] if begun else None


def _may_repeat(first: Node, second: Node) -> bool:
    """The second follows soon; the first was streamed, as far as one knows, and did not ask for a
    tool.
    """
    if not -TOUCH_NS <= second.start - first.end <= AGAIN_WITHIN_NS:
        return False
    if first.step is None or first.facts.streamed is False:
        return False
    return first.step.asks_for_tools() is not True


def _is_untraced(case: Case, start: int, end: int) -> bool:
    """Between the two something ran that no span shows: it may have been a tool."""
    return any(
        piece.part == "unattributed" and start <= piece.start and piece.duration >= WORTH_NS
        for piece in case.report.path_between(start, end)
    )


def _is_sampling(case: Case, index: int) -> bool:
    calls = case.report.good_calls
    call = calls[index]
    near = calls[max(0, index - LOOK_BACK) : index + LOOK_BACK + 1]
    same = [o for o in near if o is call or _same_prompt(case, o, call) is not None]
    return len(same) >= SAMPLING


@detector("malformed_tool_arguments", step=2, needs=(Trait.SEVERAL_CALLS,))
def malformed_tool_arguments(case: Case) -> Iterator[Finding | Unknown]:
    """The model was asked again since the arguments it had written for a tool were no JSON. Unknown
    where its tools failed at once and nobody recorded what they were called with.
    """
    calls = case.report.good_calls
    next_in_run = {a: b for run in case.report.runs for a, b in itertools.pairwise(run.calls)}
    for index, first in enumerate(calls):
        second = next_in_run.get(first) or _next_after(calls, index)
        if first.step is None or second is None:
            continue
        between = _tools_between(first, second)
        if between and not all(map(_came_to_nothing, between)):
            continue
        bad = [tool for tool in between if refused_arguments(tool)]
        unparsed = [request for request in first.step.tool_requests if not request.parsed]
        if bad or unparsed or case.report.answers.asked_in_vain(first):
            change = Change(removed=frozenset((second, *between)))
            yield performance(
                case,
                "malformed_tool_arguments",
                [first, *bad, second],
                turn=first.turn,
                saving_ns=saving_ns(case.report, change),
                repeat_ns=second.duration,
                tools=sorted(
                    {r.name for r in unparsed} | {t.step.name for t in bad if t.step is not None}
                ),
            )
        elif between and all(_may_be_refused(case, tool) for tool in between):
            yield Unknown("arguments_not_recorded")


def _next_after(calls: Sequence[Node], index: int) -> Node | None:
    """The first call to begin after one of them, at this position, has ended."""
    after = bisect_left(calls, calls[index].end, index + 1, key=_start)
    return calls[after] if after < len(calls) else None


def _may_be_refused(case: Case, tool: Node) -> bool:
    """It failed as soon as arguments are checked, and says neither why nor what they were."""
    is_soon = tool.duration <= REFUSED_WITHIN_NS
    return is_soon and is_mute(tool) and arguments_of(case, tool) is None


def _tools_between(first: Node, second: Node) -> Sequence[Node]:
    """The tools of the first call's turn that started before the second call."""
    turn = first.turn
    if turn is None or not turn.tools:
        return ()
    return started_between(turn.tools, first.start, second.start)


def _came_to_nothing(tool: Node) -> bool:
    """The tool failed, in a word or in fact: it was over at once, on arguments that are no JSON."""
    return failed(tool) or refused_arguments(tool)


# --- again --------------------------------------------------------------------------------------


@detector("model_retry", step=2, needs=(Trait.CALLS,))
def model_retry(case: Case) -> Iterator[Finding]:
    """Attempts that failed (429, 5xx, timeouts) and the waits before the next one."""
    for turn in case.report.turns:
        if not turn.calls[1:]:
            continue
        pairs = itertools.pairwise(turn.calls)
        failed_calls = [call for call, following in pairs if following.attempt > call.attempt]
        if failed_calls:
            yield _visible_retry(case, failed_calls, turn.calls)
    for call in case.report.good_calls:
        if call.children or call.facts.attempts is not None:
            yield from _hidden_retry(case, call)


def _visible_retry(case: Case, failed_calls: list[Node], calls: Sequence[Node]) -> Finding:
    after = [call for call in calls if call.attempt > 0]
    change = Change(removed=frozenset(failed_calls), at_once=frozenset(after))
    failed_ns = sum(call.duration for call in failed_calls)
    return performance(
        case,
        "model_retry",
        [*failed_calls, after[-1]],
        turn=failed_calls[0].turn,
        saving_ns=saving_ns(case.report, change),
        failed=len(failed_calls),
        failed_ns=failed_ns,
        wait_ns=after[-1].start - failed_calls[0].start - failed_ns,
        errors=[call.step.error_type for call in failed_calls if call.step is not None],
    )


def _hidden_retry(case: Case, call: Node) -> Iterator[Finding]:
    """Attempts inside one span: HTTP spans below it show them, or the emitter counts them."""
    attempts = http_attempts(call)
    bad = [attempt for attempt in attempts if attempt_failed(attempt)]
    facts = call.facts
    if len(attempts) > 1 and bad and attempts[-1] is not bad[-1]:
        lost = attempts[-1].start - attempts[0].start
        yield performance(
            case,
            "model_retry",
            [call],
            turn=call.turn,
            saving_ns=saving_ns(case.report, Change(shorter={call: lost})),
            failed=len(bad),
            failed_ns=sum(attempt.duration for attempt in bad),
            wait_ns=lost - sum(a.duration for a in attempts[:-1]),
        )
    elif facts.attempts is not None and facts.attempts > 1:
        known = facts.attempt_start_ns is not None
        lost = max(0, (facts.attempt_start_ns or 0) - call.span.start_ns) if known else 0
        yield performance(
            case,
            "model_retry",
            [call],
            turn=call.turn,
            saving_ns=saving_ns(case.report, Change(shorter={call: lost})) if known else None,
            failed=facts.attempts - 1,
        )


# --- slow ---------------------------------------------------------------------------------------


@detector("queueing", step=2, needs=(Trait.QUEUES,))
def queueing(case: Case) -> Iterator[Finding | Unknown]:
    """Fine off-peak, jitter at peak: the request waited for its turn at the service, or at the
    client (T-4). Unknown where a first token is too late and nobody reports the queue.
    """
    limit = case.limit("ttft")
    for ttft, call in case.ttfts:
        queue = call.facts.queue_ns
        if queue is None:
            if limit is not None and ttft > limit:
                yield Unknown("queue_not_reported")
        elif queue > QUEUE_NS and queue > QUEUE_SHARE * ttft:
            yield performance(
                case,
                "queueing",
                [call],
                turn=call.turn,
                saving_ns=saving_ns(case.report, Change(shorter={call: queue})),
                queue_ns=queue,
                ttft_ns=ttft,
            )
    yield from _queued_at_client(case)


def _queued_at_client(case: Case) -> Iterator[Finding]:
    for node in case.report.steps:
        if (
            node.step is not None
            and node.step.kind == StepKind.QUEUE
            and not node.background
            and node.duration > QUEUE_NS
        ):
            change = Change(removed=frozenset({node}))
            yield performance(
                case,
                "queueing",
                [node],
                turn=node.turn,
                saving_ns=saving_ns(case.report, change),
                queue_ns=node.duration,
                ttft_ns=None,
            )


@detector("slow_first_token", step=2, needs=(Trait.CALLS,))
def slow_first_token(case: Case) -> Iterator[Finding | Unknown]:
    """TTFT over budget though the prompt is not long for this app."""
    limit, calls, profile = case.limit("ttft"), case.report.good_calls, case.report.profile
    usual = profile.median_input_tokens if profile is not None else None
    for ttft, call in case.ttfts if limit is not None else ():
        tokens = call.facts.tokens.uncached_input
        if limit is None or ttft <= limit:
            continue
        if usual is None or tokens is None:
            yield Unknown("no_usual_prompt")
        elif tokens < usual:
            yield performance(
                case,
                "slow_first_token",
                [call],
                turn=call.turn,
                saving_ns=saving_ns(case.report, Change(shorter={call: ttft - limit})),
                ttft_ns=ttft,
                limit_ns=limit,
                uncached_tokens=tokens,
                usual_tokens=usual,
            )
    if calls and len(case.ttfts) < KNOWN_SHARE * len(calls):
        yield Unknown("ttft_unknown")


@detector("slow_decode", step=2, needs=(Trait.TPOT_LIMIT,))
def slow_decode(case: Case) -> Iterator[Finding | Unknown]:
    """Slow text: time per output token over budget. Unknown where a call's is."""
    limit = case.limit("tpot")
    for call in case.report.good_calls if limit is not None else ():
        tpot, output = call_tpot_ns(call), call.facts.tokens.output
        if tpot is None:
            if output is None or output > 1:
                yield Unknown("tpot_unknown")
        elif limit is not None and tpot > limit and output is not None:
            excess = (tpot - limit) * (output - 1)
            yield performance(
                case,
                "slow_decode",
                [call],
                turn=call.turn,
                saving_ns=saving_ns(case.report, Change(shorter={call: excess})),
                tpot_ns=tpot,
                limit_ns=limit,
                output_tokens=output,
            )


@detector("decode_stutter", step=2, needs=(Trait.CALLS,))
def decode_stutter(case: Case) -> Iterator[Finding | Unknown]:
    """Halting text: some gaps between chunks are far longer than the usual one. Unknown where the
    sender dropped some of the chunks' events.
    """
    for call in case.report.good_calls:
        if not call.span.events[STUTTER_GAPS:] and not call.span.dropped_events:
            continue  # too few to tell
        gaps = chunk_gaps(call)
        if call.span.dropped_events and gaps:
            yield Unknown("chunks_dropped")
            continue
        if len(gaps) < STUTTER_GAPS:
            continue
        usual, p95 = int(median(gaps)), sorted(gaps)[int(0.95 * (len(gaps) - 1))]
        if usual > 0 and p95 > max(STUTTER_FACTOR * usual, STUTTER_NS):
            excess = sum(gap - usual for gap in gaps if gap > STUTTER_FACTOR * usual)
            is_late = usual >= BURST_SHARE * fmean(gaps)  # what comes in bursts may be in time
            change = Change(shorter={call: excess})
            yield performance(
                case,
                "decode_stutter",
                [call],
                turn=call.turn,
                saving_ns=saving_ns(case.report, change) if is_late else None,
                median_gap_ns=usual,
                p95_gap_ns=p95,
                gaps=len(gaps),
            )


def chunk_gaps(call: Node) -> list[int]:
    """Times between the chunks of a streamed answer, where the span has an event for each."""
    times = [e.time_ns for e in call.span.events if e.name.startswith(CHUNK_EVENTS)]
    times.sort()
    return [later - earlier for earlier, later in itertools.pairwise(times)]


@detector("oversized_model", step=2, needs=(Trait.PROFILE,))
def oversized_model(case: Case) -> Iterator[Finding | Unknown]:
    """A simple request on a large model, when a smaller one of the app answers such requests
    faster.
    """
    report, profile, calls = case.report, case.report.profile, case.report.good_calls
    if profile is None or len(calls) != 1 or len(report.turns) != 1 or report.tools:
        return
    faster = profile.faster_model(calls[0].facts.model)
    if faster is None:
        return
    name, own_ns, other_ns = faster
    tokens = calls[0].facts.tokens
    if own_ns - other_ns < FASTER_SHARE * own_ns or case.active_ns <= other_ns:
        return
    if tokens.input is None or tokens.output is None:
        yield Unknown("tokens_unknown")
    elif is_short(tokens):
        yield performance(
            case,
            "oversized_model",
            [calls[0]],
            turn=report.turns[0],
            saving_ns=min(own_ns, case.active_ns) - other_ns,
            model=calls[0].facts.model,
            other=name,
            median_ns=own_ns,
            other_median_ns=other_ns,
        )
