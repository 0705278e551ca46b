"""Step 3 of the investigation: tools that wait for each other, come twice, fail or time out."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from tracebudget.core.content.answer import ToolRequest
from tracebudget.core.content.tool import ARGUMENTS, TIMEOUT
from tracebudget.core.finding import Case, Finding, Trait, Unknown, detector, performance
from tracebudget.core.replay import Change, saving_ns
from tracebudget.core.run import Turn
from tracebudget.core.tree import Node

MS = 1_000_000
SECOND = 1_000 * MS

TOUCH_NS = MS  # tools that overlap by less ran one after the other
WORTH_NS = MS  # a wave that would end sooner by less is no finding
DEFAULT_TTL_NS = (
    60 * SECOND
)  # the source's tool_result_ttl_seconds: a result older than this is asked for anew
WORTH_REPEAT_NS = 5 * MS  # a look-up in a cache takes about as long
AT_LIMIT = 0.01  # a failed call this close to the declared limit hit it

REFUSED_WITHIN_NS = 50 * MS  # arguments are checked before the work: a later error is the work's

# Names of error types.
SAYS_NOTHING = re.compile(r"|_?other|unknown|(tool)?[ _]?(error|exception|failed)", re.IGNORECASE)
TIMED_OUT = re.compile(r"time.?out|timed.?out|deadline", re.IGNORECASE)
BAD_ARGUMENTS = re.compile(
    r"json|decode|validation|schema|pars(e|ing)|tool.?input|invalid.?arg", re.IGNORECASE
)


def tool_ns(tools: Iterable[Node]) -> int:
    return sum(tool.duration for tool in tools)


def name_of(tool: Node) -> str:
    return tool.step.name if tool.step is not None else ""


def failed(tool: Node) -> bool:
    return tool.step is not None and tool.step.is_error


def same_arguments(case: Case, one: Node, two: Node) -> bool | None:
    """Equal, different, or unknown (None)."""
    a, b = arguments_of(case, one), arguments_of(case, two)
    return None if a is None or b is None else a == b


def arguments_of(case: Case, tool: Node) -> str | None:
    """The fingerprint of a tool's arguments: from its own span, else from the answer that asked for
    it.
    """
    own = tool.step.arguments if tool.step is not None else None
    if own is not None:
        return own[0]
    request = request_of(case, tool)
    return request.arguments if request is not None else None


def request_of(case: Case, tool: Node) -> ToolRequest | None:
    """What an answer of the tool's turn said of it: by call id, else as the only one of its
    name.
    """
    turn = tool.turn
    if turn is None or tool.step is None:
        return None
    asked = case.asked_in(turn)
    if tool.step.call_id is not None:
        return asked.by_id.get(tool.step.call_id)
    return asked.by_name.get(tool.step.name)


@detector("serial_tools", step=3, needs=(Trait.TOOLS,))
def serial_tools(case: Case) -> Iterator[Finding | Unknown]:
    """Tools of one answer ran one after another. Saves the wave less its longest, within the
    declared parallelism. Unknown where tools were asked for that no span shows.
    """
    if any(note.code == "tools_not_traced" for note in case.report.notes):
        yield Unknown("tools_not_traced")
    for turn in case.report.turns:
        wave = _wave(turn, case) if _some_wait(turn.tools) else []
        if not wave[1:] or not _one_after_another(wave):
            continue
        change = Change(together=(tuple(wave),), max_parallel=case.declared.max_parallel)
        saving = saving_ns(case.report, change)
        if saving >= WORTH_NS:
            yield performance(
                case,
                "serial_tools",
                wave,
                turn=turn,
                saving_ns=saving,
                calls=len(wave),
                sum_ns=tool_ns(wave),
                longest_ns=max(tool.duration for tool in wave),
                tools=[name_of(tool) for tool in wave],
            )


def _some_wait(tools: Sequence[Node]) -> bool:
    """Some tool began after another one had ended."""
    if not tools[1:]:
        return False
    return min([tool.end for tool in tools]) <= tools[-1].start + TOUCH_NS


def _wave(turn: Turn, case: Case) -> list[Node]:
    """The tools that the turn's one answer asked for, each at its first try, started after it; none
    marked dependent.
    """
    answers = [call for call in turn.calls if call.step is not None and not call.step.is_error]
    if len(answers) != 1 or answers[0].step is None:
        return []
    asked = {request.call_id for request in answers[0].step.tool_requests if request.call_id}
    wave: list[Node] = []
    for tool in turn.tools:
        step = tool.step
        if step is None or (asked and step.call_id is not None and step.call_id not in asked):
            continue
        if (
            wave
            and failed(wave[-1])
            and name_of(wave[-1]) == step.name
            and same_arguments(case, wave[-1], tool) is not False
        ):
            continue
        wave.append(tool)
    dependent = any(name_of(tool) in case.declared.dependent for tool in wave)
    early = any(tool.start < answers[0].end - TOUCH_NS for tool in wave)
    siblings = all(tool.parent is wave[0].parent for tool in wave)
    return [] if dependent or early or not siblings else wave


def _one_after_another(wave: Sequence[Node]) -> bool:
    return all(a.end <= b.start + TOUCH_NS for a, b in itertools.pairwise(wave))


@detector("repeated_tool_call", step=3, needs=(Trait.SEVERAL_TOOLS,))
def repeated_tool_call(case: Case) -> Iterator[Finding | Unknown]:
    """The same tool with the same arguments again, soon after it succeeded: its result was not
    kept.

    Advice only for tools marked read-only; for others it is a question.
    """
    declared = case.declared.result_ttl_ns
    ttl = DEFAULT_TTL_NS if declared is None else declared
    groups, unknown = _by_arguments(case)
    for tools in sorted(groups, key=lambda group: group[0].order()):
        name, repeats = name_of(tools[0]), _repeats(tools, ttl)
        if tool_ns(repeats) >= WORTH_REPEAT_NS:
            change = Change(removed=frozenset(repeats))
            yield performance(
                case,
                "repeated_tool_call",
                [tools[0], *repeats],
                turn=repeats[0].turn,
                saving_ns=saving_ns(case.report, change),
                tool=name,
                calls=len(tools),
                repeats=len(repeats),
                sum_ns=tool_ns(repeats),
                read_only=name in case.declared.read_only,
            )
    if unknown:
        yield Unknown("arguments_not_recorded")


def _by_arguments(case: Case) -> tuple[list[list[Node]], bool]:
    """The calls of one tool with equal arguments, and whether some tool's are not recorded."""
    by_name: defaultdict[str, list[Node]] = defaultdict(list)
    for tool in case.report.tools:
        if not tool.background:
            by_name[name_of(tool)].append(tool)
    groups: defaultdict[tuple[str, str], list[Node]] = defaultdict(list)
    unknown = False
    for name, mine in by_name.items():
        for tool in mine if mine[1:] else ():
            arguments = arguments_of(case, tool)
            unknown |= arguments is None
            if arguments is not None:
                groups[name, arguments].append(tool)
    return list(groups.values()), unknown


