"""The use case behind `inferred` figures and what only many requests tell: rows in, profile and
diagnosis out.

A profile decides over the analyses of an app, so it is replaced only where that can be seen, and
then the app's latest requests are analysed again. What it is learnt from (durations, tokens, first
tokens that somebody saw) no profile changes: learning and analysing come to rest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from django.conf import settings

from tracebudget import store
from tracebudget.core.diagnosis import diagnose
from tracebudget.core.profile import Profile, build_profile

logger = logging.getLogger(__name__)

Clock = Callable[[], datetime]

# A profile that says more of known models is replaced at most so often, but where it rests on far
# more calls.
KEPT_FOR = timedelta(hours=1)
FAR_MORE = 1.5


def learn(clock: Clock) -> int:
    """Look at apps with new requests until none is left or the time slice is used up; how many."""
    done, until = 0, clock() + timedelta(seconds=settings.LEARN_SLICE_SECONDS)
    while clock() < until and (app_id := store.next_lesson(now=clock())) is not None:
        try:
            _learn_of(app_id, now=clock())
        except Exception:  # one app's odd rows must not keep us from all others
            logger.exception("Nothing could be learnt of app %s", app_id)
        done += 1
    return done


def _learn_of(app_id: int, *, now: datetime) -> None:
    lesson = store.load_lesson(app_id)
    store.save_diagnosis(app_id, diagnose(lesson.sample, weight=lesson.weight))
    new = build_profile(lesson.latest, made_at=now.isoformat(timespec="seconds"))
    old = store.profile_of(app_id)
    if new is not None and replaces(new, old, now=now):
        is_news = old is None or new.knows_more_than(old)
        store.save_profile(app_id, new, is_news=is_news, now=now)


def replaces(new: Profile, old: Profile | None, *, now: datetime) -> bool:
    """Whether requests should be analysed by another profile from now on."""
    if old is None or new.knows_more_than(old):
        return True
    made_at = datetime.fromisoformat(old.made_at) if old.made_at else None
    is_due = new.calls >= FAR_MORE * old.calls or made_at is None or now - made_at >= KEPT_FOR
    return is_due and new.differs_from(old)
