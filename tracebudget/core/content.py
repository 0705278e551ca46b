"""What the core has to know of content without keeping it: prompts, answers, tool arguments and
results.

`content_of` reads a span and answers in fingerprints (short digests), lengths and yes/no. The
privacy door calls `lift` before it drops content and stores the answer as the attribute
`tracebudget.lifted`; later `content_of` finds it there. So a finding that needs content comes out
the same in *full* and in *timings only*. A digest shows that two things are equal, nothing more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from tracebudget.core.dialects import recognise
from tracebudget.core.dialects.facts import (
    DECODER,
    LIFTED,
    SpanFacts,
    is_redacted,
    parsed,
    python_literal,
    read_value,
    unquoted,
)
from tracebudget.core.dialects.table import Candidate
from tracebudget.core.record import lazy
from tracebudget.core.span import Span

Fingerprint = Callable[[bytes], str]

MODEL, TOOL = "model_call", "tool_call"  # roles whose content matters
SPEAKS_FOR = {"stream_log": MODEL, "copy": MODEL}  # records that carry a call's answer
NUMBERS = (bool, int, float)
TRUTH_ONLY = frozenset({"error"})  # free text of which only the presence is a fact

MESSAGE_LISTS = ("messages", "contents", "input", "chat_history", "prompt")

# What the text of a failed tool's error blames, in lower case: IGNORECASE is four times as slow.
# Only its first part is searched: a stack trace or a result may follow.
TIMEOUT, ARGUMENTS, OTHER = "timeout", "arguments", "other"
MAX_ERROR_CHARS = 2000
TIMED_OUT = re.compile(
    r"timed[ -]?out|time-?out (error|exceeded|expired|after|of|reached)|timeouterror"
    r"|deadline[ _]exceeded|exceeded .{0,20}time ?(limit|out)"
)
BAD_ARGUMENTS = re.compile(
    r"validation ?(error|failed)|jsondecodeerror|(field|property|argument|parameter) required"
    r"|required (field|property|argument|parameter)"
    r"|(invalid|malformed|missing|parse|decode)[ \w]{0,24} (json|argument|parameter|input)"
    r"|(json|argument|parameter|input)s?( is| are)? (invalid|malformed|missing|not valid)"
)

MAX_NODES = 4000  # of an answer searched for tool requests; a hostile answer must end
MAX_FACT_CHARS = 100  # of a fact lifted out of content
MAX_MESSAGES = 256  # of a prompt whose prefixes are kept; more are covered by the last digest alone
canonical = json.JSONEncoder(sort_keys=True, default=str).encode


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


def fingerprint(data: bytes) -> str:
    """The unkeyed fingerprint, for content that is here anyway."""
    return blake2b(data, digest_size=8).hexdigest()


class Content:
    """Answers about one step's content; None where the span did not carry it. Each is worked out
    when it is asked for.
    """

    lifted: dict[str, Any] | None = None
    lender: Content | None = None  # of another span that describes the same call

    def __init__(self, facts: SpanFacts, role: str) -> None:
        self.facts, self.role = facts, role
        if facts.present.is_lifted:
            lifted = facts.span.attributes[LIFTED]
            self.lifted = lifted if type(lifted) is dict else None

    @lazy
    def prompt(self) -> tuple[str, ...] | None:
        """Fingerprints of the first message, the first two, ... the whole prompt."""
        if self.lifted is not None:
            lifted = self.lifted.get("prompt")
            own = tuple(lifted) if lifted is not None else None
        else:
            own = _prompt(self.facts, fingerprint) if self.role == MODEL else None
        return self.lender.prompt if own is None and self.lender is not None else own

    @lazy
    def tool_requests(self) -> tuple[ToolRequest, ...] | None:
        """What a model's answer asked for; () for an answer that asked for nothing."""
        if self.lifted is not None:
            rows = self.lifted.get("tool_requests")
            own = tuple(ToolRequest(*row) for row in rows) if rows is not None else None
        else:
            own = _tool_requests(self.facts, fingerprint) if self.role == MODEL else None
        return self.lender.tool_requests if own is None and self.lender is not None else own

    @lazy
    def arguments(self) -> tuple[str, bool | None] | None:
        """Of a tool call: the arguments' fingerprint, and whether they were JSON (None: text)."""
        if self.lifted is not None:
            lifted = self.lifted.get("arguments")
            own = (lifted[0], lifted[1]) if lifted is not None else None
        else:
            own = _arguments(self.facts, fingerprint) if self.role == TOOL else None
        return self.lender.arguments if own is None and self.lender is not None else own

    @lazy
    def result(self) -> tuple[int, bool] | None:
        """Of a tool call: the result's length, and whether it reports an error."""
        if self.lifted is not None:
            lifted = self.lifted.get("result")
            return (lifted[0], lifted[1]) if lifted is not None else None
        return _result(self.facts) if self.role == TOOL else None

    @property
    def is_cut(self) -> bool:
        """A JSON text ends in the middle: an emitter or an SDK keeps so many characters."""
        if self.lifted is not None:
            return bool(self.lifted.get("is_cut"))
        return _is_cut(self.facts)

    @lazy
    def complaint(self) -> str | None:
        """Of a tool call that failed: what its error text blames, TIMEOUT, ARGUMENTS or OTHER; None
        where it has no such text.
        """
        if self.lifted is not None:
            own = self.lifted.get("complaint")
        else:
            own = _complaint(self.facts) if self.role == TOOL else None
        if own in {TIMEOUT, ARGUMENTS} or self.lender is None:
            return own
        return self.lender.complaint or own

    def borrowing(self, lender: Content) -> Content:
        """The same content, its gaps filled from another span that describes the same call."""
        content = Content(self.facts, self.role)
        content.lender = lender
        return content


