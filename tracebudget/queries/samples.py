"""The latest requests of an app whole: their analysis objects, and their spans if asked for.

For questions that no summary answers. What is read is bounded by requests and by spans.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from tracebudget import models
from tracebudget.core.span import Span
from tracebudget.document import loads
from tracebudget.packing import decompress, unpack_spans
from tracebudget.queries.apps import Scope
from tracebudget.queries.traces import Document

T = TypeVar("T")

REQUESTS = 200  # enough to see a setting at work, read in half a second
SPANS = 20_000  # of all of them


def latest(scope: Scope, *, requests: int = REQUESTS) -> list[models.Trace]:
    """The latest requests of a scope, as many as are read whole. One query."""
    rows = scope.traces().only("pk", "day", "span_count", "started_at").order_by("-started_at")
    return bounded(rows[:requests], spans_of=lambda trace: trace.span_count)


def bounded(requests: Iterable[T], *, spans_of: Callable[[T], int]) -> list[T]:
    """The first of them, of which the spans are not too many together; one at least."""
    taken: list[T] = []
    spans = 0
    for request in requests:
        spans += spans_of(request)
        if taken and spans > SPANS:
            break
        taken.append(request)
    return taken


def documents(traces: Sequence[models.Trace]) -> dict[int, Document]:
    """Analysis objects by the ids of their traces. One query."""
    rows = models.Analysis.objects.filter(
        day__in={trace.day for trace in traces}, trace__in=[trace.pk for trace in traces]
    )
    packed = rows.values_list("trace_id", "document")
    return {trace: loads(decompress(bytes(document))) for trace, document in packed}


def spans(traces: Sequence[models.Trace]) -> dict[int, list[Span]]:
    """Spans by the ids of their traces, as they came. One query."""
    batches = models.SpanBatch.objects.filter(
        day__in={trace.day for trace in traces}, trace__in=[trace.pk for trace in traces]
    )
    found: defaultdict[int, list[Span]] = defaultdict(list)
    for batch in batches:
        found[batch.trace_id] += unpack_spans(decompress(batch.payload))
    return found
