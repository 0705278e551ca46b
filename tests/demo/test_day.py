"""The day that the demo sends: each planted fault is found where it was planted, and nothing else
is found anywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tests.demo.conftest import NOW_NS, Seen
from tracebudget.core.finding import DETECTORS
from tracebudget.demo import support
from tracebudget.demo.day import DAY, DEFAULT_SEED, HOUR, MINUTE, ROLLOUT, simulate
from tracebudget.demo.fault import FAULTS, NO_FAULT
from tracebudget.demo.spans import SpanWriter


def mistakes(day: list[Seen]) -> Counter[tuple[str, ...]]:
    """Where findings and plan differ: fault, missed codes, codes too many."""
    return Counter(
        (
            seen.request.fault,
            f"missed {sorted(seen.request.codes - seen.codes)}",
            f"too many {sorted(seen.codes - seen.request.codes)}",
        )
        for seen in day
        if seen.codes != seen.request.codes
    )


def test_each_fault_is_found_and_nothing_else_is(day: list[Seen]) -> None:
    assert mistakes(day) == {}


def test_another_day_is_as_clear(see: Callable[[int], list[Seen]]) -> None:
    assert mistakes(see(1)) == {}


def test_every_row_of_the_troubleshooting_table_is_planted(day: list[Seen]) -> None:
    planted = frozenset().union(*(seen.request.codes for seen in day))
    assert planted == DETECTORS.keys()
    assert {seen.request.fault for seen in day} == FAULTS.keys()


def test_most_requests_are_clean(day: list[Seen]) -> None:
    clean = [seen for seen in day if not seen.request.codes]
    assert len(clean) > 0.75 * len(day)
    assert all(seen.request.fault == NO_FAULT for seen in clean)


def test_every_request_is_whole(day: list[Seen]) -> None:
    assert {seen.analysis.identity.state for seen in day} == {"complete"}
    assert all(seen.analysis.identity.session_id for seen in day)


def test_it_fills_a_day_and_ends_now(day: list[Seen]) -> None:
    starts = [seen.request.root.start for seen in day]
    assert starts == sorted(starts)
    assert NOW_NS - DAY <= starts[0] < NOW_NS - DAY + HOUR
    assert NOW_NS - 5 * MINUTE < max(seen.request.root.end for seen in day) <= NOW_NS


def test_there_are_busy_and_quiet_hours(day: list[Seen]) -> None:
    hours = Counter(
        (seen.request.root.start - NOW_NS + DAY) // HOUR
        for seen in day
        if seen.request.app == support.APP
    )
    assert max(hours.values()) > 10 * min(hours[hour] for hour in range(24))


def test_the_new_release_broke_a_promise_that_the_old_one_kept(day: list[Seen]) -> None:
    mine = [seen for seen in day if seen.request.app == support.APP]
    rollout = NOW_NS - DAY + ROLLOUT
    old = [seen for seen in mine if seen.request.root.start < rollout]
    new = [seen for seen in mine if seen.request.root.start >= rollout]
    assert {seen.analysis.identity.version for seen in old} == {support.OLD_RELEASE}
    assert {seen.analysis.identity.version for seen in new} == {support.NEW_RELEASE}
    for metric in ("end_to_end", "turn"):
        assert share_over(old, metric) < 0.05
        assert share_over(new, metric) > 0.3
        assert sum(seen.is_over(metric) for seen in new[-20:]) >= 3


def share_over(day: list[Seen], metric: str) -> float:
    return sum(seen.is_over(metric) for seen in day) / len(day)


def test_queues_form_in_the_rush_alone(day: list[Seen]) -> None:
    queued = [seen for seen in day if "queueing" in seen.request.codes]
    ago = [NOW_NS - seen.request.root.start for seen in queued]
    assert len(queued) > 30
    assert 2 * HOUR < min(ago) < max(ago) < 4 * HOUR


def test_five_dialects_are_spoken(day: list[Seen]) -> None:
    spoken = {
        node.step.dialect
        for seen in day
        for node in seen.analysis.report.steps
        if node.step is not None
    }
    assert spoken == {"gen_ai", "ai_sdk_legacy", "openinference", "openllmetry", "vllm"}


def test_the_same_seed_is_the_same_day_whenever_it_ends() -> None:
    later = 17 * HOUR + 1
    one, two = simulate(NOW_NS, DEFAULT_SEED), simulate(NOW_NS + later, DEFAULT_SEED)
    assert [(r.app, r.fault, r.root.start + later, r.root.end + later) for r in one] == [
        (r.app, r.fault, r.root.start, r.root.end) for r in two
    ]


def test_ids_follow_from_the_seed(day: list[Seen]) -> None:
    spans = SpanWriter(DEFAULT_SEED).write(day[0].request)
    contexts = [span.get_span_context() for span in spans]
    assert {f"{c.span_id:016x}" for c in contexts if c} == {s.span_id for s in day[0].spans}
