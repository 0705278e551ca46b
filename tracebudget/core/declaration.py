"""Declared against observed: each setting of a gateway is confirmed by traces, contradicted, or
unseen.

A contradiction needs a case that could not be, were the setting in force; a confirmation needs one
that only the setting explains. Where traces hold neither, the setting is unseen, and says why: that
no tool ran into its limit does not prove that there is one.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from tracebudget.core.declared import NOTHING_DECLARED, Declared
from tracebudget.core.gateway import MS, Gateway, Value, written
from tracebudget.core.request_facts import Address, RequestFacts, address_in
from tracebudget.core.span import Span

Document = Mapping[str, Any]

EXAMPLES = 3  # calls or tools that a reader may look at
OTHERS = 3  # other values that are named
TOUCH_NS = MS  # tools that overlap by less ran one after the other
AT_LIMIT = 0.01  # a failed call this close to the limit hit it
GRACE_NS = 50 * MS  # cancelling takes a moment: a longer call was not limited
REFUSED_WITHIN_NS = 50 * MS  # arguments are checked before the work: nobody tries those again
RELEASE = r"([-@:](v?[\d.-]+|latest))?"  # behind a model's name
CUT_SHORT = frozenset({"length", "max_tokens"})  # finish reasons


class Observation(StrEnum):
    CONFIRMED = "confirmed"
    CONTRADICTED = "contradicted"
    UNSEEN = "unseen"


CONFIRMED, CONTRADICTED, UNSEEN = Observation


@dataclass(frozen=True, slots=True)
class Example:
    """A step to look at."""

    trace_id: str
    span_id: str


@dataclass(frozen=True, slots=True)
class Observed:
    """A setting, and what the traces say of it. `why` has a sentence in `release.words`."""

    setting: str
    declared: Value
    state: Observation
    why: str
    evidence: dict[str, Any] = field(default_factory=dict)
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """A request's analysis object, and its spans where they are at hand."""

    document: Document
    spans: tuple[Span, ...] = ()


def observe(
    gateway: Gateway, requests: Iterable[Request], marks: Declared = NOTHING_DECLARED
) -> list[Observed]:
    """What the requests say of each declared setting, in the order of the file.

    `marks`: which tools are read-only; results of others are nobody's to cache.
    """
    seen = _Seen([_Read(request) for request in requests], marks)
    return [
        _observed(name, value, OBSERVERS[name](seen, value))
        for name, value in gateway.settings().items()
    ]


class Verdict(NamedTuple):
    """What an observer says of its setting."""

    state: Observation
    why: str
    evidence: dict[str, Any] = {}
    examples: Sequence[Example] = ()


def _observed(setting: str, declared: Value, verdict: Verdict) -> Observed:
    state, why, evidence, examples = verdict
    return Observed(setting, declared, state, why, evidence, tuple(examples[:EXAMPLES]))


# --- what is read of requests ---------------------------------------------------------------------


class _Read:
    """One request: its foreground calls, and its tools by turn and parent."""

    def __init__(self, request: Request) -> None:
        document = request.document
        steps: Sequence[Document] = document["steps"]
        self.trace_id = str(document["trace_id"])
        self.findings: Sequence[Document] = document["findings"]
        self.facts = RequestFacts(request.spans)
        self.calls = [s for s in steps if s["kind"] == "model_call" and s["turn"] is not None]
        self.groups = _tools_side_by_side(document)

    def example(self, step: Document) -> Example:
        return Example(self.trace_id, step["span_id"])

    def found(self, code: str) -> Iterator[Document]:
        return (finding for finding in self.findings if finding["code"] == code)


def _tools_side_by_side(document: Document) -> list[list[Document]]:
    """Tools of one turn and one parent, by start. One that waited for a person tells nothing."""
    steps, parents = document["steps"], document["step_parents"]
    waited = {parents[i] for i, step in enumerate(steps) if step["kind"] == "wait"}
    groups: dict[tuple[int, int | None], list[Document]] = {}
    for index, step in enumerate(steps):
        if step["kind"] == "tool_call" and step["turn"] is not None and index not in waited:
            groups.setdefault((step["turn"], parents[index]), []).append(step)
    return list(groups.values())


