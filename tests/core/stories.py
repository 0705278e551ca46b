"""Requests that are told twice: with a fault, and as they would have gone without it.

A story is a list of acts, each a gap and what then happens; it is told in a world that may wrap
each act into a span of the framework, and may let another tool run beside the whole of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.builders import MS, Branch, agent, chat, plain, tool

Act = Callable[[float], list[Branch]]  # what begins at a moment, ms


@dataclass(frozen=True, slots=True)
class Scene:
    """`gap` ms of the framework's own time, then the act; None where it does not take place."""

    gap: float
    act: Act | None


@dataclass(frozen=True, slots=True)
class World:
    """What is around a story. `wrapped`: each act has a plain span around it. `beside`: so many ms
    last a tool that runs beside the story, whose agent is itself a tool then; None for neither.
    """

    before: tuple[Scene, ...]
    after: tuple[Scene, ...]
    tail: float
    wrapped: bool
    beside: float | None


# --- what happens ---------------------------------------------------------------------------------


def call(prefill: float, decode: float, **facts: Any) -> Act:
    """A streamed model call."""
    return lambda at: [chat(at, at + prefill + decode, ttft=prefill, **facts)]


def tools(*lasting: float, gap: float = 0, lanes: int | None = 1, **facts: Any) -> Act:
    """Tools in order, each beginning when one of so many lanes is free (and `gap` ms later); all at
    once where lanes is None.
    """

    def begin(at: float) -> list[Branch]:
        free = [at] * (lanes or len(lasting))
        branches = []
        for number, length in enumerate(lasting):
            start = min(free) + (gap if number else 0)
            free[free.index(min(free))] = start + length
            fields = {"name": f"t{number}", "call_id": f"c{number}", **facts}
            branches.append(tool(start, start + length, **fields))
        return branches

    return begin


ANSWER = Scene(3, call(20, 50, input=9, output=9))  # what a story ends with


def end_of(branches: Sequence[Branch], origin: float) -> float:
    """When the last of some branches ends, ms."""
    first = min(branch.span.start_ns for branch in branches)
    return origin + (max(branch.span.end_ns for branch in branches) - first) / MS


def tell(world: World, *scenes: Scene, answer: Scene | None = ANSWER) -> Branch:
    """The request in which the scenes take place; what the agent answers is one more."""
    ending = () if answer is None else (answer,)
    start = 0.0 if world.beside is None else 50.0
    at, children = start, list[Branch]()
    for scene in (*world.before, *scenes, *world.after, *ending):
        if scene.act is None:
            at += scene.gap if world.wrapped else 0  # the framework's span is there all the same
            continue
        at += scene.gap
        branches = scene.act(at)
        end = end_of(branches, at)
        children += [plain(at, end, *branches, name="node")] if world.wrapped else branches
        at = end
    story = agent(start, at + world.tail, *children, name="inner")
    return story if world.beside is None else _beside(world.beside, story, start, at + world.tail)


def _beside(lasts: float, story: Branch, start: float, end: float) -> Branch:
    """
    outer  |-chat-|-----tool, the story-----|--chat--|
                  |---tool beside it---|
    """
    own = tool(start, end, story, name="delegate", call_id="own")
    other = tool(start, start + lasts, name="beside", call_id="other")
    until = max(end, start + lasts)
    asks = {"own": "delegate", "other": "beside"}
    first = chat(0, start, ttft=20, input=7, output=9, asks=asks)
    last = chat(until + 5, until + 105, ttft=20, input=8, output=9)
    return agent(0, until + 105, first, own, other, last, name="outer")


# --- strategies -----------------------------------------------------------------------------------

LENGTHS = st.integers(min_value=20, max_value=900)
GAPS = st.integers(min_value=2, max_value=30)


@st.composite
def rounds(draw: st.DrawFn, name: str) -> tuple[Scene, ...]:
    """Up to three rounds without a fault: no two alike."""
    scenes: list[Scene] = []
    for number in range(draw(st.integers(min_value=0, max_value=3))):
        mark = f"{name}{number}"
        tokens = 100 + 10 * number + (5 if name == "after" else 0)
        facts = {"input": tokens, "output": 20, "asks": {mark: mark}}
        scenes.append(Scene(draw(GAPS), call(draw(LENGTHS), draw(LENGTHS), **facts)))
        ran = tools(draw(LENGTHS), name=mark, call_id=mark, arguments={"of": mark})
        scenes.append(Scene(draw(GAPS), ran))
    return tuple(scenes)


worlds = st.builds(
    World,
    before=rounds("before"),
    after=rounds("after"),
    tail=GAPS,
    wrapped=st.booleans(),
    beside=st.none() | st.integers(min_value=100, max_value=4000),
)
