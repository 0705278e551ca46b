"""Storage writes: spans in, work out, conclusions in. Set-based SQL: no statement per span.

Arrival and analysis meet in the row of the trace, which each locks before it changes anything of
it. `store_spans` adds what is new and makes the trace due; `claim_due` takes due traces by moving
their time behind a lease; `save_analyses` writes a result only for the revision that it read. So a
lost message, a dead worker or spans that arrive in between cost time, never a result
(docs/decisions/0002).
"""

from tracebudget.store.apps import Mark, declared_of, gateway_of, load_apps, marks_of
from tracebudget.store.arrival import store_spans
from tracebudget.store.declaration import mark_tools, save_gateway
from tracebudget.store.learning import (
    Lesson,
    load_lesson,
    next_lesson,
    profile_of,
    save_diagnosis,
    save_profile,
)
from tracebudget.store.queue import (
    Claim,
    claim_due,
    judge_again,
    load_batches,
    note_attempt,
    unpack_batches,
)
from tracebudget.store.results import Analyzed, Failed, save_analyses, save_failures
from tracebudget.store.retention import Pruned, PruneError, prune
from tracebudget.store.rollups import refresh_rollups, rollups_paused

__all__ = [
    "Analyzed",
    "Claim",
    "Failed",
    "Lesson",
    "Mark",
    "PruneError",
    "Pruned",
    "claim_due",
    "declared_of",
    "gateway_of",
    "judge_again",
    "load_apps",
    "load_batches",
    "load_lesson",
    "mark_tools",
    "marks_of",
    "next_lesson",
    "note_attempt",
    "profile_of",
    "prune",
    "refresh_rollups",
    "rollups_paused",
    "save_analyses",
    "save_diagnosis",
    "save_failures",
    "save_gateway",
    "save_profile",
    "store_spans",
    "unpack_batches",
]
