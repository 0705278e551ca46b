"""When an alert opens and closes: windows of judged requests in, one alert with its history out.

    requests over    x  x x x    x          x x
    verdict        kkkkkkBBBBBBBBBBkkkkkkkkkkkkBBBBBkkkkkkkkkkkkkkkk
    alert                |-------- open ---------------------------|
                      opened                       ^          recovered: 10 min of k
                                                   a breach within them starts the 10 min anew

A request is judged where its analysis says `over` or `within`; `unknown` is no judgement, and fills
no window. Silence is no recovery either: an alert without requests stays open until they come back,
or for STALE_NS.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

SECOND_NS = 1_000_000_000
MINUTE_NS = 60 * SECOND_NS
HOUR_NS = 60 * MINUTE_NS

STALE_NS = 7 * 24 * HOUR_NS  # what runs weekly has run again by then
# An alert that comes back has to stay away twice as long, and so on: a flapping one cannot ring all
# night. 8 × 10 min is longer than the window that made it flap.
MAX_DOUBLINGS = 3


class Verdict(StrEnum):
    """A budget over its window."""

    BREACHED = "breached"
    KEPT = "kept"
    UNKNOWN = "unknown"  # nothing was judged in the window


class Change(StrEnum):
    """What a look at a budget did to its alert."""

    OPENED = "opened"
    REOPENED = "reopened"  # it had closed so shortly before that it is the same one
    RECOVERED = "recovered"
    WENT_QUIET = "went_quiet"  # closed for want of requests


@dataclass(frozen=True, slots=True)
class Rule:
    """At least `over` of the last `of_last` judged requests over, and the objective missed in the
    last `window_ns`; back within for `recovery_ns` ends it.
    """

    over: int = 3
    of_last: int = 20
    window_ns: int = HOUR_NS
    recovery_ns: int = 10 * MINUTE_NS


DEFAULT_RULE = Rule()


@dataclass(frozen=True, slots=True)
class Window:
    """What there is to judge a budget by: counts of requests."""

    last_over: int  # of the last `Rule.of_last` judged ones
    judged: int  # in the last `Rule.window_ns`
    over: int


NOTHING_JUDGED = Window(last_over=0, judged=0, over=0)


def check_window(window: Window, *, objective: float, rule: Rule) -> Verdict:
    """Whether a promise, `objective` percent of requests, is being broken now."""
    if not window.judged:
        return Verdict.UNKNOWN
    is_missed = misses(window, objective)
    return Verdict.BREACHED if is_missed and window.last_over >= rule.over else Verdict.KEPT


def misses(window: Window, objective: float) -> bool:
    """Whether less than `objective` percent kept the limit; in whole numbers, so that 95 is 95."""
    return (window.judged - window.over) * 10_000 < round(objective * 100) * window.judged


@dataclass(frozen=True, slots=True)
class Watch:
    """What is remembered of one budget's alert between two looks. Unix ns; None: not so."""

    opened_ns: int
    closed_ns: int | None = None
    kept_since_ns: int | None = None  # while open: back within since
    judged_ns: int = 0  # the last look that had something to judge
    reopenings: int = 0


class Look(NamedTuple):
    """What one look gave: what to remember, and what changed, if anything."""

    watch: Watch | None
    change: Change | None


def look(watch: Watch | None, verdict: Verdict, *, now_ns: int, rule: Rule) -> Look:
    """Bring an alert up to date. `watch` is the budget's last alert, open or not; None for none."""
    if watch is not None and watch.closed_ns is None:
        return _look_at_open(watch, verdict, now_ns, rule)
    if verdict != Verdict.BREACHED:
        return Look(watch, None)
    if watch is not None and now_ns - (watch.closed_ns or 0) <= rule.window_ns:
        return Look(_reopened(watch, now_ns), Change.REOPENED)
    return Look(Watch(opened_ns=now_ns, judged_ns=now_ns), Change.OPENED)


def _look_at_open(watch: Watch, verdict: Verdict, now_ns: int, rule: Rule) -> Look:
    if verdict == Verdict.BREACHED:
        return Look(replace(watch, kept_since_ns=None, judged_ns=now_ns), None)
    if verdict == Verdict.UNKNOWN:
        is_stale = now_ns - watch.judged_ns >= STALE_NS
        return Look(*_closed(watch, now_ns, Change.WENT_QUIET)) if is_stale else Look(watch, None)
    since = now_ns if watch.kept_since_ns is None else watch.kept_since_ns
    kept = replace(watch, kept_since_ns=since, judged_ns=now_ns)
    if now_ns - since >= recovery_ns(watch, rule):
        return Look(*_closed(kept, now_ns, Change.RECOVERED))
    return Look(kept, None)


def recovery_ns(watch: Watch, rule: Rule) -> int:
    """How long an alert must be back within before it closes."""
    return rule.recovery_ns << min(watch.reopenings, MAX_DOUBLINGS)


def _reopened(watch: Watch, now_ns: int) -> Watch:
    return replace(
        watch, closed_ns=None, kept_since_ns=None, judged_ns=now_ns, reopenings=watch.reopenings + 1
    )


def _closed(watch: Watch, now_ns: int, change: Change) -> tuple[Watch, Change]:
    return replace(watch, closed_ns=now_ns), change


# --- what a rule would have done ------------------------------------------------------------------


class JudgedRequest(NamedTuple):
    """A request and the word on it, as a window counts it."""

    ended_ns: int
    is_over: bool


def replay(
    requests: Sequence[JudgedRequest], *, objective: float, rule: Rule, until_ns: int
) -> list[Watch]:
    """The alerts there would have been, had somebody looked each minute. `requests` by end."""
    alerts: list[Watch] = []
    for now_ns, window in _windows(requests, rule, until_ns):
        verdict = check_window(window, objective=objective, rule=rule)
        watch, change = look(alerts[-1] if alerts else None, verdict, now_ns=now_ns, rule=rule)
        if change == Change.OPENED and watch is not None:
            alerts.append(watch)
        elif alerts and watch is not None:
            alerts[-1] = watch
    return alerts


def _windows(
    requests: Sequence[JudgedRequest], rule: Rule, until_ns: int
) -> Iterator[tuple[int, Window]]:
    """The window at each full minute since the first request."""
    arriving = deque(request for request in requests if request.ended_ns <= until_ns)
    last: deque[bool] = deque(maxlen=rule.of_last)
    inside: deque[JudgedRequest] = deque()
    over = 0
    if not arriving:
        return
    for now_ns in range(_next_minute(arriving[0].ended_ns), until_ns + 1, MINUTE_NS):
        while arriving and arriving[0].ended_ns <= now_ns:
            inside.append(arriving.popleft())
            last.append(inside[-1].is_over)
            over += inside[-1].is_over
        while inside and inside[0].ended_ns <= now_ns - rule.window_ns:
            over -= inside.popleft().is_over
        yield now_ns, Window(last_over=sum(last), judged=len(inside), over=over)


def _next_minute(ns: int) -> int:
    return -(-ns // MINUTE_NS) * MINUTE_NS
