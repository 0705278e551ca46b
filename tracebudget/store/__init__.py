"""Storage writes: spans in, work out, conclusions in. Set-based SQL: no statement per span.

Arrival and analysis meet in the row of the trace, which each locks before it changes anything of
it. `store_spans` adds what is new and makes the trace due; `claim_due` takes due traces by moving
their time behind a lease; `save_analyses` writes a result only for the revision that it read. So a
lost message, a dead worker or spans that arrive in between cost time, never a result
(docs/decisions/0002).
"""

from tracebudget.store.arrival import store_spans
from tracebudget.store.queue import (
    Claim,
    claim_due,
    judge_again,
    load_apps,
    load_batches,
    note_attempt,
    unpack_batches,
)
from tracebudget.store.results import Analyzed, Failed, save_analyses, save_failures
from tracebudget.store.retention import Pruned, PruneError, prune

__all__ = [
    "Analyzed",
    "Claim",
    "Failed",
    "PruneError",
    "Pruned",
    "claim_due",
    "judge_again",
    "load_apps",
    "load_batches",
    "note_attempt",
    "prune",
    "save_analyses",
    "save_failures",
    "store_spans",
    "unpack_batches",
]
