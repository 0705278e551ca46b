"""The coding agent: long requests of many turns, sub-agents side by side, tests that take their
time. Its reviewer is a program of its own.
"""

from __future__ import annotations

from random import Random

from tracebudget.core.budget import Budget
from tracebudget.core.gateway import Gateway
from tracebudget.demo.agent import Agent
from tracebudget.demo.inference import Inference, Model
from tracebudget.demo.prompt import Prompt
from tracebudget.demo.task import Errand, Round, Task, Tool, Use

MS, SECOND = 1_000_000, 1_000_000_000

APP, RELEASE = "coding-agent", "0.42.0"
REVIEWER = "code-review"  # a service
BUDGETS = (
    Budget("end_to_end", 100 * SECOND, 90.0),
    Budget("turns", 10),
    Budget("ttft", 4 * SECOND),
)
GATEWAY = Gateway(model="nimbus-2-pro", stream=True, timeout_ms=60_000, prefix_cache=True)
READ_ONLY = frozenset({"read_file", "search_code", "fetch_page"})

MODEL = Model("nimbus-2-pro", 250 * MS, 80_000, 14 * MS)

READ = Tool("read_file", 40 * MS, 1_600, "def parse(text): ...")
LINES = Tool("read_lines", 35 * MS, 420, "41: def parse(text):")
DIFF = Tool("read_diff", 45 * MS, 460, "@@ -41,2 +41,4 @@")
SEARCH = Tool("search_code", 900 * MS, 420, "src/parser.py:41, src/lexer.py:12")
FETCH = Tool("fetch_page", 950 * MS, 1_100, "Release notes of the parser library", 8 * SECOND)
EDIT = Tool("edit_file", 60 * MS, 120, "2 lines changed")
TESTS = Tool("run_tests", 10 * SECOND, 380, "41 passed, 1 failed", 60 * SECOND, flood_tokens=9_000)
EXPLORE = Tool("explore", 0, 500, "")
REVIEW = Tool("review", 0, 300, "")

SCOUTED, TWICE = 0.45, 0.4  # how often scouts go first, and how often one change is not enough
FILES = ("parser", "lexer", "writer", "config", "server", "client", "cache", "store")


def make_agent(inference: Inference) -> Agent:
    """The coding agent, and the two it calls: a scout inside it, a reviewer behind HTTP."""
    scout = Agent(
        "explorer", inference, MODEL, Prompt("system", "Find the code that matters.", 2_200),
        is_streamed=False,
    )  # fmt: skip
    reviewer = Agent(
        "reviewer", inference, MODEL, Prompt("system", "Review the change.", 1_400),
        service=REVIEWER,
    )  # fmt: skip
    instructions = Prompt("system", "You are a coding agent. Change code, then test it.", 2_400)
    others = {"explorer": scout, "reviewer": reviewer}
    return Agent("coder", inference, MODEL, instructions, others=others)


def task(rng: Random) -> Task:
    """A change to make: look, change, test; sometimes once more; most are reviewed."""
    one, two, three = rng.sample(FILES, 3)
    rounds = [_look(one)]
    if rng.random() < SCOUTED:
        rounds.append(Round((_explore(one), _explore(two)), 140))
    rounds += [_change(one, rng), _test(one, rng)]
    if rng.random() < TWICE:
        rounds += [_change(two, rng), _test(two, rng)]
    rounds.append(_review(one))
    return Task(
        f"Make the {one} accept comments, and keep the {two} as it is.",
        f"The {one} accepts comments now; all tests pass.",
        rng.randint(150, 230),
        tuple(rounds),
        wander=Round((Use(SEARCH, {"text": f"{three} {{n}}"}),), 60),
    )


def _look(name: str) -> Round:
    uses = (Use(FETCH, {"page": f"{name}-notes"}), Use(READ, {"path": f"src/{name}.py"}))
    return Round(uses, 90)


def _explore(name: str) -> Use:
    rounds = (
        Round((Use(SEARCH, {"text": name}),), 40),
        Round((Use(LINES, {"path": f"src/{name}.py", "from": "30"}),), 36),
    )
    task_ = Task(f"Where is the {name}?", f"In src/{name}.py, line 41.", 80, rounds)
    return Use(EXPLORE, {"what": name}, Errand("explorer", task_))


def _change(name: str, rng: Random) -> Round:
    use = Use(EDIT, {"path": f"src/{name}.py", "patch": "@@ -41,2 +41,4 @@"})
    return Round((use,), rng.randint(240, 330))


def _test(name: str, rng: Random) -> Round:
    return Round((Use(TESTS, {"path": f"tests/test_{name}.py"}),), rng.randint(30, 50))


def _review(name: str) -> Round:
    rounds = (Round((Use(DIFF, {"path": f"src/{name}.py"}),), 40),)
    task_ = Task(f"Review src/{name}.py", "Fine, but name the constant.", 110, rounds)
    return Round((Use(REVIEW, {"path": f"src/{name}.py"}, Errand("reviewer", task_)),), 60)
