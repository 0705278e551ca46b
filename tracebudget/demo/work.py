"""What happened in a simulated request: who worked from when to when, on what. Times are Unix ns.

How a span says it is a matter of its sender's dialect (`dialects`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tracebudget.demo.prompt import Prompt


@dataclass(frozen=True, slots=True)
class Ask:
    """A tool that a model asked for. `arguments` is the text it wrote: JSON, or nearly so."""

    call_id: str
    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Serving:
    """The inference server's view of a call; lengths in ns."""

    start: int
    end: int
    queue_ns: int
    prefill_ns: int


@dataclass(frozen=True, slots=True)
class Call:
    """A model call, seen from the client. `chunks`: when each piece of a streamed answer came; of
    an answer that came in one piece, none. `error` names the exception, "" for none.
    """

    start: int
    end: int
    provider: str
    model: str
    prompt: Prompt
    after: Prompt  # the prompt and the answer
    cached_tokens: int
    output_tokens: int
    text: str
    asks: tuple[Ask, ...]
    chunks: tuple[int, ...]
    session: str
    serving: Serving | None = None
    error: str = ""

    @property
    def is_streamed(self) -> bool:
        return bool(self.chunks)

    @property
    def ttft_ns(self) -> int | None:
        return self.chunks[0] - self.start if self.chunks else None


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A tool at work, with the agents that it called. `error` names the exception, "" for none."""

    start: int
    end: int
    ask: Ask
    result: str
    error: str = ""
    inside: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True)
class Search:
    """A look into an index of documents."""

    start: int
    end: int
    query: str


@dataclass(frozen=True, slots=True)
class Run:
    """An agent at work. `service` is the program it runs in, "" for that of its surroundings."""

    start: int
    end: int
    agent: str
    session: str
    question: str
    answer: str
    inside: tuple[Work, ...]
    service: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands around agents: a request handler (`route`), or a workflow (no route)."""

    start: int
    end: int
    name: str
    session: str
    inside: tuple[Work, ...]
    route: str = ""


Work: TypeAlias = Call | ToolRun | Search | Run | Frame


@dataclass(frozen=True, slots=True)
class Request:
    """One simulated request. `codes` are the findings that must be found in it, and no other."""

    app: str
    release: str
    root: Run | Frame
    fault: str
    codes: frozenset[str]
