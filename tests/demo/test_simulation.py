"""The parts that the day is simulated with."""

from __future__ import annotations

from random import Random

from tracebudget.demo import coding
from tracebudget.demo.agent import Agent, Visit
from tracebudget.demo.fault import HEALTH, Cache, Conditions
from tracebudget.demo.inference import MS, SECOND, Inference, Model, Question
from tracebudget.demo.prompt import Prompt
from tracebudget.demo.schedule import Process, play, together
from tracebudget.demo.task import Round, Task, Tool, Use
from tracebudget.demo.work import Call, ToolRun

MODEL = Model("m", 100 * MS, MS, 10 * MS)


def work(log: list[str], name: str, *moments: int) -> Process[str]:
    for moment in moments:
        yield moment
        log.append(f"{name}{moment}")
    return name


def test_whoever_is_first_in_time_goes_on_first() -> None:
    log: list[str] = []
    assert play(work(log, "a", 1, 4), work(log, "b", 2, 3)) == ["a", "b"]
    assert log == ["a1", "b2", "b3", "a4"]


def test_processes_inside_a_process_take_their_turns_with_those_outside() -> None:
    log: list[str] = []
    play(together(work(log, "a", 1, 4), work(log, "b", 3)), work(log, "c", 2, 5))
    assert log == ["a1", "c2", "b3", "a4", "c5"]


def ask(
    inference: Inference,
    prompt: Prompt,
    *,
    at: int = 0,
    tokens: int = 2,
    conditions: Conditions = HEALTH,
) -> Call:
    question = Question(MODEL, prompt, tokens)
    return inference.answer(at, question, session="s", rng=Random(1), conditions=conditions)


def inference(slots: int = 1, network_ns: int = 0) -> Inference:
    return Inference("p", slots=slots, network_ns=network_ns, is_traced=True)


def test_prefill_takes_what_is_not_cached() -> None:
    """The second prompt begins with the first one's 320 tokens, and its answer's 2."""
    service, first = inference(), Prompt("system", "", 320)
    call = ask(service, first)
    assert call.ttft_ns == 420 * MS
    again = ask(service, call.after.plus("user", "", 40), at=SECOND)
    assert (again.cached_tokens, again.ttft_ns) == (320, (100 + 42) * MS)


def test_without_a_cache_everything_is_computed_again() -> None:
    service, first = inference(), Prompt("system", "", 320)
    ask(service, first)
    again = ask(service, first, at=SECOND, conditions=Conditions(cache=Cache.OFF))
    assert (again.cached_tokens, again.ttft_ns) == (0, 420 * MS)


def test_a_rewritten_prompt_keeps_its_first_message_alone() -> None:
    service = inference()
    prompt = Prompt("system", "", 160).plus("user", "", 160)
    ask(service, prompt)
    again = ask(service, prompt.rewritten(), at=SECOND)
    assert again.prompt.tokens == 320
    assert again.cached_tokens == 160


def test_calls_wait_for_a_slot() -> None:
    """slot |----- first -----|----- second -----|"""
    service = inference(network_ns=5 * MS)
    first = ask(service, Prompt("system", "", 100))
    second = ask(service, Prompt("system", "", 100), at=50 * MS)
    assert first.serving is not None
    assert second.serving is not None
    assert second.serving.queue_ns == first.serving.end - 55 * MS
    assert second.serving.start == 55 * MS


def test_an_agent_that_turns_to_a_tool_reads_its_result_in_the_next_prompt() -> None:
    tool = Tool("look", 50 * MS, 30, "seen")
    task = Task("q", "a", 8, (Round((Use(tool, {"at": "it"}), Use(tool, {"at": "that"})), 6),))
    agent = Agent("agent", inference(slots=4), MODEL, Prompt("system", "", 100))
    ((run, _),) = play(agent.run(0, task, Visit("s", HEALTH, Random(1))))
    first, one, other, last = run.inside
    assert isinstance(first, Call)
    assert isinstance(one, ToolRun)
    assert isinstance(other, ToolRun)
    assert isinstance(last, Call)
    assert last.prompt.tokens == first.prompt.tokens + 6 + 2 * 30
    assert first.end < one.start < other.start < one.end  # side by side
    assert max(one.end, other.end) < last.start


def test_an_agent_called_like_a_tool_works_inside_it() -> None:
    service = Inference("p", slots=9, network_ns=0, is_traced=False)
    agent = coding.make_agent(service)
    ((run, _),) = play(agent.run(0, coding.task(Random(3)), Visit("s", HEALTH, Random(1))))
    review = run.inside[-2]  # before the last call
    assert isinstance(review, ToolRun)
    (inner,) = review.inside
    assert review.start < inner.start < inner.end < review.end
    assert inner.service == coding.REVIEWER
