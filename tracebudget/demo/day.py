"""A day of three apps: who comes when, what goes wrong, and which findings that must lead to.

    24 h ago                                                                              now
    support   :::::::::::::......                        .........::::::::|rush|::::::::|1.9.0|
    coding     .::::.....                                     ....:::::::::::::::::::::::
    nightly                          |======|

All follows from the seed; the clock is only where the day ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from random import Random

from tracebudget.demo import coding, nightly, support
from tracebudget.demo.agent import Agent, Visit
from tracebudget.demo.fault import FAULTS, NO_FAULT
from tracebudget.demo.inference import Inference
from tracebudget.demo.schedule import Process, play
from tracebudget.demo.work import Call, Frame, Request, Run, ToolRun, Work

MS, SECOND = 1_000_000, 1_000_000_000
MINUTE, HOUR = 60 * SECOND, 3_600 * SECOND
DAY = 24 * HOUR

DEFAULT_SEED = 7

# Sessions that begin in each hour of the day, which ends in the afternoon.
SUPPORT_SESSIONS = (
    46, 43, 46, 40, 35, 32, 27, 19, 11, 5, 4, 3, 3, 4, 7, 12, 22, 32, 40, 49, 51, 54, 51, 49,
)  # fmt: skip
CODING_SESSIONS = (9, 9, 8, 6, 4, 3, 3, 2, 1, 1, 0, 0, 0, 0, 0, 2, 6, 10, 12, 11, 8, 10, 11, 10)
TICKETS, NIGHT_BEGINS = 130, 11 * HOUR  # after the day began

SMALL_SHARE = 0.18  # of support's questions: the handbook answers them
THINKING = (20 * SECOND, 100 * SECOND)  # between an answer and the next question
CODING_THINKING = (40 * SECOND, 240 * SECOND)

# The rush: neighbours of ours fill the inference service over noon.
RUSH = (DAY - 180 * MINUTE, DAY - 150 * MINUTE)
NEIGHBOUR_EVERY, NEIGHBOUR_NS = 150 * MS, 1_150 * MS
ROLLOUT = DAY - 50 * MINUTE  # of support's new release

# Which faults strike an app's requests, by weight; which share they strike stands in `_Day`.
Faults = Mapping[str, int]
SUPPORT_FAULTS: Faults = {
    "repeated tool": 5, "two generations": 6, "tool retry": 5, "slow tool": 3, "slow gateway": 5,
    "slow prefill": 6,
}  # fmt: skip
CODING_FAULTS: Faults = {
    "rewritten history": 3, "no prefix cache": 3, "huge result": 3, "wandering": 3,
    "broken arguments": 3, "rate limit": 4, "tool timeout": 3, "heavy framework": 3,
    "long answer": 2,
}  # fmt: skip
NIGHTLY_FAULTS: Faults = {"halting decode": 3, "slow decode": 3, "slow hand-off": 3}
LARGE_MODEL_SHARE = 0.15  # of small questions

QUEUE_NS, QUEUE_SHARE = 50 * MS, 0.30  # of the time to the first token: docs/findings, `queueing`


def simulate(now_ns: int, seed: int = DEFAULT_SEED) -> list[Request]:
    """The requests of the day before `now_ns` (Unix ns) that had ended by then, in order."""
    day = _Day(now_ns - DAY, seed)
    play(*day.processes())
    ended = [request for request in day.requests if request.root.end <= now_ns]
    return sorted(ended, key=lambda request: request.root.start)


class _Day:
    """The day under way: two inference services, and what was seen so far."""

    def __init__(self, start: int, seed: int) -> None:
        self.start = start
        self.seed = seed
        self.requests: list[Request] = []
        self.own = Inference("vllm", slots=8, network_ns=9 * MS, is_traced=True)
        self.bought = Inference("nimbus", slots=64, network_ns=45 * MS, is_traced=False)
        self.support = support.make_agents(self.own)
        self.coder = coding.make_agent(self.bought)
        self.night_shift = nightly.make_agents(self.own)
        self.support_faults = _Misfortune(SUPPORT_FAULTS, 0.055, self._rng("support faults"))
        self.coding_faults = _Misfortune(CODING_FAULTS, 0.36, self._rng("coding faults"))
        self.nightly_faults = _Misfortune(NIGHTLY_FAULTS, 0.25, self._rng("nightly faults"))

    def processes(self) -> Iterator[Process[None]]:
        for number, at in enumerate(self._arrivals(support.APP, SUPPORT_SESSIONS)):
            yield self._support_session(f"s-{number:04d}", at)
        for number, at in enumerate(self._arrivals(coding.APP, CODING_SESSIONS)):
            yield self._coding_session(f"c-{number:03d}", at)
        for worker in range(nightly.WORKERS):
            yield self._night_worker(range(worker, TICKETS, nightly.WORKERS))
        yield self._neighbours()

    def _rng(self, name: str) -> Random:
        """Luck of its own for each session: none depends on how many there were before it."""
        return Random(f"{self.seed} {name}")  # noqa: S311  (nothing is kept secret by it)

    def _arrivals(self, app: str, sessions: Sequence[int]) -> list[int]:
        rng = self._rng(app)
        return [
            self.start + hour * HOUR + rng.randrange(HOUR)
            for hour, count in enumerate(sessions)
            for _ in range(count)
        ]

    # --- support --------------------------------------------------------------------------------

    def _support_session(self, session: str, at: int) -> Process[None]:
        rng, history = self._rng(session), None
        for _ in range(rng.randint(1, 4)):
            yield at
            is_small = rng.random() < SMALL_SHARE
            task = support.small_task(rng) if is_small else support.task(rng)
            fault = self._support_fault(at, rng, is_small=is_small)
            visit = Visit(session, FAULTS[fault].conditions, rng)
            agent = self._support_agent(visit, is_small=is_small)
            frame, prompt = yield from support.handle(
                at, agent, task, visit, None if is_small else history
            )
            history = history if is_small else prompt
            release = support.NEW_RELEASE if self._is_new(at) else support.OLD_RELEASE
            self._note(support.APP, release, frame, fault)
            at = frame.end + rng.randint(*THINKING)

    def _support_agent(self, visit: Visit, *, is_small: bool) -> Agent:
        with_tools, small, large = self.support
        if not is_small:
            return with_tools
        return large if visit.conditions.large_model else small

    def _support_fault(self, at: int, rng: Random, *, is_small: bool) -> str:
        """The new release runs tools one by one; in the rush, the rush is enough."""
        if RUSH[0] <= at - self.start <= RUSH[1] + MINUTE:
            return NO_FAULT
        if is_small:
            return "large model" if rng.random() < LARGE_MODEL_SHARE else NO_FAULT
        if self._is_new(at):
            return "serial tools"
        return self.support_faults.draw(rng)

    def _is_new(self, at: int) -> bool:
        return at - self.start >= ROLLOUT

    def _neighbours(self) -> Process[None]:
        for at in range(self.start + RUSH[0], self.start + RUSH[1], NEIGHBOUR_EVERY):
            yield at
            self.own.occupy(at, NEIGHBOUR_NS)

    # --- coding and the night -------------------------------------------------------------------

    def _coding_session(self, session: str, at: int) -> Process[None]:
        rng = self._rng(session)
        for _ in range(rng.randint(1, 2)):
            yield at
            fault = self.coding_faults.draw(rng)
            visit = Visit(session, FAULTS[fault].conditions, rng)
            run, _ = yield from self.coder.run(at, coding.task(rng), visit)
            self._note(coding.APP, coding.RELEASE, run, fault)
            at = run.end + rng.randint(*CODING_THINKING)

    def _night_worker(self, tickets: range) -> Process[None]:
        at = self.start + NIGHT_BEGINS
        for number in tickets:
            yield at
            ticket = f"T-{7000 + number}"
            rng = self._rng(ticket)
            fault = self.nightly_faults.draw(rng)
            visit = Visit("night", FAULTS[fault].conditions, rng)
            frame = yield from nightly.review(at, ticket, self.night_shift, visit)
            self._note(nightly.APP, nightly.RELEASE, frame, fault)
            at = frame.end + rng.randint(10 * SECOND, 60 * SECOND)

    def _note(self, app: str, release: str, root: Run | Frame, fault: str) -> None:
        codes = FAULTS[fault].codes
        if any(map(_was_queued, calls_of(root))):
            codes |= {"queueing"}
        self.requests.append(Request(app, release, root, fault, codes))


class _Misfortune:
    """Strikes a share of requests, and in the long run with each fault as often as it weighs."""

    def __init__(self, faults: Faults, share: float, rng: Random) -> None:
        deck = [fault for fault, weight in faults.items() for _ in range(weight)]
        rng.shuffle(deck)
        self.deck, self.share = cycle(deck), share

    def draw(self, rng: Random) -> str:
        return next(self.deck) if rng.random() < self.share else NO_FAULT


def calls_of(work: Work) -> Iterator[Call]:
    """Every model call in a piece of work."""
    if isinstance(work, Call):
        yield work
    elif isinstance(work, Run | Frame | ToolRun):
        for inner in work.inside:
            yield from calls_of(inner)


def _was_queued(call: Call) -> bool:
    queue = call.serving.queue_ns if call.serving is not None else 0
    return queue > QUEUE_NS and queue > QUEUE_SHARE * (call.ttft_ns or 0)
