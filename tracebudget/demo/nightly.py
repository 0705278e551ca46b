"""The nightly batch: a few workers go through the day's tickets. For each, one agent reads and
another writes a note.
"""

from __future__ import annotations

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

APP, RELEASE = "nightly-batch", "2026.11"
WORKERS = 3
BUDGETS = (Budget("end_to_end", 30 * SECOND, 90.0), Budget("tpot", 20 * MS, 90.0))
GATEWAY = Gateway(model="orbit-30b", timeout_ms=20_000)
READ_ONLY: frozenset[str] = frozenset()

MODEL = Model("orbit-30b", 70 * MS, 55_000, 8 * MS)
HANDOFF_NS = 18 * MS

THREAD = Tool("load_ticket", 1_400 * MS, 620, "The customer asks for the third time.", 20 * SECOND)
ORDERS = Tool("load_orders", 1_150 * MS, 260, '{"orders": 3}', 20 * SECOND)
SAVE = Tool("save_note", 1_300 * MS, 20, "saved", 20 * SECOND)


def make_agents(inference: Inference) -> tuple[Agent, Agent]:
    reader = Prompt("system", "Read the ticket and tell what went wrong.", 980)
    writer = Prompt("system", "Write a note for the morning.", 760)
    return (
        Agent("reader", inference, MODEL, reader),
        Agent("writer", inference, MODEL, writer),
    )


def review(at: int, ticket: str, agents: tuple[Agent, Agent], visit: Visit) -> Process[Frame]:
    """One ticket: the reader, then the writer."""
    reader, writer = agents
    read, _ = yield from reader.run(at + 6 * MS, _reading(ticket, visit.rng), visit)
    begins = read.end + HANDOFF_NS + visit.conditions.handoff_ns
    wrote, _ = yield from writer.run(begins, _writing(ticket, visit.rng), visit)
    return Frame(at, wrote.end + 9 * MS, "review_ticket", visit.session, (read, wrote))


def _reading(ticket: str, rng: Random) -> Task:
    uses = (Use(THREAD, {"ticket": ticket}), Use(ORDERS, {"ticket": ticket}))
    return Task(
        f"Ticket {ticket}", "Two parcels were mixed up.", rng.randint(90, 120), (Round(uses, 44),)
    )


def _writing(ticket: str, rng: Random) -> Task:
    round_ = Round((Use(SAVE, {"ticket": ticket, "note": "Two parcels were mixed up."}),), 110)
    return Task(f"Note for ticket {ticket}", "Saved.", rng.randint(22, 30), (round_,))