def lift(span: Span, digest: Fingerprint) -> dict[str, Any]:
    """The facts hidden in a span's content, as a JSON-ready mapping; {} where there are none.

    `facts` holds what a dialect reads from JSON inside content: {fact: [value, key]}.
    """
    span = _without_lifted(span)
    role, dialect, present = recognise(span)
    if role is None or dialect is None:
        return {}
    facts = SpanFacts(span, dialect, present)
    lifted: dict[str, Any] = {"facts": hidden} if (hidden := _hidden_facts(facts)) else {}
    role = SPEAKS_FOR.get(role, role)
    if role == MODEL:
        lifted |= _said_to_and_by_model(facts, digest)
    elif role == TOOL:
        lifted |= _said_to_and_by_tool(facts, digest)
    if _is_cut(facts):
        lifted["is_cut"] = True
    return lifted


def _said_to_and_by_model(facts: SpanFacts, digest: Fingerprint) -> dict[str, Any]:
    """Not by `Content`: the door asks each question once."""
    lifted: dict[str, Any] = {}
    if (prompt := _prompt(facts, digest)) is not None:
        lifted["prompt"] = list(prompt)
    if (requests := _tool_requests(facts, digest)) is not None:
        lifted["tool_requests"] = [[r.name, r.call_id, r.parsed, r.arguments] for r in requests]
    return lifted


def _said_to_and_by_tool(facts: SpanFacts, digest: Fingerprint) -> dict[str, Any]:
    lifted: dict[str, Any] = {}
    if (arguments := _arguments(facts, digest)) is not None:
        lifted["arguments"] = list(arguments)
    if (result := _result(facts)) is not None:
        lifted["result"] = list(result)
    if (complaint := _complaint(facts)) is not None:
        lifted["complaint"] = complaint
    return lifted


def _without_lifted(span: Span) -> Span:
    """A sender may not speak for the door."""
    if LIFTED not in span.attributes:
        return span
    kept = {key: value for key, value in span.attributes.items() if key != LIFTED}
    return replace(span, attributes=kept)


def _hidden_facts(facts: SpanFacts) -> dict[str, list[Any]]:
    """Facts that stand in content: short values only, longer text is content whatever its key."""
    found = {}
    for name, places in facts.present.hidden.items():
        for place in places:
            value = read_value(facts.span, place)
            if value is not None:
                value = True if place.key in TRUTH_ONLY else value
                if isinstance(value, NUMBERS) or (
                    type(value) is str and len(value) <= MAX_FACT_CHARS
                ):
                    found[name] = [value, place.key]
                break
    return found


def _is_cut(facts: SpanFacts) -> bool:
    attributes = facts.span.attributes
    for key in facts.present.texts:
        text = attributes[key]
        if (
            type(text) is str
            and text[:1] in OPENED
            and text[-1:] not in CLOSED
            and text.rstrip()[-1:] not in CLOSED
        ):
            return True
    return False


OPENED, CLOSED = frozenset("[{"), frozenset("]}")  # how a JSON text begins and ends


# --- prompts ------------------------------------------------------------------------------------


