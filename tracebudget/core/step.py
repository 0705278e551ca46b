"""A step: a span after its dialect was read, in the core's own words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any

from tracebudget.core.content import Content
from tracebudget.core.content.answer import ToolRequest
from tracebudget.core.dialects import Reading, common
from tracebudget.core.dialects.facts import Child, Fact, SpanFacts
from tracebudget.core.record import plain_members, record
from tracebudget.core.span import STATUS_ERROR, Span
from tracebudget.core.tokens import Tokens, count, read_tokens
from tracebudget.core.ttft import TtftClaim, claims, nanoseconds


@plain_members
class StepKind(StrEnum):
    """What a span is to the agent (semantics, "Words")."""

    MODEL_CALL = "model_call"
    SERVER_CALL = "server_call"
    TOOL_CALL = "tool_call"
    TOOL_SERVER = "tool_server"
    AGENT = "agent"
    WORKFLOW = "workflow"
    RETRIEVAL = "retrieval"
    EMBEDDING = "embedding"
    GUARDRAIL = "guardrail"
    WAIT = "wait"
    QUEUE = "queue"


# Steps that take part in the walk with their own interval: something was being waited for, whatever
# lies below.
WORK = frozenset(
    {
        StepKind.MODEL_CALL,
        StepKind.TOOL_CALL,
        StepKind.RETRIEVAL,
        StepKind.EMBEDDING,
        StepKind.WAIT,
        StepKind.QUEUE,
    }
)

HTTP_STATUS = re.compile(r"[1-5]\d\d")
HTTP_ERROR = 400  # and above: the client's or the server's fault

MODEL_KINDS = frozenset({StepKind.MODEL_CALL, StepKind.SERVER_CALL})
TOOLS = frozenset({StepKind.TOOL_CALL, StepKind.TOOL_SERVER})
ACTORS = frozenset({StepKind.AGENT, StepKind.WORKFLOW})  # call models and tools
KIND_OF_ROLE: dict[str | None, StepKind] = {kind.value: kind for kind in StepKind}

# Steps with a name of their own: the fact that tells it, and what surrounds it in a span's name.
NAMED = {
    StepKind.TOOL_CALL: ("tool_name", "execute_tool ", ".tool"),
    StepKind.TOOL_SERVER: ("tool_name", "execute_tool ", ".tool"),
    StepKind.AGENT: ("agent_name", "invoke_agent ", ".agent"),
}

FAILED = frozenset({"error", "error_type", "tool_error"})  # facts that only failures have
OF_FAILURE = FAILED | {"success"}
# What few emitters say of a model call: asked for where one of them is told at all.
RARELY_TOLD = frozenset(
    {
        "attempt_start",
        "last_token",
        "ends_early",
        "ends_after_tools",
        "holds_rounds",
        "is_record",
        "queue_time",
        "prefill_time",
        "decode_time",
        "tpot",
        "attempt",
        "resends",
    }
)

ASKING = frozenset(
    {"tool_calls", "tool_call", "tool-calls", "tool_use", "function_call", "tool_use_required"}
)
# Asked for a tool, in a form that does not parse (Gemini, Vertex): the answer was thrown away.
MALFORMED = frozenset({"malformed_function_call", "malformed_tool_call", "unexpected_tool_call"})
ENDING = frozenset(
    {"stop", "end_turn", "length", "max_tokens", "stop_sequence", "completed", "content_filter"}
)


@record
class ModelFacts:
    """What a span says about a model call. Durations in ns; None where it says nothing."""

    model: str | None
    provider: str | None
    streamed: bool | None
    tokens: Tokens
    ttft_claims: tuple[TtftClaim, ...]
    response_id: str | None
    finish_reason: str | None
    attempt_start_ns: int | None = None  # Unix time of the last attempt inside this span
    last_token_ns: int | None = None  # Unix time of the last token, where the emitter states it
    ends_early: bool = False  # the emitter ends a stream's span when the stream begins
    ends_after_tools: bool = False  # it ends a call's span after the tools that it asked for
    is_record: bool = False  # it only tells what the call around it cost
    holds_rounds: bool = False  # its span holds all calls of an agent's rounds, and shows none
    queue_ns: int | None = None
    prefill_ns: int | None = None
    decode_ns: int | None = None
    tpot_ns: int | None = None  # as reported; the core computes its own
    attempts: int | None = None  # how many the emitter counts inside this span

    @property
    def has_usage(self) -> bool:
        return self.tokens.input is not None or self.tokens.output is not None


@record
class Step:
    """One typed span. `name` is what a reader would call it; `model` is there for model and server
    calls only.
    """

    kind: StepKind
    name: str
    dialect: str
    is_error: bool = False
    error_type: str | None = None
    http_status: int | None = None
    content: Content | None = None
    model: ModelFacts | None = None
    is_named: bool = True  # a tool's span says which tool it is
    call_id: str | None = None
    # The framework says that the model's arguments did not validate.
    arguments_refused: bool = False

    def asks_for_tools(self) -> bool | None:
        """The answer asked for tools: True, False, or None where nothing tells."""
        reason = self.model.finish_reason if self.model is not None else None
        if reason in ASKING or reason in MALFORMED:
            return True
        requests = self.content.tool_requests if self.content is not None else None
        if requests is not None:  # Gemini says STOP when it asks for tools, too
            return bool(requests)
        return False if reason in ENDING and self.provider_is_plain else None

    def asks_in_vain(self) -> bool:
        """The answer asked for tools, and for none of them in a form that parses."""
        if self.model is not None and self.model.finish_reason in MALFORMED:
            return True
        requests = self.tool_requests
        return bool(requests) and not any(request.parsed for request in requests)

    @property
    def provider_is_plain(self) -> bool:
        """The provider's finish reason tells an answer from a request for tools."""
        provider = self.model.provider if self.model is not None else None
        return provider is None or not provider.startswith("gcp.")

    @property
    def tool_requests(self) -> tuple[ToolRequest, ...]:
        """The tools that the answer asked for, as far as its content tells."""
        return (self.content.tool_requests if self.content is not None else None) or ()

    @property
    def prompt(self) -> tuple[str, ...] | None:
        """Fingerprints of the prompt's growing prefixes; the last one is the whole."""
        return self.content.prompt if self.content is not None else None

    @property
    def complaint(self) -> str | None:
        """What a failed tool's error text blames: "timeout", "arguments" or "other"."""
        return self.content.complaint if self.is_error and self.content is not None else None

    @property
    def arguments(self) -> tuple[str, bool | None] | None:
        """A tool's arguments: fingerprint, and whether they were JSON."""
        return self.content.arguments if self.content is not None else None


