"""The use case behind every page: due traces in, conclusions out; loading, core, saving meet here.

A trace is analysed in a batch with others the first time. When that was never answered, because the
worker died or the analysis failed, the trace is a suspect: it is tried alone, and each try is noted
before it begins. So a trace that kills its worker takes no other with it, and is given up after
MAX_ATTEMPTS.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import DataError, IntegrityError

from tracebudget import metrics, store
from tracebudget.conclusions import conclude
from tracebudget.core.analysis import analyze
from tracebudget.core.app import NO_APPS, Apps
from tracebudget.store import Analyzed, Claim, Failed

logger = logging.getLogger(__name__)

Clock = Callable[[], datetime]
AppsOfProjects = Mapping[int, Apps]

# A batch takes a fraction of this. Where one trace takes seconds, the answers to its neighbours
# must not wait with it until their leases run out.
SAVE_EVERY = timedelta(seconds=2)
GIVEN_UP = (
    "Given up: the worker ended each time it analysed this trace. New spans make it due again."
)


def analyze_due(clock: Clock) -> int:
    """Analyse what is due until nothing is or the time slice is used up; how many traces."""
    done, until = 0, clock() + timedelta(seconds=settings.ANALYZE_SLICE_SECONDS)
    while clock() < until:
        claims = store.claim_due(now=clock())
        if not claims:
            break
        _work_off(claims, clock)
        done += len(claims)
    return done


def _work_off(claims: Sequence[Claim], clock: Clock) -> None:
    payloads = store.load_batches(claims)
    apps = store.load_apps(claim.project_id for claim in claims)
    answers, saved_at = [], clock()
    for claim in (claim for claim in claims if not claim.attempts):
        answers.append(_answer(claim, payloads[claim.id], apps))
        if clock() - saved_at > SAVE_EVERY:
            _save(answers, now=clock())
            answers, saved_at = [], clock()
    _save(answers, now=clock())
    for suspect in (claim for claim in claims if claim.attempts):
        store.note_attempt(suspect)
        _save([_answer(suspect, payloads[suspect.id], apps)], now=clock())


def _answer(claim: Claim, payloads: Sequence[bytes], apps: AppsOfProjects) -> Analyzed | Failed:
    """Whatever goes wrong with one trace is noted on its row, and harms no neighbour."""
    if claim.attempts >= settings.MAX_ATTEMPTS:
        return Failed(claim, GIVEN_UP)
    with metrics.ANALYSIS_SECONDS.time():
        return _analyzed(claim, payloads, apps)


def _analyzed(claim: Claim, payloads: Sequence[bytes], apps: AppsOfProjects) -> Analyzed | Failed:
    try:
        spans = store.unpack_batches(payloads)
        known = apps.get(claim.project_id, NO_APPS)
        document = analyze(spans, apps=known, project=claim.project).document()
        return Analyzed(claim, conclude(document))
    except Exception as error:
        logger.exception("Analysis of trace %s failed", claim.trace_id.hex)
        return Failed(claim, f"{type(error).__name__}: {error}")


def _save(answers: Sequence[Analyzed | Failed], *, now: datetime) -> None:
    analyzed = [answer for answer in answers if isinstance(answer, Analyzed)]
    failed = [answer for answer in answers if isinstance(answer, Failed)]
    if analyzed:
        failed += _save_analyzed(analyzed, now)
    if failed:
        store.save_failures(failed, now=now)
    metrics.ANALYSES.labels("failed").inc(len(failed))
    metrics.ANALYSES.labels("done").inc(len(answers) - len(failed))


def _save_analyzed(analyzed: Sequence[Analyzed], now: datetime) -> list[Failed]:
    """Save together; where the database refuses a value, each alone: only its own trace fails."""
    try:
        store.save_analyses(analyzed, now=now)
    except (DataError, IntegrityError) as error:
        if len(analyzed) == 1:
            logger.exception("Analysis of trace %s was refused", analyzed[0].claim.trace_id.hex)
            return [Failed(analyzed[0].claim, f"{type(error).__name__}: {error}")]
        return [failure for one in analyzed for failure in _save_analyzed([one], now)]
    return []
