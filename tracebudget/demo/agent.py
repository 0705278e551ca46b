"""The agent loop: ask the model, run the tools it asks for, add their results to the prompt, again.

    |-overhead-|--- model call ---|-overhead-|-- tools --|-overhead-|--- model call ---|

Where its time goes is not drawn from anywhere: it comes of the prompt that grows, the tokens that
are written, and the tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from tracebudget.demo.fault import Cache, Conditions, Failure
from tracebudget.demo.inference import Inference, Model, Question
from tracebudget.demo.prompt import Prompt
from tracebudget.demo.schedule import Process, together
from tracebudget.demo.task import Round, Task, Tool, Use
from tracebudget.demo.work import Ask, Call, Run, Search, ToolRun, Work

MS, SECOND = 1_000_000, 1_000_000_000

OVERHEAD_NS = 3 * MS  # of each step: parse, validate, log
RENDER_NS = 1_200  # a token: the prompt is built and serialised anew for every call
STARTS_APART_NS = 200_000  # tools that start together are started one by one
BACK_OFF_NS = 1 * SECOND  # after the first 429; twice as long after the next
TOOL_RETRY_NS = 150 * MS
TOOL_ERROR_SHARE = 0.7  # of a tool's time, until it fails
SPREAD = 0.15  # relative, of what a tool takes
SEARCH_NS = 330 * MS
COMPLAINT = "The arguments were no valid JSON. Ask again."
COMPLAINT_TOKENS = 24


@dataclass(frozen=True, slots=True)
class Visit:
    """What a request brings along: its session, its conditions, its luck."""

    session: str
    conditions: Conditions
    rng: Random


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent: its instructions (and tools' definitions), its model, and the agents it may call.

    One that nobody watches does not stream. `service` is the program it runs in, "" for its
    caller's.
    """

    name: str
    inference: Inference
    model: Model
    instructions: Prompt
    is_streamed: bool = True
    service: str = ""
    others: Mapping[str, Agent] | None = None

    def run(
        self, at: int, task: Task, visit: Visit, history: Prompt | None = None
    ) -> Process[tuple[Run, Prompt]]:
        """Work on a task. Returns what was done, and the conversation for the next one."""
        loop = _Loop(self, visit, at, history or self.instructions)
        yield from loop.work_on(task.under(visit.conditions))
        run = Run(
            at, loop.at, self.name, visit.session, task.question, task.answer,
            tuple(loop.done), self.service,
        )  # fmt: skip
        return run, loop.prompt