def _prompt(facts: SpanFacts, digest: Fingerprint) -> tuple[str, ...] | None:
    for place in facts.present.prompts:
        texts = _prompt_texts(facts.span, place)
        if texts:
            return _chain(texts, digest)
    return None


def _prompt_texts(span: Span, place: Candidate) -> list[str]:
    """The messages of a prompt, one text each; [] where there is none at this place."""
    if place.source == "indexed":
        messages = _indexed(span.attributes, place)
        return [canonical(message) for message in messages]
    if place.source == "attr":
        return _told_messages(span.attributes[place.key])
    if place.source == "event_list":
        return [canonical(event) for event in _conversation(span, place)[0]]
    if place.key:
        events = [e for e in span.events if e.name == place.event and place.key in e.attributes]
        return _told_messages(events[-1].attributes[place.key]) if events else []
    start, end = place.event.split("*")
    return [
        json.dumps([e.name, *sorted(e.attributes.items())], default=str)
        for e in span.events
        if e.attributes and e.name.startswith(start) and e.name.endswith(end)
    ]


def _events(span: Span, place: Candidate) -> list[Any]:
    """Events that stand as a JSON list in one attribute."""
    value = parsed(span.attributes[place.key])
    return [event for event in value if type(event) is dict] if type(value) is list else []


def _conversation(span: Span, place: Candidate) -> tuple[list[Any], list[Any]]:
    """What was asked and what was answered: choices, else what the assistant said last."""
    events = _events(span, place)
    answered = [event for event in events if event.get("event.name") == "gen_ai.choice"]
    if answered:
        return [event for event in events if event not in answered], answered
    end = len(events)
    while end and events[end - 1].get("event.name") == "gen_ai.assistant.message":
        end -= 1
    return events[:end], events[end:]


def _told_messages(value: Any) -> list[str]:
    return [] if value in (None, "") or is_redacted(value) else _messages(unquoted(value))


def _messages(value: Any) -> list[str]:
    """One text a message where the prompt is a list of them, else the whole as one. A message in a
    JSON text stands as it was written: one sender writes the same one the same way again.
    """
    if isinstance(value, str) and value.startswith("["):
        return _elements(value) or [value]
    body = parsed(value) if isinstance(value, str) else value
    if type(body) is dict:
        body = next((body[key] for key in MESSAGE_LISTS if type(body.get(key)) is list), body)
    if type(body) is list and body:
        messages = body[0] if len(body) == 1 and type(body[0]) is list else body
        return [canonical(_said(m)) for m in messages]
    return [value if isinstance(value, str) else canonical(value)]


def _said(message: Any) -> Any:
    """A message as it was said. LangChain's own form gives it an id and figures of its run."""
    if type(message) is not dict or "lc" not in message or type(message.get("kwargs")) is not dict:
        return message
    return {key: value for key, value in message["kwargs"].items() if key not in OF_ITS_RUN}


OF_ITS_RUN = frozenset({"id", "response_metadata", "usage_metadata"})


def _elements(text: str) -> list[str]:
    """The elements of a JSON list, each as it stands in the text; [] for what is no such list."""
    elements, at = [], 1
    try:
        while True:
            at = _next_mark(text, at)
            _, end = DECODER.raw_decode(text, at)
            elements.append(text[at:end])
            at = _next_mark(text, end)
            if text[at] == "]":
                return elements
            at += 1
    except (ValueError, IndexError, RecursionError):
        return []


