"""What people want of an agent, and what it will do about it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tracebudget.demo.fault import Conditions


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool and how long it usually takes. A `limit_ns` ends it; `result` is what it says.
    `flood_tokens`: how much it says where nothing keeps it short.
    """

    name: str
    latency_ns: int
    result_tokens: int
    result: str
    limit_ns: int = 3_000_000_000
    flood_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Use:
    """A tool with arguments, or an agent called like one: then `errand` is its task."""

    tool: Tool
    arguments: Mapping[str, str]
    errand: Errand | None = None

    @property
    def arguments_text(self) -> str:
        return json.dumps(self.arguments)


@dataclass(frozen=True, slots=True)
class Round:
    """One answer of the model that asks for tools: which, and how many tokens that takes."""

    uses: tuple[Use, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Task:
    """A question, the rounds it takes, and the answer."""

    question: str
    answer: str
    answer_tokens: int
    rounds: tuple[Round, ...] = ()
    wander: Round | None = None  # what an agent does that has lost its way; {n} counts
    search: str = ""  # what to look up before the first call

    def under(self, conditions: Conditions) -> Task:
        """The same task as an agent takes it under these conditions."""
        rounds = list(self.rounds)
        if conditions.asks_again:
            rounds.insert(1, Round(rounds[0].uses[:1], rounds[0].tokens))
        if self.wander is not None:
            rounds += [_numbered(self.wander, n) for n in range(conditions.wandering_rounds)]
        return replace(
            self, rounds=tuple(rounds), answer_tokens=self.answer_tokens * conditions.answer_factor
        )


def _numbered(round_: Round, number: int) -> Round:
    """The round with {n} in its arguments filled in."""
    uses = [
        replace(use, arguments={k: v.format(n=number) for k, v in use.arguments.items()})
        for use in round_.uses
    ]
    return replace(round_, uses=tuple(uses))


@dataclass(frozen=True, slots=True)
class Errand:
    """A task for another agent, by its name."""

    agent: str
    task: Task = field(repr=False)