@dataclass(frozen=True, slots=True)
class _Seen:
    requests: Sequence[_Read]
    marks: Declared

    def calls(self) -> Iterator[tuple[_Read, Document]]:
        return ((request, call) for request in self.requests for call in request.calls)

    def tools(self) -> Iterator[tuple[_Read, Document]]:
        return (
            (request, tool)
            for request in self.requests
            for group in request.groups
            for tool in group
        )

    def groups(self) -> Iterator[tuple[_Read, list[Document]]]:
        return ((request, group) for request in self.requests for group in request.groups)


Observer = Callable[[_Seen, Any], Verdict]
OBSERVERS: dict[str, Observer] = {}


def observer(setting: str) -> Callable[[Observer], Observer]:
    """Register what looks for a setting."""

    def register(look: Observer) -> Observer:
        OBSERVERS[setting] = look
        return look

    return register


# --- what each call was asked with ----------------------------------------------------------------


def _by_calls(
    seen: _Seen,
    told_by: Callable[[_Read, Document], Value | None],
    *,
    is_same: Callable[[Any], bool],
) -> Verdict:
    """A setting that each call may tell: all that tell must tell the same."""
    told: list[tuple[Value, Example]] = []
    calls = 0
    for request, call in seen.calls():
        calls += 1
        value = told_by(request, call)
        if value is not None:
            told.append((value, request.example(call)))
    others = [(value, example) for value, example in told if not is_same(value)]
    evidence: dict[str, Any] = {"calls": calls, "told": len(told), "others": len(others)}
    if others:
        common = Counter(written(value) for value, _ in others).most_common(OTHERS)
        evidence["other_values"] = [value for value, _ in common]
        return Verdict(CONTRADICTED, "call_differs", evidence, [e for _, e in others])
    if told:
        return Verdict(CONFIRMED, "calls_agree", evidence, [e for _, e in told])
    return Verdict(UNSEEN, "calls_do_not_tell", evidence)


def _equal(declared: Value) -> Callable[[Any], bool]:
    return lambda value: bool(value == declared)


@observer("endpoint")
def _endpoint(seen: _Seen, declared: str) -> Verdict:
    """Host and port; paths are not in spans."""
    wanted = address_in(declared)

    def told(request: _Read, call: Document) -> str | None:
        address = request.facts.address(call["span_id"])
        return None if address is None else _host_and_port(address)

    def is_same(written: str) -> bool:
        host, _, port = written.partition(" ")
        return wanted is not None and host == wanted[0] and port in {"", str(wanted[1])}

    return _by_calls(seen, told, is_same=is_same)


def _host_and_port(address: Address) -> str:
    host, port = address
    return host if port is None else f"{host} {port}"


@observer("model")
def _model(seen: _Seen, declared: str) -> Verdict:
    """The model, or a dated release of it (`gpt-5` answers as `gpt-5-2026-03-01`)."""
    releases = re.compile(re.escape(declared) + RELEASE)

    def is_same(model: str) -> bool:
        return releases.fullmatch(model) is not None

    return _by_calls(seen, lambda _, call: call["model"], is_same=is_same)


@observer("temperature")
def _temperature(seen: _Seen, declared: float) -> Verdict:
    def told(request: _Read, call: Document) -> float | None:
        return request.facts.temperature(call["span_id"])

    return _by_calls(seen, told, is_same=_equal(declared))


@observer("max_tokens")
def _max_tokens(seen: _Seen, declared: int) -> Verdict:
    """As asked; else an answer that is longer, or one that was cut exactly there."""

    def told(request: _Read, call: Document) -> int | None:
        asked, output = request.facts.max_tokens(call["span_id"]), call["output_tokens"]
        if asked is not None or output is None:
            return asked
        is_cut = call["finish_reason"] in CUT_SHORT and output == declared
        return int(output) if is_cut or output > declared else None

    return _by_calls(seen, told, is_same=_equal(declared))


