"""What a model answered: the tools that it asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tracebudget.core.content.arguments import canonical_arguments, read_arguments
from tracebudget.core.content.fingerprint import Fingerprint
from tracebudget.core.content.messages import conversation, indexed
from tracebudget.core.dialects.facts import SpanFacts, is_redacted, parsed, python_literal
from tracebudget.core.dialects.table import Candidate
from tracebudget.core.span import Span

MAX_NODES = 4000  # of an answer searched for tool requests; a hostile answer must end

# How providers write a tool call.
NESTED = frozenset({dict, list})
TOOL_NAMES = ("name", "toolName", "tool_name")
AROUND_CALLS = ("function", "functionCall", "function_call", "toolUse", "toolRequest")
TOLD_BY = frozenset({*TOOL_NAMES, *AROUND_CALLS})
ARGUMENT_KEYS = ("arguments", "args", "input")
QUOTED_KEYS = [f"{quote}{key}{quote}" for quote in ('"', "'") for key in ARGUMENT_KEYS]
OUTER_IDS = ("call_id", "id", "toolCallId")
INNER_IDS = ("id", "toolUseId", "ref")
REQUEST_TYPES = frozenset(
    {
        "function",
        "function_call",
        "tool_call",
        "tool-call",
        "tool_use",
        "invalid_tool_call",
        "mcp_call",
        "custom_tool_call",
    }
)


class ToolRequest:
    """A tool that a model answer asked for. `parsed` is False where its arguments are no JSON."""

    __slots__ = ("_arguments", "_digest", "call_id", "name", "parsed")

    def __init__(
        self,
        name: str,
        call_id: str | None,
        parsed: bool,
        arguments: Any,
        digest: Fingerprint | None = None,
    ) -> None:
        self.name, self.call_id, self.parsed = name, call_id, parsed
        self._arguments, self._digest = arguments, digest

    @property
    def arguments(self) -> str:
        """The arguments' fingerprint: as it was lifted, or worked out now, for few are asked."""
        if self._digest is None:
            return str(self._arguments)
        return self._digest(canonical_arguments(self._arguments)[0])


def read_tool_requests(facts: SpanFacts, digest: Fingerprint) -> tuple[ToolRequest, ...] | None:
    """The tools an answer asked for; () for an answer that asked for none, None where no answer is
    here.
    """
    seen = False
    for place in facts.present.answers:
        for answer in _answers(facts.span, place):
            seen = True
            requests = _requests_in(answer, digest) if answer is not None else []
            if requests:
                return tuple(requests)
    return () if seen else None


def _answers(span: Span, place: Candidate) -> Iterator[Any]:
    """What a place holds of the model's answer. What cannot hold a tool call is not parsed: None
    stands for it.
    """
    if place.source == "indexed":
        messages = indexed(span.attributes, place)
        if messages:
            asks = any("call" in key for message in messages for key in message)
            yield [_nested(message) for message in messages] if asks else None
    elif place.source == "attr":
        value = span.attributes[place.key]
        if value not in (None, "") and not is_redacted(value):
            yield parsed(value) if _may_ask(value) else None
    elif place.source == "literal":
        value = span.attributes[place.key]
        if isinstance(value, str) and value:
            yield python_literal(value) if _may_ask(value) else None
    elif place.source == "event_list":
        yield from conversation(span, place)[1]
    else:
        yield from _answer_events(span, place)


def _answer_events(span: Span, place: Candidate) -> Iterator[Any]:
    for event in span.events:
        if event.name == place.event:
            values = [v for k, v in event.attributes.items() if place.key in ("", k)]
            told = [value for value in values if not is_redacted(value)]
            if told:
                yield [parsed(value) for value in told]


def _may_ask(value: Any) -> bool:
    """Every shape of a tool call has one of these words in it, and its arguments under a key of
    their own. LangChain writes empty lists of calls into every answer.
    """
    if not isinstance(value, str):
        return True
    return ("tool" in value or "unction" in value) and any(map(value.__contains__, QUOTED_KEYS))


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """`tool_calls.0.tool_call.function.name` -> nested mappings; indices stay keys, which the
    search does not mind.
    """
    root: dict[str, Any] = {}
    for key, value in flat.items():
        *parts, last = key.split(".")
        node = root
        for part in parts:
            node = node.setdefault(part, {})
            if not isinstance(node, dict):
                break
        else:
            node[last] = value
    return root


def _requests_in(answer: Any, digest: Fingerprint) -> list[ToolRequest]:
    """Search an answer, breadth first and bounded, for the shapes in which providers write a tool
    call.
    """
    found: dict[object, ToolRequest] = {}  # by call id, those without one by themselves
    queue = [answer]
    for node in queue:
        if type(node) not in NESTED:
            continue
        if type(node) is list:
            queue += node
        elif TOLD_BY.isdisjoint(node) or (request := _as_request(node, digest)) is None:
            queue += node.values()
        else:
            found.setdefault(request.call_id or request, request)
        if len(queue) > MAX_NODES:
            break
    return list(found.values())


def _as_request(node: Mapping[str, Any], digest: Fingerprint) -> ToolRequest | None:
    """A tool call as OpenAI, Anthropic, Gemini, LangChain, AI SDK, Haystack and OTel write it."""
    call_id = _first_text(node, OUTER_IDS)
    inner = next((inner for key in AROUND_CALLS if (inner := node.get(key))), None)
    if type(inner) is dict:
        node, call_id = inner, call_id or _first_text(inner, INNER_IDS)
    name = _first_text(node, TOOL_NAMES)
    key = next((key for key in ARGUMENT_KEYS if key in node), None)
    kind = node.get("type")
    if not name or key is None or (kind is not None and kind not in REQUEST_TYPES):
        return None
    if key == "input" and kind is None and "toolName" not in node and inner is None:
        return None  # a component's input is no tool call
    is_json = read_arguments(node[key])[1]
    is_parsed = is_json is not False and kind != "invalid_tool_call"
    return ToolRequest(name, call_id, is_parsed, node[key], digest)


def _first_text(node: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    for key in keys:
        if key in node:
            value = node[key]
            if type(value) is str and value:
                return value
    return None
