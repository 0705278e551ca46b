"""Simulated time: who comes next when many things happen at once."""

from __future__ import annotations

from collections.abc import Generator
from heapq import heappop, heappush
from typing import TypeAlias, TypeVar

T = TypeVar("T")

# Something that takes time: it yields the moment (Unix ns) at which it wants to go on, is resumed
# then, and returns its result. Whoever uses what others use too yields before it does.
Process: TypeAlias = Generator[int, None, T]


def together(*processes: Process[T]) -> Process[list[T]]:
    """Run processes side by side, always resuming the one whose moment comes first. Returns their
    results in the order given.
    """
    results: dict[int, T] = {}
    waiting: list[tuple[int, int]] = []

    def advance(index: int) -> None:
        try:
            heappush(waiting, (next(processes[index]), index))
        except StopIteration as done:
            results[index] = done.value

    for index in range(len(processes)):
        advance(index)
    while waiting:
        moment, index = heappop(waiting)
        yield moment
        advance(index)
    return [results[index] for index in range(len(processes))]


def play(*processes: Process[T]) -> list[T]:
    """Run processes side by side to their end."""
    everything = together(*processes)
    while True:
        try:
            next(everything)
        except StopIteration as done:
            results: list[T] = done.value
            return results
