"""Pages: one function each. All state of a page is in its address."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import orjson
from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from tracebudget import models
from tracebudget.queries import apps as app_queries
from tracebudget.queries import traces as trace_queries
from tracebudget.queries.sessions import neighbours
from tracebudget.web import paging
from tracebudget.web.access import app_for, project_for, trace_for
from tracebudget.web.app_page import Many
from tracebudget.web.figures import of_columns, percentiles_figure, segments_figure, shares
from tracebudget.web.forms import FilterForm, ScopeForm
from tracebudget.web.otlp import export_of
from tracebudget.web.paging import row_number
from tracebudget.web.provenance import derived, told_by
from tracebudget.web.request_page import TABLE_ROWS, RequestPage, part_of
from tracebudget.web.setup import setup_context
from tracebudget.web.spans import TREE_ROWS, read_span, tree_of
from tracebudget.web.waterfall import Picture


@require_safe
def apps_page(request: HttpRequest, project: str) -> HttpResponse:
    """Are users waiting longer than we promised?"""
    mine = project_for(request.user, project)
    form = ScopeForm(request.GET)
    scope = form.scope(mine, None, now=timezone.now())
    rows = app_queries.app_rows(scope)
    if not rows:
        return render(request, "setup/page.html", setup_context(request, mine))
    context = {
        "project": mine,
        "form": form,
        "scope": scope,
        "names": trace_queries.names(mine),
        "rows": [(row, shares(of_columns(row.sums))) for row in rows],
    }
    return render(request, "apps/list.html", context)


@require_safe
def app_page(request: HttpRequest, project: str, app: str) -> HttpResponse:
    """Where does the time go, and what should I do first?"""
    mine = project_for(request.user, project)
    its = app_for(mine, app)
    form, now = ScopeForm(request.GET), timezone.now()
    scope = form.scope(mine, its, now=now)
    report = app_queries.app_report(scope, now=now)
    limits = {s.budget.metric: s.budget.limit for s in report.standings}
    context = {
        "project": mine,
        "app": its,
        "form": form,
        "scope": scope,
        "names": trace_queries.names(mine, its),
        "report": report,
        "many": Many(report.diagnosis) if report.diagnosis is not None else None,
        "shares": shares(of_columns(report.mean_sums)),
        "segments_figure": segments_figure(report.trend),
        "percentiles_figure": percentiles_figure(report.trend, limits.get("end_to_end")),
    }
    return render(request, "apps/detail.html", context)


@require_safe
def requests_page(request: HttpRequest, project: str) -> HttpResponse:
    """Which requests, and which are bad?"""
    mine = project_for(request.user, project)
    pasted = request.GET.get("id", "").strip()
    if pasted:
        return _open_pasted(request, mine, pasted)
    form = FilterForm(request.GET)
    context: dict[str, Any] = {"project": mine, "form": form, "names": trace_queries.names(mine)}
    context["apps"] = models.App.objects.filter(project=mine).order_by("name")
    if form.is_valid():
        chosen = form.trace_filter(mine, now=timezone.now())
        page = trace_queries.trace_page(
            chosen, after=_position(request, chosen), horizon=chosen.horizon()
        )
        context |= {
            "chosen": chosen,
            "sentence": chosen.describe(page.matches),
            "page": page,
            "searched": trace_queries.MAX_SEARCHED,
            "rows": [(trace, shares(of_columns(vars(trace)))) for trace in page.rows],
            "next": paging.encode(page.next, chosen) if page.next is not None else None,
        }
    return render(request, "requests/list.html", context, status=200 if form.is_valid() else 400)


def _position(
    request: HttpRequest, chosen: trace_queries.TraceFilter
) -> trace_queries.Position | None:
    cursor = request.GET.get("after")
    try:
        return paging.decode(cursor, chosen) if cursor else None
    except paging.BadCursor as error:
        raise BadRequest(str(error)) from None


def _open_pasted(request: HttpRequest, project: models.Project, pasted: str) -> HttpResponse:
    """Open the request whose id was pasted, or say why not."""
    try:
        trace_id = UUID(hex=pasted)
    except ValueError:
        said = gettext("“%(text)s” is no trace id: that has 32 digits and letters a to f.")
        messages.error(request, said % {"text": pasted[:60]})
        return redirect("requests", project.slug)
    if trace_queries.find_trace(project, trace_id) is None:
        said = gettext("No request %(id)s in this project. It may not have arrived yet.")
        messages.error(request, said % {"id": trace_id.hex})
        return redirect("requests", project.slug)
    return redirect("request", project.slug, trace_id)


@require_safe
def request_page(request: HttpRequest, project: str, trace_id: UUID) -> HttpResponse:
    """Where did the time of this request go?"""
    mine = project_for(request.user, project)
    trace = trace_for(mine, trace_id)
    document = trace_queries.document(trace)
    context: dict[str, Any] = {"project": mine, "trace": trace}
    if document is None:
        return render(request, "requests/waiting.html", context)
    page = RequestPage(document)
    opened = request.GET.get("step", "")
    row = page.picture.row_of(opened) if opened else None
    start = row_number(request, "from") if row is None else row
    turn, step = row_number(request, "turns"), row_number(request, "steps")
    steps = document["steps"]
    context |= {
        "document": document,
        "page": page,
        "picture": page.picture,
        "neighbours": neighbours(trace),
        "blocks": page.picture.blocks(start=start),
        "turns": part_of(page.turns(turn, TABLE_ROWS), turn, len(document["turns"])),
        "steps": part_of(steps[step : step + TABLE_ROWS], step, len(steps)),
    }
    return render(request, "requests/detail.html", context)


@require_POST
def pin(request: HttpRequest, project: str, trace_id: UUID) -> HttpResponse:
    """Keep a request for as long as it is pinned, whatever its age; or no longer."""
    mine = project_for(request.user, project)
    trace = trace_for(mine, trace_id)
    trace.pinned_at = timezone.now() if trace.pinned_at is None else None
    trace.save(update_fields=["pinned_at"])
    if trace.pinned_at is not None:
        messages.success(request, gettext("Pinned: retention passes this request by."))
    else:
        messages.success(request, gettext("Not pinned any more: it goes when its time has come."))
    return redirect("request", mine.slug, trace_id)


@require_safe
def rows_part(request: HttpRequest, project: str, trace_id: UUID) -> HttpResponse:
    """One block of the waterfall's rows, for a script that puts it into the page."""
    mine = project_for(request.user, project)
    trace = trace_for(mine, trace_id)
    document = trace_queries.document(trace)
    if document is None:
        raise Http404("not analysed yet")
    block = Picture(document).block(row_number(request, "from"))
    context = {"project": mine, "trace": trace, "document": document, "block": block}
    return render(request, "requests/_rows.html", context)