def _next_mark(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def _chain(messages: list[str], digest: Fingerprint) -> tuple[str, ...]:
    """Fingerprints of growing prefixes: equal last ones mean equal prompts, one inside another
    means a prefix.
    """
    chain, before = [], ""
    for message in messages[: MAX_MESSAGES - 1]:
        before = digest((before + message).encode("utf-8", "replace"))
        chain.append(before)
    if rest := messages[MAX_MESSAGES - 1 :]:
        chain.append(digest((before + "".join(rest)).encode("utf-8", "replace")))
    return tuple(chain)


def _indexed(attributes: Mapping[str, Any], place: Candidate) -> list[dict[str, Any]]:
    """The messages of an indexed place as mappings, redacted values left out."""
    found = []
    for parts in place.messages:
        message = {part: attributes[key] for part, key in parts}
        if dict in map(type, message.values()):
            message = {part: value for part, value in message.items() if not is_redacted(value)}
        if message:
            found.append(message)
    return found


# --- answers: the tools that a model asked for --------------------------------------------------


def _tool_requests(facts: SpanFacts, digest: Fingerprint) -> tuple[ToolRequest, ...] | None:
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
        messages = _indexed(span.attributes, place)
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
        yield from _conversation(span, place)[1]
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
    is_json = _read_arguments(node[key])[1]
    is_parsed = is_json is not False and kind != "invalid_tool_call"
    return ToolRequest(name, call_id, is_parsed, node[key], digest)


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


def _first_text(node: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    for key in keys:
        if key in node:
            value = node[key]
            if type(value) is str and value:
                return value
    return None


# --- tool calls ---------------------------------------------------------------------------------


def _arguments(facts: SpanFacts, digest: Fingerprint) -> tuple[str, bool | None] | None:
    """Read from the first place that holds them; broken if they are so in any."""
    told = facts.values.get("tool_arguments")
    if told is None:
        return None
    text, is_json = canonical_arguments(told)
    others = [value for value in facts.others("tool_arguments") if value != told]
    if others and any(_read_arguments(value)[1] is False for value in others):
        is_json = False
    return digest(text), is_json


def _result(facts: SpanFacts) -> tuple[int, bool] | None:
    value = facts.values.get("tool_result")
    if value is None:
        return None
    text = _as_text(value)
    return len(text), "rror" in text and says_error(parsed(value))


def _complaint(facts: SpanFacts) -> str | None:
    blamed = None
    for text in _error_texts(facts):
        blamed = OTHER
        head = text[:MAX_ERROR_CHARS].lower()
        if BAD_ARGUMENTS.search(head):
            return ARGUMENTS
        if TIMED_OUT.search(head):
            return TIMEOUT
    return blamed


def _error_texts(facts: SpanFacts) -> Iterator[str]:
    span = facts.span
    if span.status_message:
        yield span.status_message
    for event in span.events:
        message = event.attributes.get("exception.message")
        if event.name == "exception" and isinstance(message, str):
            yield message
    result = facts.values.get("tool_result")
    if result is not None and "rror" in (text := _as_text(result)[:MAX_ERROR_CHARS]):
        yield text


def canonical_arguments(value: Any) -> tuple[bytes, bool | None]:
    """Arguments in one spelling, and whether they are JSON; None for plain text, of which nobody
    said that it were.
    """
    body, is_json = _read_arguments(value)
    if is_json:
        return canonical(body).encode("utf-8", "replace"), True
    return _as_text(body).encode("utf-8", "replace"), is_json


def _read_arguments(value: Any) -> tuple[Any, bool | None]:
    """What the arguments say, their text where they are no JSON. Wrappers of a single text are
    looked into; Python's spelling of a mapping (LangChain) is no broken JSON.
    """
    body = parsed(value) if isinstance(value, str) else value
    if body is None and isinstance(value, str):
        is_broken = value.lstrip()[:1] in ("{", "[") and python_literal(value) is None
        return value, False if is_broken else None
    if type(body) is dict and "INVALID_JSON" in body:  # Pydantic AI's mark
        return body["INVALID_JSON"], False
    if type(body) is dict and "inputs" in body and ("tags" in body or "metadata" in body):
        return _read_arguments(body["inputs"])  # OpenLLMetry writes LangChain's run around them
    wrapped = _wrapped_text(body)
    return (body, True) if wrapped is None else _read_arguments(wrapped)


def _wrapped_text(body: Any) -> str | None:
    """`{"arguments": "{...}"}` and `{"args": ["{...}"], "kwargs": {}}` hold the model's text."""
    inner = None
    if type(body) is not dict:
        return None
    if "arguments" in body:
        inner = body["arguments"] if len(body) == 1 else None
    elif "kwargs" in body and body.keys() == PYTHON_CALL and not body["kwargs"]:
        args = body["args"]
        inner = args[0] if type(args) is list and len(args) == 1 else None
    return inner if isinstance(inner, str) and inner.lstrip()[:1] in ("{", "[") else None


PYTHON_CALL = frozenset({"args", "kwargs"})


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def says_error(body: Any) -> bool:
    """A result that reports failure in its own words: `{"error": ...}`, `isError`, LangChain's
    `status: error`, AgentScope's `state: error`.
    """
    if type(body) is not dict:
        return False
    if body.get("isError") is True or body.get("is_error") is True:
        return True
    if "error" in (body.get("status"), body.get("state")):
        return True
    return bool(body.get("error")) or says_error(body.get("data"))
