"""What the core has to know of content without keeping it: prompts, answers, tool arguments and
results.

`Content` answers in fingerprints (short digests), lengths and yes/no. The privacy door calls
`lifting.lift` before it drops content and stores the answer as the attribute `tracebudget.lifted`;
later `Content` finds it there. So a finding that needs content comes out the same in *full* and in
*timings only*. A digest shows that two things are equal, nothing more.
"""

from __future__ import annotations

from typing import Any

from tracebudget.core.content.answer import ToolRequest, read_tool_requests
from tracebudget.core.content.cut import is_cut
from tracebudget.core.content.fingerprint import fingerprint
from tracebudget.core.content.prompt import read_prompt
from tracebudget.core.content.tool import ARGUMENTS, TIMEOUT, complaint, tool_arguments, tool_result
from tracebudget.core.dialects.facts import LIFTED, SpanFacts
from tracebudget.core.record import lazy

MODEL, TOOL = "model_call", "tool_call"  # roles whose content matters


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
            own = read_prompt(self.facts, fingerprint) if self.role == MODEL else None
        return self.lender.prompt if own is None and self.lender is not None else own

    @lazy
    def tool_requests(self) -> tuple[ToolRequest, ...] | None:
        """What a model's answer asked for; () for an answer that asked for nothing."""
        if self.lifted is not None:
            rows = self.lifted.get("tool_requests")
            own = tuple(ToolRequest(*row) for row in rows) if rows is not None else None
        else:
            own = read_tool_requests(self.facts, fingerprint) if self.role == MODEL else None
        return self.lender.tool_requests if own is None and self.lender is not None else own

    @lazy
    def arguments(self) -> tuple[str, bool | None] | None:
        """Of a tool call: the arguments' fingerprint, and whether they were JSON (None: text)."""
        if self.lifted is not None:
            lifted = self.lifted.get("arguments")
            own = (lifted[0], lifted[1]) if lifted is not None else None
        else:
            own = tool_arguments(self.facts, fingerprint) if self.role == TOOL else None
        return self.lender.arguments if own is None and self.lender is not None else own

    @lazy
    def result(self) -> tuple[int, bool] | None:
        """Of a tool call: the result's length, and whether it reports an error."""
        if self.lifted is not None:
            lifted = self.lifted.get("result")
            return (lifted[0], lifted[1]) if lifted is not None else None
        return tool_result(self.facts) if self.role == TOOL else None

    @property
    def is_cut(self) -> bool:
        """A JSON text ends in the middle: an emitter or an SDK keeps so many characters."""
        if self.lifted is not None:
            return bool(self.lifted.get("is_cut"))
        return is_cut(self.facts)

    @lazy
    def complaint(self) -> str | None:
        """Of a tool call that failed: what its error text blames, TIMEOUT, ARGUMENTS or OTHER; None
        where it has no such text.
        """
        if self.lifted is not None:
            own = self.lifted.get("complaint")
        else:
            own = complaint(self.facts) if self.role == TOOL else None
        if own in {TIMEOUT, ARGUMENTS} or self.lender is None:
            return own
        return self.lender.complaint or own

    def borrowing(self, lender: Content) -> Content:
        """The same content, its gaps filled from another span that describes the same call."""
        content = Content(self.facts, self.role)
        content.lender = lender
        return content