@observer("stream")
def _stream(seen: _Seen, declared: bool) -> Verdict:
    return _by_calls(seen, lambda _, call: call["streamed"], is_same=_equal(declared))


# --- how tools ran --------------------------------------------------------------------------------


@observer("parallel")
def _parallel(seen: _Seen, declared: bool) -> Verdict:
    together = [r.example(g[0]) for r, g in seen.groups() if most_at_once(g) > 1]
    in_a_row = [
        Example(request.trace_id, finding["span_ids"][0])
        for request in seen.requests
        for finding in request.found("serial_tools")
    ]
    evidence = {"together": len(together), "in_a_row": len(in_a_row)}
    against, in_favour = (in_a_row, together) if declared else (together, in_a_row)
    if against:
        why = "tools_in_a_row" if declared else "tools_together"
        return Verdict(CONTRADICTED, why, evidence, against)
    if in_favour:
        why = "tools_together" if declared else "tools_in_a_row"
        return Verdict(CONFIRMED, why, evidence, in_favour)
    return Verdict(UNSEEN, "no_several_tools", evidence)


def most_at_once(tools: Sequence[Document]) -> int:
    """How many of the tools ran at one time."""
    moments = [(tool["start_ns"], 1) for tool in tools]
    moments += [
        (max(tool["start_ns"], tool["start_ns"] + tool["duration_ns"] - TOUCH_NS), -1)
        for tool in tools
    ]
    changes = (change for _, change in sorted(moments))  # at one moment ends come first
    return max(itertools.accumulate(changes), default=0)


@observer("max_parallel")
def _max_parallel(seen: _Seen, declared: int) -> Verdict:
    at_once = [(most_at_once(group), len(group), r, group) for r, group in seen.groups()]
    most = max((count for count, *_ in at_once), default=0)
    more = [(r, g) for count, _, r, g in at_once if count > declared]
    full = [(r, g) for count, size, r, g in at_once if count == declared < size]
    evidence = {"most": most, "limit": declared, "turns": len(more) or len(full)}
    if more:
        shown = [r.example(g[0]) for r, g in more]
        return Verdict(CONTRADICTED, "more_at_once", evidence, shown)
    if full:
        shown = [r.example(g[0]) for r, g in full]
        return Verdict(CONFIRMED, "waited_for_a_place", evidence, shown)
    return Verdict(UNSEEN, "never_so_many", evidence)


@observer("timeout_ms")
def _timeout(seen: _Seen, declared: int) -> Verdict:
    limit = declared * MS
    tools = list(seen.tools())
    longest = max((tool["duration_ns"] for _, tool in tools), default=0)
    longer = [(r, t) for r, t in tools if t["duration_ns"] > limit * (1 + AT_LIMIT) + GRACE_NS]
    ended = [(r, t) for r, t in tools if t["status"] == "error" and _is_at(t, limit)]
    evidence: dict[str, Any] = {"longest_ns": longest, "limit_ns": limit}
    if longer:
        evidence |= {"longer": len(longer), "tools": _names(longer)}
        shown = [r.example(t) for r, t in longer]
        return Verdict(CONTRADICTED, "ran_longer", evidence, shown)
    if ended:
        evidence |= {"ended": len(ended), "tools": _names(ended)}
        shown = [r.example(t) for r, t in ended]
        return Verdict(CONFIRMED, "ended_at_limit", evidence, shown)
    return Verdict(UNSEEN, "never_so_long" if tools else "no_tools", evidence)


def _is_at(tool: Document, limit: int) -> bool:
    slack = max(AT_LIMIT * limit, GRACE_NS)
    return bool(abs(tool["duration_ns"] - limit) <= slack)


def _names(tools: Iterable[tuple[_Read, Document]]) -> list[str]:
    return sorted({str(tool["name"]) for _, tool in tools})[:OTHERS]