def _repeats(tools: Sequence[Node], ttl_ns: int) -> list[Node]:
    """Calls that an earlier, successful one could have answered. What answered otherwise this time,
    as a job that is asked whether it is done, had to be asked anew.
    """
    repeats: list[Node] = []
    answer: Node | None = None
    for tool in tools:
        is_soon = answer is not None and answer.end <= tool.start <= answer.end + ttl_ns
        if answer is not None and is_soon and not _answered_otherwise(answer, tool):
            repeats.append(tool)
        elif not failed(tool):
            answer = tool
    return repeats


def _answered_otherwise(one: Node, two: Node) -> bool:
    """Both succeeded, with results whose lengths are known and differ."""
    first, second = _result_chars(one), _result_chars(two)
    return first is not None and second is not None and first != second


def _result_chars(tool: Node) -> int | None:
    content = tool.step.content if tool.step is not None else None
    result = content.result if content is not None and not failed(tool) else None
    return result[0] if result is not None else None


@detector("tool_timeout", step=3, needs=(Trait.FAILURES,))
def tool_timeout(case: Case) -> Iterator[Finding | Unknown]:
    """A tool ran into its limit: the error says so, or the failed call lasted exactly as long as
    declared. Unknown where it failed without a word, and no limit is declared.
    """
    limit = case.declared.tool_timeout_ns
    for tool in case.report.tools:
        if tool.background or not failed(tool):
            continue
        if not _hit_limit(tool, limit):
            if limit is None and is_mute(tool) and tool.duration > REFUSED_WITHIN_NS:
                yield Unknown("tool_error_not_recorded")
        else:
            yield performance(
                case,
                "tool_timeout",
                [tool],
                turn=tool.turn,
                saving_ns=saving_ns(case.report, Change(removed=frozenset({tool}))),
                tool=name_of(tool),
                duration_ns=tool.duration,
                limit_ns=limit,
            )


def is_mute(tool: Node) -> bool:
    """It failed, and its span says nothing of why."""
    step = tool.step
    return (
        step is not None
        and step.complaint is None
        and SAYS_NOTHING.fullmatch(step.error_type or "") is not None
    )


def _hit_limit(tool: Node, limit_ns: int | None) -> bool:
    step = tool.step
    says_so = step is not None and (
        TIMED_OUT.search(step.error_type or "") is not None or step.complaint == TIMEOUT
    )
    return says_so or (
        limit_ns is not None and abs(tool.duration - limit_ns) <= AT_LIMIT * limit_ns
    )


@detector("tool_retry", step=3, needs=(Trait.FAILURES, Trait.SEVERAL_TOOLS))
def tool_retry(case: Case) -> Iterator[Finding]:
    """A tool failed and was called again with equal, or unknown, arguments. What timed out is
    reported as that.
    """
    waiting: dict[str, Node] = {}  # the last failed call of each tool
    for tool in case.report.tools:
        if tool.background:
            continue
        before = waiting.pop(name_of(tool), None)
        if (
            before is not None
            and before.end <= tool.start + TOUCH_NS
            and same_arguments(case, before, tool) is not False
        ):
            yield _retry(case, before, tool)
        if (
            failed(tool)
            and not _hit_limit(tool, case.declared.tool_timeout_ns)
            and not refused_arguments(tool)
        ):
            waiting[name_of(tool)] = tool


def refused_arguments(tool: Node) -> bool:
    """The tool failed because of what the model had written, not by itself."""
    step = tool.step
    if step is None:
        return False
    at_once = tool.duration <= REFUSED_WITHIN_NS
    if step.arguments_refused or not (step.is_error or at_once):
        return step.arguments_refused
    if step.arguments is not None and step.arguments[1] is False:
        return True
    if not step.is_error or not at_once:
        return False
    return bool(BAD_ARGUMENTS.search(step.error_type or "")) or step.complaint == ARGUMENTS


def _retry(case: Case, before: Node, tool: Node) -> Finding:
    same_turn = before.turn is tool.turn
    change = Change(
        removed=frozenset({before}), at_once=frozenset({tool}) if same_turn else frozenset()
    )
    return performance(
        case,
        "tool_retry",
        [before, tool],
        turn=before.turn,
        saving_ns=saving_ns(case.report, change),
        tool=name_of(tool),
        failed_ns=before.duration,
        recovered=not failed(tool),
    )