def read_step(
    span: Span,
    reading: Reading,
    ancestors: Sequence[Span] = (),
    children: Sequence[Child] = (),
) -> Step | None:
    """The step that a span is, or None for a plain one. `ancestors`, nearest first, and `children`
    lend facts that stand on them.
    """
    role, dialect, present = reading
    kind = KIND_OF_ROLE.get(role)
    if kind is None or dialect is None:
        return None
    facts = SpanFacts(span, dialect, present)
    if children:
        facts.learn(children)
    status = _status(facts.values["http_status"]) if "http_status" in facts.values else None
    failed = span.status == STATUS_ERROR or (status is not None and status >= HTTP_ERROR)
    if kind is StepKind.TOOL_CALL:
        return _tool_call(facts, status, failed=failed)
    if kind in MODEL_KINDS:
        return _model_call(facts, kind, status, failed=failed, ancestors=ancestors)
    name = _own_name(facts, kind) if kind in NAMED else span.name
    failed = failed or (kind is StepKind.TOOL_SERVER and _tells_failure(facts))
    return Step(
        kind, name, dialect.id, failed, _error_type(facts, status) if failed else None, status
    )


def _model_call(
    facts: SpanFacts, kind: StepKind, status: int | None, *, failed: bool, ancestors: Sequence[Span]
) -> Step:
    """The step of a model call, or of the server's view of one."""
    failed = failed or _tells_failure(facts)
    error = _error_type(facts, status) if failed else None
    content = Content(facts, kind) if kind is StepKind.MODEL_CALL else None
    model = read_model(facts, ancestors)
    return Step(kind, facts.span.name, facts.dialect.id, failed, error, status, content, model)


def _tool_call(facts: SpanFacts, status: int | None, *, failed: bool) -> Step:
    """A tool's step. Its result may report the failure, too."""
    kind, dialect, values = StepKind.TOOL_CALL, facts.dialect.id, facts.values
    name, content = _own_name(facts, kind), Content(facts, kind)
    call_id, refused = facts.text("tool_call_id"), "tool_args_invalid" in values
    if not failed:
        failed = _tells_failure(facts) or (content.result is not None and content.result[1])
    error = _error_type(facts, status) if failed else None
    is_named = "tool_name" in values or name != facts.span.name
    # By position, as above: naming the arguments of a class costs 0.2 us.
    return Step(
        kind, name, dialect, failed, error, status, content, None, is_named, call_id, refused
    )


def as_call(reading: Reading) -> Reading:
    """The reading of a record that stands for a model call."""
    return reading._replace(role=StepKind.MODEL_CALL.value)


def read_model(facts: SpanFacts, ancestors: Sequence[Span] = ()) -> ModelFacts:
    """The facts of a model or server call."""
    ttft_claims = claims(facts) if "ttft" in facts.values else ()
    told = ModelFacts(
        _model_name(facts, ancestors),
        _provider(facts),
        _streamed(facts, ttft_claims),
        read_tokens(facts),
        ttft_claims,
        facts.text("response_id"),
        _finish_reason(facts),
    )
    return told if RARELY_TOLD.isdisjoint(facts.values) else _with_rarely_told(told, facts)