@observer("retry")
def _retry(seen: _Seen, declared: int) -> Verdict:
    """How often a failed tool was called again within its turn: later calls are the model's."""
    chains = [(r, chain) for r, group in seen.groups() for chain in tries(group)]
    failed = [(r, chain) for r, chain in chains if _worth_a_retry(chain[0])]
    again = [(r, chain) for r, chain in failed if chain[1:]]
    more = [(r, chain) for r, chain in again if len(chain) > 1 + declared]
    most = max((len(chain) - 1 for _, chain in failed), default=0)
    evidence = {"failed": len(failed), "again": len(again), "most": most, "limit": declared}
    if more:
        return Verdict(CONTRADICTED, "tried_more", evidence, _firsts(more))
    if failed and declared and not again:
        return Verdict(CONTRADICTED, "never_tried_again", evidence, _firsts(failed))
    if failed:
        why = "tried_again" if declared else "not_tried_again"
        return Verdict(CONFIRMED, why, evidence, _firsts(again or failed))
    return Verdict(UNSEEN, "no_failed_tools")


def _firsts(chains: Iterable[tuple[_Read, list[Document]]]) -> list[Example]:
    return [request.example(chain[0]) for request, chain in chains]


def _worth_a_retry(tool: Document) -> bool:
    return bool(tool["status"] == "error" and tool["duration_ns"] > REFUSED_WITHIN_NS)


def tries(tools: Sequence[Document]) -> list[list[Document]]:
    """Each call of a turn's tools with the tries that followed it because it had failed."""
    chains: list[list[Document]] = []
    for tool in sorted(tools, key=lambda tool: (tool["start_ns"], tool["span_id"])):
        before = next((c for c in reversed(chains) if _follows(tool, c[-1])), None)
        if before is not None:
            before.append(tool)
        else:
            chains.append([tool])
    return chains


def _follows(tool: Document, failed: Document) -> bool:
    ids = [step["call_id"] for step in (tool, failed) if step["call_id"] is not None]
    end: int = failed["start_ns"] + failed["duration_ns"]
    is_same: bool = failed["name"] == tool["name"] and len(set(ids)) <= 1
    has_failed: bool = failed["status"] == "error"
    return is_same and has_failed and bool(end <= tool["start_ns"] + TOUCH_NS)


# --- what is cached -------------------------------------------------------------------------------


@observer("tool_result_ttl_seconds")
def _result_ttl(seen: _Seen, declared: int) -> Verdict:
    """A result that comes from a cache leaves no call, so this can be contradicted, not confirmed.
    The repeats are those within the declared time: the analysis knows it.
    """
    repeats = [(r, f) for r in seen.requests for f in r.found("repeated_tool_call")]
    read_only = [(r, f) for r, f in repeats if f["evidence"]["tool"] in seen.marks.read_only]
    evidence = {
        "repeats": sum(f["evidence"]["repeats"] for _, f in read_only or repeats),
        "tools": sorted({f["evidence"]["tool"] for _, f in read_only or repeats})[:OTHERS],
    }
    if read_only and declared:
        shown = [Example(r.trace_id, f["span_ids"][1]) for r, f in read_only]
        return Verdict(CONTRADICTED, "asked_anew", evidence, shown)
    if repeats and declared:
        return Verdict(UNSEEN, "repeats_unmarked", evidence)
    return Verdict(UNSEEN, "no_repeats")


@observer("prefix_cache")
def _prefix_cache(seen: _Seen, declared: bool) -> Verdict:
    """A cache may miss now and then: the larger number decides."""
    hits = [r.example(call) for r, call in seen.calls() if call["cached_input_tokens"]]
    misses = [
        Example(request.trace_id, span_id)
        for request in seen.requests
        for finding in request.found("prefix_cache_unused")
        for span_id in finding["span_ids"]
    ]
    evidence = {"hits": len(hits), "misses": len(misses)}
    if not hits and not misses:
        return Verdict(UNSEEN, "no_cached_tokens_told")
    is_used = len(hits) >= len(misses)
    why = "prefix_reused" if is_used else "prefix_not_reused"
    shown = hits if is_used else misses
    state = CONFIRMED if is_used == declared else CONTRADICTED
    return Verdict(state, why, evidence, shown)
