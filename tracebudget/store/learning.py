"""What an app's requests together teach of it: which apps have something new, what is read of their
rows, and what came of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Max, QuerySet
from django.db.models.functions import Mod

from tracebudget import models, partition
from tracebudget.core.diagnosis import AppCall, Diagnosis
from tracebudget.core.profile import Profile, SeenCall
from tracebudget.core.tokens import Tokens
from tracebudget.series import OBSERVED
from tracebudget.store.queue import judge_again

LATEST_REQUESTS = 1_000  # that a profile is learnt from: what is usual now
WINDOW = timedelta(days=7)  # of a diagnosis: it has busy hours and quiet ones
SAMPLE_REQUESTS = 2_000  # of those: enough for a p95 in each band of prompts, read in half a second
NEWS_REQUESTS = 5_000  # analysed again by a profile that knows of something new: ten seconds' work
# To look at a call costs a hundredth of that: a hundredth of a core a busy app at most.
WAIT_SECONDS_A_CALL = 0.02

Row = Mapping[str, Any]
CALL_COLUMNS = (
    "trace_id", "run", "turn", "started_at", "model", "duration_ns", "ttft_ns", "ttft_source",
    "ttft_is_bound", "input_tokens", "cached_input_tokens", "output_tokens", "tool_result_tokens",
)  # fmt: skip
REQUEST_COLUMNS = (
    "id", "day", "end_to_end_ns", "wait_ns", "model_call_count", "tool_call_count",
)  # fmt: skip


class Lesson(NamedTuple):
    """What is read of an app: calls to learn a profile from, and a sample of whole requests, one in
    `weight`, to diagnose.
    """

    latest: list[SeenCall]
    sample: list[AppCall]
    weight: int


def next_lesson(*, now: datetime) -> int | None:
    """The id of an app with new requests, that which waits longest; None where there is none. The
    more calls were looked at, the longer an app waits for the next look.

    It is taken by this: nobody else looks at it, and should that fail, it waits for new requests.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE tracebudget_learned SET made_at = %(now)s WHERE app_id = (
                SELECT app_id FROM tracebudget_learned
                WHERE made_at IS NULL OR (
                    changed_at > made_at AND made_at + make_interval(
                        secs => coalesce((diagnosis ->> 'calls')::int, 0) * %(wait)s
                    ) <= %(now)s
                )
                ORDER BY made_at NULLS FIRST LIMIT 1 FOR UPDATE SKIP LOCKED
            )
            RETURNING app_id
            """,
            {"now": now, "wait": WAIT_SECONDS_A_CALL},
        )
        row = cursor.fetchone()
    return None if row is None else int(row[0])


def load_lesson(app_id: int) -> Lesson:
    """Five queries, of bounded size whatever the app's traffic."""
    requests = models.Trace.objects.filter(
        app=app_id, started_at__isnull=False, analyzed_at__isnull=False, day__gt=partition.KEPT
    )
    latest = list(requests.order_by("-started_at").values(*REQUEST_COLUMNS)[:LATEST_REQUESTS])
    end = requests.aggregate(last=Max("started_at"))["last"]
    window = requests.filter(started_at__gt=end - WINDOW) if end else requests.none()
    weight = max(1, -(-window.count() // SAMPLE_REQUESTS))
    sample = window.annotate(place=Mod("id", weight)).filter(place=0).values(*REQUEST_COLUMNS)
    return Lesson(
        [_seen(call, request) for call, request in _calls_of(latest)],
        [_app_call(call) for call, _ in _calls_of(list(sample)) if call["turn"] is not None],
        weight,
    )


def _calls_of(requests: Sequence[Row]) -> list[tuple[Row, Row]]:
    """The successful calls of some requests, each with its request."""
    by_id = {request["id"]: request for request in requests}
    days = {request["day"] for request in requests}
    rows: QuerySet[Any] = models.ModelCall.objects.filter(
        day__in=days, trace__in=list(by_id), is_error=False
    )
    return [(call, by_id[call["trace_id"]]) for call in rows.order_by().values(*CALL_COLUMNS)]


def _seen(call: Row, request: Row) -> SeenCall:
    is_alone = request["model_call_count"] == 1 and not request["tool_call_count"]
    return SeenCall(
        model=call["model"],
        tokens=_tokens(call),
        duration_ns=call["duration_ns"],
        ttft_ns=None if call["ttft_is_bound"] else _ttft(call),
        request_ns=request["end_to_end_ns"] - request["wait_ns"] if is_alone else None,
    )


def _app_call(call: Row) -> AppCall:
    return AppCall(
        request=call["trace_id"],
        run=call["run"] or 0,
        turn=call["turn"],
        started_s=int(call["started_at"].timestamp()),
        model=call["model"],
        tokens=_tokens(call),
        ttft_ns=_ttft(call),
        tool_result_tokens=call["tool_result_tokens"],
    )


def _tokens(call: Row) -> Tokens:
    return Tokens(call["input_tokens"], call["cached_input_tokens"], call["output_tokens"])


def _ttft(call: Row) -> int | None:
    ttft: int | None = call["ttft_ns"] if call["ttft_source"] in OBSERVED else None
    return ttft


def profile_of(app_id: int) -> Profile | None:
    """The profile with which the app's requests are analysed."""
    learned = models.Learned.objects.get(app=app_id)
    return None if learned.profile is None else Profile.of(learned.profile)


def save_diagnosis(app_id: int, diagnosis: Diagnosis) -> None:
    models.Learned.objects.filter(app=app_id).update(diagnosis=diagnosis.document())


@transaction.atomic
def save_profile(app_id: int, profile: Profile, *, is_news: bool, now: datetime) -> None:
    """The app's latest requests are analysed again by it: more of them where it `is_news`, as
    nothing like it was known when they came.
    """
    models.Learned.objects.filter(app=app_id).update(profile=profile.document())
    requests = NEWS_REQUESTS if is_news else settings.JUDGE_AGAIN_REQUESTS
    judge_again(models.App.objects.get(pk=app_id), now=now, requests=requests)
