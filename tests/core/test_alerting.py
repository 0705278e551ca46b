"""When alerts open and close. In the pictures a letter is a request and a dot a minute without one:
`x` over its budget, `o` within.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracebudget.core.alerting import (
    DEFAULT_RULE,
    HOUR_NS,
    MINUTE_NS,
    NOTHING_JUDGED,
    STALE_NS,
    Change,
    JudgedRequest,
    Look,
    Rule,
    Verdict,
    Watch,
    Window,
    check_window,
    look,
    recovery_ns,
    replay,
)

DAY_NS = 24 * HOUR_NS


def drawn(picture: str) -> list[JudgedRequest]:
    """The requests of a picture, one a minute from minute 1 on."""
    return [
        JudgedRequest(minute * MINUTE_NS, letter == "x")
        for minute, letter in enumerate(picture.replace(" ", ""), start=1)
        if letter != "."
    ]


def minutes(picture: str, *, then: int = 0, rule: Rule = DEFAULT_RULE) -> list[tuple[int, int]]:
    """When the alerts of a picture open and close, in minutes; an open one closes at -1."""
    length = len(picture.replace(" ", "")) + then
    alerts = replay(drawn(picture), objective=95, rule=rule, until_ns=length * MINUTE_NS)
    return [
        (alert.opened_ns // MINUTE_NS, (alert.closed_ns or -MINUTE_NS) // MINUTE_NS)
        for alert in alerts
    ]


# --- the verdict ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "verdict"),
    [
        (NOTHING_JUDGED, Verdict.UNKNOWN),
        (Window(last_over=3, judged=0, over=0), Verdict.UNKNOWN),
        (Window(last_over=2, judged=4, over=2), Verdict.KEPT),
        (Window(last_over=3, judged=3, over=3), Verdict.BREACHED),
        (Window(last_over=3, judged=60, over=3), Verdict.KEPT),  # 95 % exactly is 95 %
        (Window(last_over=3, judged=59, over=3), Verdict.BREACHED),
        (Window(last_over=20, judged=1_000, over=50), Verdict.KEPT),
        (Window(last_over=20, judged=1_000, over=51), Verdict.BREACHED),
    ],
)
def test_breached_when_lately_over_and_objective_missed(window: Window, verdict: Verdict) -> None:
    assert check_window(window, objective=95, rule=DEFAULT_RULE) == verdict


@pytest.mark.parametrize("objective", [90, 95, 95.1, 99, 99.9, 99.99])
def test_objective_that_is_met_exactly_is_met(objective: float) -> None:
    over = round((100 - objective) * 100)
    exact = Window(last_over=20, judged=10_000, over=over)
    assert check_window(exact, objective=objective, rule=DEFAULT_RULE) == Verdict.KEPT
    worse = Window(last_over=20, judged=10_000, over=over + 1)
    assert check_window(worse, objective=objective, rule=DEFAULT_RULE) == Verdict.BREACHED


# --- one alert and its history --------------------------------------------------------------------


def test_third_request_over_opens_and_ten_minutes_within_close() -> None:
    """Once 18 good ones have come, only two of the last twenty are over."""
    assert minutes("oooxxx" + "o" * 30) == [(6, 34)]


def test_two_over_are_no_alert() -> None:
    assert minutes("xx" + "o" * 30) == []


def test_many_requests_over_are_one_alert() -> None:
    assert minutes("x" * 90) == [(3, -1)]


def test_last_twenty_may_reach_back_beyond_the_hour() -> None:
    """Two slow ones before a pause, one after it: the hour misses its 95 % at 15 of 16."""
    assert minutes("xx" + "." * 80 + "o" * 15 + "x" + "o" * 60)[0][0] == 98


def test_hour_that_keeps_its_objective_is_no_breach() -> None:
    """Three of the last hundred are over, but the hour of the third has 19 of 20 within."""
    rule = Rule(over=3, of_last=100)
    assert minutes("xx" + "." * 80 + "o" * 19 + "x" + "o" * 60, rule=rule) == []


def test_breach_while_recovering_starts_the_ten_minutes_anew() -> None:
    """Within since minute 21; the third one over comes at 29, eight minutes into the calm."""
    assert minutes("xxx" + "o" * 23 + "xxx" + "o" * 28) == [(3, 57)]


def test_silence_is_no_recovery() -> None:
    """The hour passes without a request: nothing is known, and the alert stays open."""
    assert minutes("xxx", then=300) == [(3, -1)]


def test_alert_without_requests_ends_after_a_week() -> None:
    week = STALE_NS // MINUTE_NS
    (opened, closed), *rest = minutes("xxx", then=week + 120)
    assert (opened, rest) == (3, [])
    # The last hour with something in it is the hour of the breach.
    assert closed == 3 + 59 + week


def test_nightly_job_opens_at_its_third_bad_night_and_closes_by_a_good_one() -> None:
    night = "." * (24 * 60 - 1)
    assert minutes(f"x{night}x{night}x{night}o{night}", rule=DEFAULT_RULE) == [
        (2 * 1440 + 1, 3 * 1440 + 11)
    ]


def test_return_within_the_hour_is_the_same_alert_and_must_be_calm_for_longer() -> None:
    """Closed at 31, back at 42: the calm that ends it lasts 20 minutes then."""
    alerts = replay(
        drawn("xxx" + "o" * 28 + "o" * 8 + "xxx" + "o" * 60),
        objective=95,
        rule=DEFAULT_RULE,
        until_ns=100 * MINUTE_NS,
    )
    assert [(alert.opened_ns, alert.reopenings) for alert in alerts] == [(3 * MINUTE_NS, 1)]
    assert alerts[0].closed_ns == (42 + 18 + 20) * MINUTE_NS


def test_return_after_an_hour_is_a_new_alert() -> None:
    assert minutes("xxx" + "o" * 28 + "o" * 61 + "xxxxx" + "o" * 40)[0] == (3, 31)
    assert len(minutes("xxx" + "o" * 28 + "o" * 61 + "xxxxx" + "o" * 40)) == 2


# --- whatever comes -------------------------------------------------------------------------------

VERDICTS = st.lists(
    st.tuples(st.sampled_from(list(Verdict)), st.integers(1, 3 * HOUR_NS)), max_size=60
)


def looks(steps: list[tuple[Verdict, int]]) -> list[tuple[Watch | None, Verdict, int, Look]]:
    """What was remembered, what was seen, when, and what came of it."""
    watch: Watch | None = None
    now, seen = 0, []
    for verdict, later in steps:
        now += later
        before, result = watch, look(watch, verdict, now_ns=now, rule=DEFAULT_RULE)
        watch = result.watch
        seen.append((before, verdict, now, result))
    return seen


def is_open(watch: Watch | None) -> bool:
    return watch is not None and watch.closed_ns is None


@given(VERDICTS)
def test_only_a_breach_opens_and_only_calm_or_a_silent_week_closes(
    steps: list[tuple[Verdict, int]],
) -> None:
    for before, verdict, now, (after, change) in looks(steps):
        if change in {Change.OPENED, Change.REOPENED}:
            assert verdict == Verdict.BREACHED
            assert is_open(after)
            assert not is_open(before)
        elif change is not None:
            assert before is not None
            assert before.closed_ns is None
            assert not is_open(after)
            if change == Change.RECOVERED:
                assert verdict == Verdict.KEPT
                assert before.kept_since_ns is not None
                assert now - before.kept_since_ns >= recovery_ns(before, DEFAULT_RULE)
            else:
                assert verdict == Verdict.UNKNOWN
                assert now - before.judged_ns >= STALE_NS
        else:
            assert is_open(before) == is_open(after)


@given(VERDICTS)
def test_breach_is_never_left_without_an_open_alert(steps: list[tuple[Verdict, int]]) -> None:
    for _, verdict, _, (after, _) in looks(steps):
        if verdict == Verdict.BREACHED:
            assert is_open(after)


@given(VERDICTS)
def test_looking_again_at_once_changes_nothing(steps: list[tuple[Verdict, int]]) -> None:
    for _, verdict, now, (after, _) in looks(steps):
        again = look(after, verdict, now_ns=now, rule=DEFAULT_RULE)
        assert again.change is None or (again.change == Change.REOPENED and not is_open(after))
        assert again.watch == after


@given(st.lists(st.sampled_from("xo."), max_size=400).map("".join))
def test_alerts_never_overlap_and_flapping_gets_slower(picture: str) -> None:
    alerts = replay(
        drawn(picture), objective=95, rule=DEFAULT_RULE, until_ns=(len(picture) + 1) * MINUTE_NS
    )
    for earlier, later in pairwise(alerts):
        assert earlier.closed_ns is not None
        assert later.opened_ns > earlier.closed_ns + DEFAULT_RULE.window_ns
    for alert in alerts:
        lasted = (alert.closed_ns or DAY_NS) - alert.opened_ns
        quiet = sum(DEFAULT_RULE.recovery_ns * 2 ** min(n, 3) for n in range(alert.reopenings + 1))
        assert lasted >= quiet


@given(st.lists(st.booleans(), min_size=1, max_size=200))
def test_replay_counts_as_the_definition_does(overs: list[bool]) -> None:
    """The windows of a replay against counting anew at each minute."""
    requests = [JudgedRequest((n + 1) * 7 * MINUTE_NS, over) for n, over in enumerate(overs)]
    alerts = replay(
        requests, objective=95, rule=DEFAULT_RULE, until_ns=requests[-1].ended_ns + MINUTE_NS
    )
    breached_at = [
        now
        for now in range(MINUTE_NS, requests[-1].ended_ns + 2 * MINUTE_NS, MINUTE_NS)
        if check_window(counted(requests, now), objective=95, rule=DEFAULT_RULE) == Verdict.BREACHED
    ]
    assert (alerts[0].opened_ns if alerts else None) == (breached_at[0] if breached_at else None)


def counted(requests: list[JudgedRequest], now: int) -> Window:
    ended = [request for request in requests if request.ended_ns <= now]
    inside = [r for r in ended if r.ended_ns > now - HOUR_NS]
    return Window(
        last_over=sum(r.is_over for r in ended[-20:]),
        judged=len(inside),
        over=sum(r.is_over for r in inside),
    )
