"""What the checklist reads of a release: sums over its rows, and its latest requests whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from django.db.models import BigIntegerField, Count, Q, Sum
from django.db.models.functions import Coalesce

from tracebudget import models
from tracebudget.core import gate
from tracebudget.core.baseline import spread
from tracebudget.core.checklist import Facts, Handling, Recorded, Routes, Times
from tracebudget.core.declaration import Observed, Request, observe
from tracebudget.core.gateway import Gateway
from tracebudget.core.ttft import MIN_TPOT_TOKENS
from tracebudget.queries import releases
from tracebudget.queries.releases import Release, Sample
from tracebudget.queries.traces import Document
from tracebudget.series import OBSERVED
from tracebudget.store import declared_of, gateway_of

MAX_CODES = 5  # error codes that are named
REPEATED = "repeated_tool_call"
INPUT_TOKENS = "input_tokens"
# Calls that can tell something: answered, and somebody waited for them.
ANSWERED = Q(is_error=False, turn__isnull=False)
TTFT_KNOWN = Q(ttft_source__in=OBSERVED, ttft_ns__isnull=False)


def facts_of(release: Release, taken: Sample) -> Facts:
    """What the checklist reads of a release. Eleven queries."""
    app, gateway = release.app, gateway_of(release.app)
    documents = releases.documents(taken)
    seen = _observed(gateway, documents)
    cap = next((k for k in releases.kept(app, taken) if k.metric == INPUT_TOKENS), None)
    frozen = releases.baseline_of(release)
    return Facts(
        recorded=_recorded(taken),
        times=_times(taken),
        routes=_routes(taken),
        handling=_handling(documents, together=seen["parallel"].evidence["together"]),
        found=_found(app, taken),
        read_only_repeats=_read_only_repeats(app, taken),
        result_ttl_seconds=gateway.tool_result_ttl_seconds,
        timeout_ms=gateway.timeout_ms,
        timeout_state=seen["timeout_ms"].state if "timeout_ms" in seen else None,
        prompt_cap=None if cap is None else gate.judge(cap),
        prompt_p95=_prompt_p95(taken),
        frozen_at=None if frozen is None else frozen.frozen_at,
    )


def _observed(gateway: Gateway, documents: Iterable[Document]) -> dict[str, Observed]:
    """What the requests say of tools side by side, and of the declared time limit."""
    asked = Gateway(parallel=True, timeout_ms=gateway.timeout_ms)
    return {seen.setting: seen for seen in observe(asked, map(Request, documents))}


def _recorded(taken: Sample) -> Recorded:
    long_enough = Q(output_tokens__isnull=True) | Q(output_tokens__gte=MIN_TPOT_TOKENS)
    figures = (
        taken.of(models.ModelCall)
        .filter(ANSWERED)
        .aggregate(
            calls=Count("*"),
            ttft=Count("trace", filter=TTFT_KNOWN),
            tpot=Count("tpot_ns", filter=TTFT_KNOWN & long_enough),
            tpot_calls=Count("trace", filter=long_enough),
            input_tokens=Count("input_tokens"),
            output_tokens=Count("output_tokens"),
            streamed=Count("trace", filter=Q(streamed=True)),
        )
    )
    return Recorded(**figures)


def _times(taken: Sample) -> Times:
    rows = models.Trace.objects.filter(pk__in=taken.ids)
    sums = ("end_to_end_ns", "unsplit_ns", "unattributed_ns")
    figures = rows.aggregate(
        requests=Count("*"),
        with_turns=Count("pk", filter=Q(turn_count__gt=0)),
        **{name: Coalesce(Sum(name), 0, output_field=BigIntegerField()) for name in sums},
    )
    return Times(**figures)


def _routes(taken: Sample) -> Routes:
    is_simple = Q(trace__model_call_count=1, trace__tool_call_count=0)
    rows = taken.of(models.ModelCall).filter(ANSWERED, model__isnull=False).order_by()
    counted = rows.values("model").annotate(
        calls=Count("trace"), simple=Count("trace", filter=is_simple)
    )
    simple = Counter({row["model"]: row["simple"] for row in counted})
    calls = Counter({row["model"]: row["calls"] for row in counted})
    return Routes(simple=+simple, others=calls - simple)


def _found(app: models.App, taken: Sample) -> dict[str, int]:
    rows = releases.open_findings(app, taken).order_by().values("code")
    counted = rows.annotate(requests=Count("trace", distinct=True))
    return {row["code"]: row["requests"] for row in counted}


def _read_only_repeats(app: models.App, taken: Sample) -> int:
    """Requests that asked a read-only tool what they had asked it before."""
    read_only = declared_of(app).read_only
    rows = releases.open_findings(app, taken).filter(code=REPEATED, subject__in=read_only)
    return rows.aggregate(requests=Count("trace", distinct=True))["requests"] or 0


def _prompt_p95(taken: Sample) -> int | None:
    prompts = spread(row["largest_input_tokens"] for row in taken.rows)
    return None if prompts is None or prompts.p95 is None else prompts.p95.value


def _handling(documents: Iterable[Document], *, together: int) -> Handling:
    """What requests that were read whole did about slow tools and failed model calls."""
    timeouts = went_on = 0
    codes: Counter[str | None] = Counter()
    for document in documents:
        steps = [step for step in document["steps"] if step["turn"] is not None]
        limited = _timed_out(document)
        ends = [_end_ns(step) for step in steps if step["span_id"] in limited]
        timeouts += bool(ends)
        went_on += bool(ends) and any(_is_answer(step, after=max(ends)) for step in steps)
        codes.update(step["error_type"] for step in steps if _is_failed_call(step))
    told = Counter({code: count for code, count in codes.items() if code is not None})
    return Handling(
        together=together,
        timeouts=timeouts,
        went_on=went_on,
        failed_calls=codes.total(),
        coded_calls=told.total(),
        codes=[code for code, _ in told.most_common(MAX_CODES)],
    )


def _end_ns(step: Document) -> int:
    return int(step["start_ns"] + step["duration_ns"])


def _timed_out(document: Document) -> set[str]:
    """The tool calls that ran into their time limit."""
    findings = (f for f in document["findings"] if f["code"] == "tool_timeout")
    return {span_id for finding in findings for span_id in finding["span_ids"]}


def _is_answer(step: Document, *, after: int) -> bool:
    is_call = (step["kind"], step["status"]) == ("model_call", "ok")
    return is_call and bool(step["start_ns"] >= after)


def _is_failed_call(step: Document) -> bool:
    return (step["kind"], step["status"]) == ("model_call", "error")
