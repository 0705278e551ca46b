"""What is learnt of an app: a profile that its requests are analysed by, until nothing changes."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from statistics import median

import pytest

from tests.web.traces import AFTERWARDS, ARRIVAL, MS, Recorder
from tracebudget import learning, models, pipeline, store
from tracebudget.core.profile import Profile
from tracebudget.learning import KEPT_FOR, replaces
from tracebudget.queries.traces import document

A_MS, PER_TOKEN_MS, TPOT_MS = 90, 0.04, 9


def question(number: int, rng: Random, *, known: bool, app: str = "shop") -> tuple[Recorder, float]:
    """A request of one call by a law of its service; and when its first token came, in ms."""
    read, told = rng.randint(200, 6_000), rng.randint(20, 300)
    prefill = (A_MS + PER_TOKEN_MS * read) * rng.uniform(0.95, 1.05)
    end = prefill + TPOT_MS * (told - 1) * rng.uniform(0.95, 1.05)
    made = Recorder(number, app=app, at_ms=number * 1000)
    root = made.agent("support", 0, end)
    said = {"ttft": prefill} if known else {}
    made.chat(0, end, root, tokens=(read, told), **said)
    return made, prefill


def arrive(project: models.Project, *requests: Recorder) -> None:
    for request in requests:
        store.store_spans(project, request.spans, now=ARRIVAL)


def worked(at: datetime = AFTERWARDS) -> list[int]:
    """What a worker does at that time: traces analysed, stretches added up, apps looked at."""

    def clock() -> datetime:
        return at

    return [pipeline.analyze_due(clock), store.refresh_rollups(clock), learning.learn(clock)]


def calls(project: models.Project) -> dict[int, dict[str, object]]:
    """The model call of each request, by the request's number, with its interval."""
    found = {}
    for trace in models.Trace.objects.filter(project=project):
        analysis = document(trace)
        assert analysis is not None
        (call,) = (step for step in analysis["steps"] if step["kind"] == "model_call")
        found[trace.trace_id.int] = call | {"interval": analysis["ttft_intervals"]}
    return found


@pytest.mark.parametrize("known", [0, 3], ids=["none told", "one in three told"])
def test_first_tokens_are_inferred_once_there_are_enough_calls(
    project: models.Project, known: int
) -> None:
    """40 requests come in at once. They are analysed, learnt from, and analysed again."""
    rng = Random(1)
    made = [question(n, rng, known=bool(known) and n % known == 0) for n in range(1, 41)]
    arrive(project, *(request for request, _ in made))
    assert worked() == [40, 1, 1]
    assert {call["ttft_source"] for call in calls(project).values()} <= {"measured", "unknown"}
    worked(AFTERWARDS + timedelta(minutes=1))
    inferred = {n: c for n, c in calls(project).items() if c["ttft_source"] == "inferred"}
    assert len(inferred) >= 0.9 * sum(
        c["ttft_source"] != "measured" for c in calls(project).values()
    )
    truths = {n: prefill * MS for n, (_, prefill) in enumerate(made, start=1)}
    errors = [
        abs(int(str(call["ttft_ns"])) - truths[n]) / truths[n] for n, call in inferred.items()
    ]
    assert median(errors) <= 0.12
    assert all(call["interval"] for call in inferred.values())


def test_learning_and_analysing_come_to_rest(project: models.Project) -> None:
    """A second look finds the same, so that nothing is analysed a third time."""
    rng = Random(2)
    arrive(project, *(question(n, rng, known=False)[0] for n in range(1, 31)))
    worked()
    learnt = models.Learned.objects.get().profile
    assert worked(AFTERWARDS + timedelta(minutes=5)) == [30, 1, 1]
    for minutes in (10, 100, 1000):
        assert worked(AFTERWARDS + timedelta(minutes=minutes)) == [0, 0, 0]
    assert models.Learned.objects.get().profile == learnt


def test_few_calls_teach_nothing(project: models.Project) -> None:
    rng = Random(3)
    arrive(project, *(question(n, rng, known=False)[0] for n in range(1, 6)))
    worked()
    learnt = models.Learned.objects.get()
    assert (learnt.profile, learnt.made_at) == (None, AFTERWARDS)
    assert worked(AFTERWARDS + timedelta(minutes=9)) == [0, 0, 0]


def test_apps_do_not_learn_from_one_another(project: models.Project) -> None:
    rng = Random(4)
    arrive(project, *(question(n, rng, known=False)[0] for n in range(1, 31)))
    arrive(project, question(99, rng, known=False, app="new")[0])
    worked()
    worked(AFTERWARDS + timedelta(minutes=9))
    assert calls(project)[99]["ttft_source"] == "unknown"


def test_a_profile_of_another_version_is_learnt_anew(project: models.Project) -> None:
    rng = Random(6)
    arrive(project, *(question(n, rng, known=False)[0] for n in range(1, 31)))
    pipeline.analyze_due(lambda: AFTERWARDS)
    store.refresh_rollups(lambda: AFTERWARDS)
    models.Learned.objects.update(profile={"fits": {"lpx": {"slope": 1}}})
    arrive(project, question(31, rng, known=False)[0])
    assert worked() == [1, 0, 1]
    learnt = models.Learned.objects.get().profile
    assert learnt is not None
    assert Profile.of(learnt) is not None


# --- when a profile is replaced -------------------------------------------------------------------

OLD = Profile(simple_ns={"m": 100}, made_at="2026-01-01T12:00:00+00:00", calls=100)
THEN = datetime.fromisoformat(str(OLD.made_at))


@pytest.mark.parametrize(
    ("new", "later", "is_replaced"),
    [
        (Profile(simple_ns={"m": 100}, calls=1000), 2 * KEPT_FOR, False),
        (Profile(simple_ns={"m": 105}, calls=1000), 2 * KEPT_FOR, False),
        (Profile(simple_ns={"m": 150}, calls=120), KEPT_FOR / 2, False),
        (Profile(simple_ns={"m": 150}, calls=120), KEPT_FOR, True),
        (Profile(simple_ns={"m": 150}, calls=150), KEPT_FOR / 2, True),
        (Profile(simple_ns={"m": 100, "n": 90}, calls=101), KEPT_FOR / 2, True),
        (Profile(calls=101), KEPT_FOR / 2, False),
        (Profile(calls=101), KEPT_FOR, True),
    ],
    ids=[
        "the same", "hardly another", "too soon", "another", "rests on far more", "knows more",
        "knows less, and soon", "knows less",
    ],
)  # fmt: skip
def test_a_profile_is_replaced_where_readers_would_see_it(
    new: Profile, later: timedelta, is_replaced: bool
) -> None:
    assert replaces(new, OLD, now=THEN + later) is is_replaced


def test_the_first_profile_is_taken() -> None:
    assert replaces(OLD, None, now=THEN)
