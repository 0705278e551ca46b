"""A step: a span after its dialect was read, in the core's own words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tracebudget.core.content import NOTHING, Content, content_of, find_fact
from tracebudget.core.dialects import Reading, common
from tracebudget.core.dialects.table import Dialect
from tracebudget.core.span import STATUS_ERROR, Span
from tracebudget.core.tokens import Tokens, count, read_tokens
from tracebudget.core.ttft import TtftClaim, claims, nanoseconds


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

KIND_OF_ROLE = {kind.value: kind for kind in StepKind}

ASKING = frozenset(
    {"tool_calls", "tool_call", "tool-calls", "tool_use", "function_call", "tool_use_required"}
)
ENDING = frozenset(
    {"stop", "end_turn", "length", "max_tokens", "stop_sequence", "completed", "content_filter"}
)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a span says about a model call. Durations in ns; None where it says nothing."""

    model: str | None
    provider: str | None
    streamed: bool | None
    tokens: Tokens
    ttft_claims: tuple[TtftClaim, ...]
    attempt_start_ns: int | None  # Unix time of the last attempt inside this span
    queue_ns: int | None
    prefill_ns: int | None
    decode_ns: int | None
    tpot_ns: int | None  # as reported; the core computes its own
    response_id: str | None
    finish_reason: str | None
    attempts: int | None = None  # how many the emitter counts inside this span

    @property
    def has_usage(self) -> bool:
        return self.tokens.input is not None or self.tokens.output is not None


@dataclass(frozen=True, slots=True)
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
    call_id: str | None = None
    content: Content = NOTHING
    model: ModelFacts | None = None
    arguments_refused: bool = (
        False  # the framework says that the model's arguments did not validate
    )

    def asks_for_tools(self) -> bool | None:
        """The answer asked for tools: True, False, or None where nothing tells."""
        if self.content.tool_requests:
            return True
        reason = self.model.finish_reason if self.model else None
        if reason is not None and reason in ASKING:
            return True
        if self.content.tool_requests is not None or (reason is not None and reason in ENDING):
            return False
        return None


def read_step(span: Span, reading: Reading, ancestors: Sequence[Span] = ()) -> Step | None:
    """The step that a span is, or None for a plain one. `ancestors`, nearest first, lend facts that
    stand on them.
    """
    role, dialect = reading
    kind = KIND_OF_ROLE.get(role or "")
    if kind is None or dialect is None:
        return None
    is_model = kind in {StepKind.MODEL_CALL, StepKind.SERVER_CALL}
    content = content_of(span, kind.value, dialect)
    status = http_status(span, dialect)
    return Step(
        kind=kind,
        name=step_name(span, kind, dialect),
        dialect=dialect.id,
        is_error=_is_error(span, dialect, kind, status) or content.result_is_error,
        error_type=_error_type(span, dialect, status),
        http_status=status,
        call_id=_text(span, dialect, "tool_call_id") if kind == StepKind.TOOL_CALL else None,
        content=content,
        model=read_model(span, dialect, ancestors) if is_model else None,
        arguments_refused=kind == StepKind.TOOL_CALL
        and find_fact(span, dialect, "tool_args_invalid") is not None,
    )


def read_model(span: Span, dialect: Dialect, ancestors: Sequence[Span] = ()) -> ModelFacts:
    """The facts of a model or server call."""
    ttft_claims = claims(span, dialect)
    attempt = find_fact(span, dialect, "attempt_start")
    return ModelFacts(
        model=_model_name(span, dialect, ancestors),
        provider=_provider(span, dialect),
        streamed=_streamed(span, dialect, ttft_claims),
        tokens=read_tokens(span, dialect),
        ttft_claims=ttft_claims,
        attempt_start_ns=attempt.value if attempt and isinstance(attempt.value, int) else None,
        queue_ns=_duration(span, dialect, "queue_time"),
        prefill_ns=_duration(span, dialect, "prefill_time"),
        decode_ns=_duration(span, dialect, "decode_time"),
        tpot_ns=_duration(span, dialect, "tpot"),
        response_id=_text(span, dialect, "response_id"),
        finish_reason=_finish_reason(span, dialect),
        attempts=_attempts(span, dialect),
    )


def step_name(span: Span, kind: StepKind, dialect: Dialect) -> str:
    """A tool's or an agent's own name where the span tells it, else the span's."""
    if kind in {StepKind.TOOL_CALL, StepKind.TOOL_SERVER}:
        return _text(span, dialect, "tool_name") or _stripped(span.name, "execute_tool ", ".tool")
    if kind == StepKind.AGENT:
        return _text(span, dialect, "agent_name") or _stripped(span.name, "invoke_agent ", ".agent")
    return span.name


