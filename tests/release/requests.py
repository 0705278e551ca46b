"""Many requests of a release, alike but for chance."""

from __future__ import annotations

from random import Random

from tests.web.traces import Recorder, arrive
from tracebudget import models

FIRST = {"1.0": 1_000, "2.0": 20_000, "3.0": 40_000}  # trace ids of each release
ERROR = "503"


def one(
    number: int, release: str, *, ms: float = 1000, error: str = "", environment: str = ""
) -> Recorder:
    """A model call and two tools of its answer side by side, another call; `ms` in all."""
    more = {"deployment.environment.name": environment} if environment else {}
    made = Recorder(number, at_ms=number, **{"service.version": release}, **more)
    part = ms / 4
    root = made.agent("support", 0, ms)
    asks = [("search", f"a{number}"), ("fetch", f"b{number}")]
    made.chat(0, part, root, ttft=part / 4, tokens=(1200, 40), asks=asks)
    made.tool("search", part, 2 * part, root, call_id=f"a{number}", error=error)
    made.tool("fetch", part, 2 * part, root, call_id=f"b{number}")
    made.chat(2 * part + 5, ms, root, ttft=part / 4, tokens=(1500, 60))
    return made


def send(  # noqa: PLR0913  (a load has as many sides)
    app: models.App,
    release: str,
    *,
    count: int = 80,
    ms: float = 1000,
    errors: int = 0,
    environment: str = "",
) -> None:
    """So many requests of about `ms`, the first `errors` with a failed tool."""
    random = Random(f"{release} {ms}")
    first = FIRST[release]
    made = [
        one(
            first + number,
            release,
            ms=ms * random.uniform(0.9, 1.1),
            error=ERROR if number < errors else "",
            environment=environment,
        )
        for number in range(count)
    ]
    arrive(app.project, *made)
