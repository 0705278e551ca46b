"""The support agent: people wait for its answers, in sessions of a few questions, by day.

Small questions are answered by a small model from the handbook. Release 1.9.0, rolled out shortly
before now, lost its parallel tools.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tracebudget.core.budget import Budget
from tracebudget.core.gateway import Gateway
from tracebudget.demo.agent import Agent, Visit
from tracebudget.demo.inference import Inference, Model
from tracebudget.demo.prompt import Prompt
from tracebudget.demo.schedule import Process
from tracebudget.demo.task import Round, Task, Tool, Use
from tracebudget.demo.work import Frame

MS, SECOND = 1_000_000, 1_000_000_000

APP = "support-agent"
OLD_RELEASE, NEW_RELEASE = "1.8.2", "1.9.0"
BUDGETS = (
    Budget("end_to_end", 4_300 * MS),
    Budget("turn", 2 * SECOND),
    Budget("ttft", 2 * SECOND),
    Budget("tpot", 30 * MS, 99.0),
    Budget("framework", 400 * MS, 99.0),
)
GATEWAY = Gateway(
    temperature=0.0,
    stream=True,
    parallel=True,
    max_parallel=4,
    timeout_ms=3_000,
    retry=1,
    tool_result_ttl_seconds=60,
    prefix_cache=True,
)
READ_ONLY = frozenset({"search_order", "customer_profile", "track_parcel", "search_catalog"})

LARGE = Model("orbit-30b", 70 * MS, 55_000, 8 * MS)
SMALL = Model("orbit-4b", 38 * MS, 14_000, 4_500_000)

SEARCH_ORDER = Tool("search_order", 820 * MS, 210, '{"order": "10482", "state": "shipped"}')
CUSTOMER = Tool("customer_profile", 700 * MS, 160, '{"since": 2021, "tier": "plus"}')
TRACK = Tool("track_parcel", 900 * MS, 240, '{"carrier": "DPX", "last": "left the depot"}')
PAYMENTS = Tool("list_payments", 1_080 * MS, 190, '{"paid": true, "refunded": false}')
CATALOG = Tool("search_catalog", 860 * MS, 320, '{"hits": ["kettle 1.7 l", "kettle 1.0 l"]}')
STOCK = Tool("check_stock", 740 * MS, 120, '{"kettle 1.7 l": 14}')

INSTRUCTIONS = (
    "You are the support agent of a shop. Look things up before you answer, and be brief.",
    1_180,  # tokens, with the definitions of the tools
)
HANDBOOK = ("Answer from the passage of the handbook, in two sentences.", 210)

SMALL_QUESTIONS = (
    "What are your opening hours?",
    "How long may I keep a parcel before I send it back?",
    "Do you ship to Norway?",
    "Can I pay by invoice?",
    "How do I change my address?",
)


def make_agents(inference: Inference) -> tuple[Agent, Agent, Agent]:
    """The agent with tools, and the two that answer small questions: small model, large model."""
    instructions, handbook = Prompt("system", *INSTRUCTIONS), Prompt("system", *HANDBOOK)
    return (
        Agent("support", inference, LARGE, instructions),
        Agent("handbook", inference, SMALL, handbook),
        Agent("handbook", inference, LARGE, handbook),
    )


def handle(
    at: int, agent: Agent, task: Task, visit: Visit, history: Prompt | None
) -> Process[tuple[Frame, Prompt]]:
    """One question to the service: its request handler, and the agent inside."""
    yield at
    begins = at + 4 * MS
    run, prompt = yield from agent.run(begins, task, visit, history)
    frame = Frame(
        at, run.end + 3 * MS, "POST /v1/messages", visit.session, (run,), route="/v1/messages"
    )
    return frame, prompt


def small_task(rng: Random) -> Task:
    question = rng.choice(SMALL_QUESTIONS)
    return Task(question, "You find that on page 12.", rng.randint(55, 75), search=question)


def task(rng: Random) -> Task:
    """A question that needs tools: one or two rounds of them."""
    return replace(rng.choice(TASKS)(str(rng.randint(10_000, 99_999))), answer_tokens=_length(rng))


def _length(rng: Random) -> int:
    return rng.randint(115, 150)


def _where_is_it(order: str) -> Task:
    return Task(
        f"Where is my order {order}?",
        "It left the depot this morning and arrives tomorrow.",
        0,
        (
            Round((Use(SEARCH_ORDER, {"order": order}), Use(CUSTOMER, {"order": order})), 46),
            Round((Use(TRACK, {"order": order}),), 30),
        ),
    )


def _refund(order: str) -> Task:
    return Task(
        f"I sent order {order} back and have no money yet.",
        "Your refund was started today; it takes two days.",
        0,
        (Round((Use(SEARCH_ORDER, {"order": order}), Use(PAYMENTS, {"order": order})), 48),),
    )


def _advice(order: str) -> Task:
    return Task(
        f"Which kettle fits the base that I bought with order {order}?",
        "The one with 1.7 litres fits, and there are 14 of them.",
        0,
        (
            Round((Use(CATALOG, {"text": "kettle"}), Use(SEARCH_ORDER, {"order": order})), 50),
            Round((Use(STOCK, {"item": "kettle 1.7 l"}),), 28),
        ),
    )


TASKS = (_where_is_it, _refund, _advice)