def _with_rarely_told(told: ModelFacts, facts: SpanFacts) -> ModelFacts:
    return replace(
        told,
        attempt_start_ns=_moment(facts, "attempt_start"),
        last_token_ns=_moment(facts, "last_token"),
        ends_early=bool(facts.values.get("ends_early")),
        ends_after_tools=bool(facts.values.get("ends_after_tools")),
        holds_rounds=bool(facts.values.get("holds_rounds")),
        is_record=bool(facts.values.get("is_record")),
        queue_ns=duration_ns(facts, "queue_time"),
        prefill_ns=duration_ns(facts, "prefill_time"),
        decode_ns=duration_ns(facts, "decode_time"),
        tpot_ns=duration_ns(facts, "tpot"),
        attempts=_attempts(facts),
    )


def _own_name(facts: SpanFacts, kind: StepKind) -> str:
    """A tool's or an agent's name: as a fact, or as in `execute_tool NAME`; else the span's."""
    fact, prefix, suffix = NAMED[kind]
    name = facts.text(fact)
    if name is None:
        name = facts.span.name.removeprefix(prefix).removesuffix(suffix) or facts.span.name
    return name


def duration_ns(facts: SpanFacts, fact: str) -> int | None:
    """A fact that is a length of time, in ns."""
    value = facts.values.get(fact)
    return None if value is None else nanoseconds(value, facts.source(fact).unit)


def _moment(facts: SpanFacts, name: str) -> int | None:
    """Unix ns of an event."""
    value = facts.values.get(name)
    return value if isinstance(value, int) else None


def _attempts(facts: SpanFacts) -> int | None:
    """Attempts inside the span: the number of the one that ended it, or resends and the first."""
    number, resends = count(facts.values.get("attempt")), count(facts.values.get("resends"))
    return number if number is not None or resends is None else resends + 1


def _model_name(facts: SpanFacts, ancestors: Sequence[Span]) -> str | None:
    name = facts.text("model_request") or facts.text("model_response")
    if name is None and ancestors:
        above = model_above(facts, ancestors)
        return above.value if above is not None else None
    return name


def model_above(facts: SpanFacts, ancestors: Sequence[Span]) -> Fact | None:
    """The model's name where its dialect writes it on a span further up."""
    for candidate in facts.dialect.candidates("model_request"):
        for ancestor in ancestors if candidate.from_ancestor else ():
            name = ancestor.attributes.get(candidate.key)
            if ancestor.name == candidate.from_ancestor and isinstance(name, str):
                return Fact(name, candidate)
    return None


def _provider(facts: SpanFacts) -> str | None:
    if "provider" not in facts.values:
        return None
    told = facts.values["provider"]
    name = common.provider_name(told) if type(told) is str else None
    if name is not None:
        return name
    others = (told for told in facts.others("provider") if type(told) is str)
    return next(filter(None, map(common.provider_name, others)), None)


def _streamed(facts: SpanFacts, ttft_claims: Sequence[TtftClaim]) -> bool | None:
    """The stream flag, under the emitter's own habits; where there is none, a claim of a first
    chunk, or a span that ends when the stream begins, says streamed.
    """
    scope, rules, values = facts.span.scope, facts.dialect.stream_flag, facts.values
    flag = as_bool(values["streaming"]) if "streaming" in values else None
    if flag is not None:
        return None if not flag and scope in rules.false_means_unknown else flag
    if scope in rules.absent_means_false and (
        not rules.carrier or rules.carrier in facts.span.attributes
    ):
        return False
    if values.get("ends_early") or [c for c in ttft_claims if c.proves_stream]:
        return True
    return None


def as_bool(value: Any) -> bool | None:
    """Booleans come as such, or as text from Micrometer."""
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    return value if isinstance(value, bool) else None


def _finish_reason(facts: SpanFacts) -> str | None:
    """The first reason, in lower case: a list, a JSON list in a string, or a word."""
    value = facts.values.get("finish_reason")
    if type(value) is list:
        value = value[0] if value else None
    elif type(value) is str and value[:1] == "[":
        value = value.strip('[]" ').split('"')[0]
    return value.lower() if type(value) is str and value else None


def span_http_status(span: Span) -> int | None:
    """The HTTP status that a span carries under the old or the new key."""
    for place in common.HTTP_STATUS:
        if place.key in span.attributes:
            return _status(span.attributes[place.key])
    return None


def _status(value: Any) -> int | None:
    return int(value) if HTTP_STATUS.fullmatch(str(value)) else None


def _tells_failure(facts: SpanFacts) -> bool:
    values = facts.values
    if OF_FAILURE.isdisjoint(values):
        return False
    if any(values.get(name) for name in FAILED):
        return True
    return "success" in values and as_bool(values["success"]) is False


def _error_type(facts: SpanFacts, status: int | None) -> str | None:
    named = facts.text("error_type")
    if named:
        return named
    for event in reversed(facts.span.events):
        value: Mapping[str, Any] = event.attributes
        if event.name == "exception" and isinstance(value.get("exception.type"), str):
            return str(value["exception.type"])
    return str(status) if status is not None and status >= HTTP_ERROR else None