@require_safe
def spans_page(request: HttpRequest, project: str, trace_id: UUID) -> HttpResponse:
    """Every span of a request as a tree."""
    mine = project_for(request.user, project)
    trace = trace_for(mine, trace_id)
    document = trace_queries.document(trace)
    steps = {step["span_id"]: step for step in document["steps"]} if document else {}
    lines = tree_of(trace_queries.spans(trace), steps)
    first = row_number(request, "from")
    context = {
        "project": mine,
        "trace": trace,
        "total": len(lines),
        "first": first,
        "lines": lines[first : first + TREE_ROWS],
        "before": max(0, first - TREE_ROWS) if first else None,
        "behind": first + TREE_ROWS if first + TREE_ROWS < len(lines) else None,
        "start_ns": min((line.span.start_ns for line in lines), default=0),
    }
    return render(request, "requests/spans.html", context)


@require_safe
def request_otlp(request: HttpRequest, project: str, trace_id: UUID) -> HttpResponse:
    """The spans as OTLP/JSON, to look at elsewhere or to analyse again."""
    trace = trace_for(project_for(request.user, project), trace_id)
    body = orjson.dumps(export_of(trace_queries.spans(trace)))
    headers = {"Content-Disposition": f'attachment; filename="{trace.trace_id.hex}.otlp.json"'}
    return HttpResponse(body, content_type="application/json", headers=headers)


@require_safe
def span_page(request: HttpRequest, project: str, trace_id: UUID, span_id: str) -> HttpResponse:
    """One span: what the analysis says of it, and everything that was stored."""
    mine = project_for(request.user, project)
    trace = trace_for(mine, trace_id)
    spans = trace_queries.spans(trace)
    found = [span for span in spans if span.span_id == span_id]
    if not found:
        raise Http404("no such span")
    document = trace_queries.document(trace)
    page = RequestPage(document) if document is not None else None
    step = page.step(span_id) if page is not None else None
    told = told_by(spans, span_id)
    context = {
        "project": mine,
        "trace": trace,
        "document": document,
        "span_id": span_id,
        "spans": [read_span(span) for span in found],
        "step": step,
        "told": told,
        "derived": list(derived(step, told)) if step and step["kind"] == "model_call" else [],
        "found": page.found_at(span_id) if page is not None else [],
    }
    return render(request, "requests/span.html", context)