class _Loop:
    """One run under way: the time, the prompt, and what was done so far."""

    def __init__(self, agent: Agent, visit: Visit, at: int, prompt: Prompt) -> None:
        self.agent = agent
        self.visit = visit
        self.at = at
        self.prompt = prompt
        self.done: list[Work] = []
        self.has_flooded = False

    def work_on(self, task: Task) -> Process[None]:
        conditions = self.visit.conditions
        self.prompt = self.prompt.plus("user", task.question, _tokens(task.question))
        if task.search:
            self._search(task.search)
        for number, round_ in enumerate(task.rounds):
            if conditions.broken_arguments and number == 0:
                yield from self._ask_in_vain(round_)
            yield from self._take_round(round_, is_first=number == 0)
        call = yield from self._answer(task, is_streamed=True)
        if conditions.generates_twice:
            yield from self._answer(task, is_streamed=False)
        self.prompt = call.after
        self._think()

    def _think(self) -> None:
        """The framework's own time between two steps."""
        self.at += OVERHEAD_NS + RENDER_NS * self.prompt.tokens

    def _search(self, query: str) -> None:
        self._think()
        end = self.at + self._spread(SEARCH_NS)
        self.done.append(Search(self.at, end, query))
        self.at = end

    def _spread(self, ns: int) -> int:
        return round(ns * (1 + SPREAD * self.visit.rng.uniform(-1, 1)))

    # --- the model ------------------------------------------------------------------------------

    def _ask_in_vain(self, round_: Round) -> Process[None]:
        """The model writes arguments that do not parse. It is told so, and has to write again."""
        broken = [Ask(a.call_id, a.tool, a.arguments[:-2]) for a in self._asks(round_)]
        call = yield from self._call(self._question(round_.tokens, asks=broken))
        self.prompt = call.after.plus("user", COMPLAINT, COMPLAINT_TOKENS)

    def _answer(self, task: Task, *, is_streamed: bool) -> Process[Call]:
        question = self._question(task.answer_tokens, text=task.answer, is_streamed=is_streamed)
        return (yield from self._call(question))

    def _question(
        self, tokens: int, *, text: str = "", asks: Sequence[Ask] = (), is_streamed: bool = True
    ) -> Question:
        return Question(
            self.agent.model, self.prompt, tokens, text, tuple(asks),
            is_streamed and self.agent.is_streamed,
        )  # fmt: skip

    def _call(self, question: Question) -> Process[Call]:
        """One call, after as many refusals as the conditions want: they hit the first call."""
        inference, visit = self.agent.inference, self.visit
        self._think()
        is_first = not any(isinstance(work, Call) for work in self.done)
        self.at += visit.conditions.overhead_ns
        for number in range(visit.conditions.rejections if is_first else 0):
            yield self.at
            refused = inference.refuse(self.at, question, visit.session)
            self.done.append(refused)
            self.at = refused.end + BACK_OFF_NS * 2**number
        yield self.at
        call = inference.answer(
            self.at,
            question,
            session=visit.session,
            rng=visit.rng,
            conditions=visit.conditions,
        )
        self.done.append(call)
        self.at = call.end
        return call

    # --- tools ----------------------------------------------------------------------------------

    def _asks(self, round_: Round) -> list[Ask]:
        return [
            Ask(f"call_{self.visit.rng.getrandbits(48):012x}", use.tool.name, use.arguments_text)
            for use in round_.uses
        ]

    def _take_round(self, round_: Round, *, is_first: bool) -> Process[None]:
        asks = self._asks(round_)
        call = yield from self._call(self._question(round_.tokens, asks=asks))
        self.prompt = call.after
        self._think()
        pairs = list(zip(asks, round_.uses, strict=True))
        if self.visit.conditions.parallel_tools:
            yield from self._side_by_side(pairs, is_first=is_first)
        else:
            for pair in pairs:
                yield from self._side_by_side([pair], is_first=is_first)
        self._add_results(round_)

    def _side_by_side(self, pairs: Sequence[tuple[Ask, Use]], *, is_first: bool) -> Process[None]:
        starts = [self.at + number * STARTS_APART_NS for number in range(len(pairs))]
        running = [
            self._use(start, ask, use, is_first=is_first and number == 0)
            for number, (start, (ask, use)) in enumerate(zip(starts, pairs, strict=True))
        ]
        finished = yield from together(*running)
        runs = [run for runs in finished for run in runs]
        self.done += runs
        self.at = max(run.end for run in runs) + STARTS_APART_NS

    def _use(self, at: int, ask: Ask, use: Use, *, is_first: bool) -> Process[list[ToolRun]]:
        """The runs of one tool: more than one where it failed first."""
        yield at
        if use.errand is not None and self.agent.others is not None:
            other = self.agent.others[use.errand.agent]
            errand = Visit(f"{self.visit.session}-{other.name}", Conditions(), self.visit.rng)
            run, _ = yield from other.run(at + OVERHEAD_NS, use.errand.task, errand)
            return [ToolRun(at, run.end + OVERHEAD_NS, ask, run.answer, inside=(run,))]
        return self._plain_use(at, ask, use.tool, is_first=is_first)

    def _plain_use(self, at: int, ask: Ask, tool: Tool, *, is_first: bool) -> list[ToolRun]:
        conditions = self.visit.conditions
        failure = conditions.tool_failure if is_first else Failure.NONE
        lasts = self._spread(tool.latency_ns) * (conditions.tool_factor if is_first else 1)
        if failure == Failure.TIMEOUT:
            return [ToolRun(at, at + tool.limit_ns, ask, "", failure.value)]
        if failure == Failure.ERROR:
            end = at + round(lasts * TOOL_ERROR_SHARE)
            again = end + TOOL_RETRY_NS
            return [
                ToolRun(at, end, ask, "", failure.value),
                ToolRun(again, again + lasts, ask, tool.result),
            ]
        return [ToolRun(at, at + lasts, ask, tool.result)]

    def _add_results(self, round_: Round) -> None:
        for use in round_.uses:
            self.prompt = self.prompt.plus("tool", use.tool.result, self._result_tokens(use.tool))
        if self.visit.conditions.cache == Cache.REWRITTEN:
            self.prompt = self.prompt.rewritten()

    def _result_tokens(self, tool: Tool) -> int:
        """A tool that floods the prompt does so once."""
        floods = self.visit.conditions.floods and tool.flood_tokens and not self.has_flooded
        self.has_flooded |= bool(floods)
        return tool.flood_tokens if floods else tool.result_tokens


def _tokens(text: str) -> int:
    """About four characters a token."""
    return len(text) // 4 + 4