def _stripped(name: str, prefix: str, suffix: str) -> str:
    return name.removeprefix(prefix).removesuffix(suffix) or name


def _text(span: Span, dialect: Dialect, fact: str) -> str | None:
    found = find_fact(span, dialect, fact)
    return str(found.value) if found is not None and isinstance(found.value, str | int) else None


def _duration(span: Span, dialect: Dialect, fact: str) -> int | None:
    found = find_fact(span, dialect, fact)
    return nanoseconds(found.value, found.candidate.unit) if found is not None else None


def _attempts(span: Span, dialect: Dialect) -> int | None:
    """Attempts inside the span: the number of the one that ended it, or resends and the first."""
    number, resends = find_fact(span, dialect, "attempt"), find_fact(span, dialect, "resends")
    if number is not None and (n := count(number.value)) is not None:
        return n
    return n + 1 if resends is not None and (n := count(resends.value)) is not None else None


def _model_name(span: Span, dialect: Dialect, ancestors: Sequence[Span]) -> str | None:
    name = _text(span, dialect, "model_request") or _text(span, dialect, "model_response")
    if name is not None:
        return name
    for candidate in dialect.candidates("model_request"):
        for ancestor in ancestors if candidate.from_ancestor else ():
            if ancestor.name == candidate.from_ancestor and isinstance(
                ancestor.attributes.get(candidate.key), str
            ):
                return str(ancestor.attributes[candidate.key])
    return None


def _provider(span: Span, dialect: Dialect) -> str | None:
    for candidate in dialect.candidates("provider"):
        value = span.attributes.get(candidate.key)
        if isinstance(value, str) and (name := common.provider_name(value)):
            return name
    return None


def _streamed(span: Span, dialect: Dialect, ttft_claims: Sequence[TtftClaim]) -> bool | None:
    """The stream flag, under the emitter's own habits; a claim of a first chunk says streamed where
    no flag does.
    """
    flag, rules = as_bool(find_fact(span, dialect, "streaming")), dialect.stream_flag
    if (
        flag is None
        and span.scope in rules.absent_means_false
        and (not rules.carrier or rules.carrier in span.attributes)
    ):
        return False
    if flag is False and span.scope in rules.false_means_unknown:
        return None
    if flag is None and any(claim.proves_stream for claim in ttft_claims):
        return True
    return flag


def as_bool(fact: Any) -> bool | None:
    """Booleans come as such, or as text from Micrometer."""
    value = fact.value if fact is not None else None
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    return value if isinstance(value, bool) else None


def _finish_reason(span: Span, dialect: Dialect) -> str | None:
    """The first reason, in lower case: a list, a JSON list in a string, or a word."""
    found = find_fact(span, dialect, "finish_reason")
    value = found.value if found is not None else None
    if isinstance(value, str) and value.startswith("["):
        value = value.strip('[]" ').split('"')[0]
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = value[0] if value else None
    return value.lower() if isinstance(value, str) and value else None


def http_status(span: Span, dialect: Dialect | None = None) -> int | None:
    """The HTTP status that a span carries, under any of its spellings."""
    found = find_fact(span, dialect, "http_status") if dialect else None
    values = [found.value] if found else []
    values += [
        span.attributes.get(key) for key in ("http.response.status_code", "http.status_code")
    ]
    for value in values:
        if isinstance(value, int | str) and HTTP_STATUS.fullmatch(str(value)):
            return int(value)
    return None


def _is_error(span: Span, dialect: Dialect, kind: StepKind, status: int | None) -> bool:
    if span.status == STATUS_ERROR or (status or 0) >= HTTP_ERROR:
        return True
    if kind not in {
        StepKind.MODEL_CALL,
        StepKind.TOOL_CALL,
        StepKind.SERVER_CALL,
        StepKind.TOOL_SERVER,
    }:
        return False
    success = as_bool(find_fact(span, dialect, "success"))
    return success is False or any(
        find_fact(span, dialect, fact) for fact in ("error", "error_type", "tool_error")
    )


def _error_type(span: Span, dialect: Dialect, status: int | None) -> str | None:
    named = _text(span, dialect, "error_type")
    if named:
        return named
    for event in reversed(span.events):
        value: Mapping[str, Any] = event.attributes
        if event.name == "exception" and isinstance(value.get("exception.type"), str):
            return str(value["exception.type"])
    return str(status) if status is not None and status >= HTTP_ERROR else None
