"""The HTTP API: the same analysis object as everywhere, for programs.

A program shows an API token of the project, a browser its session. Both get 404 for what they may
not see; a program without a good token 401.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from tracebudget import models
from tracebudget.keys import find_key
from tracebudget.queries import releases
from tracebudget.queries import traces as trace_queries
from tracebudget.release.gate_report import Report
from tracebudget.web import paging
from tracebudget.web.access import app_for, project_for, trace_for
from tracebudget.web.errors import json_error
from tracebudget.web.forms import FilterForm
from tracebudget.web.gate_form import GateForm

BEARER = "bearer "
SUMMARY = (
    "name", "environment", "version", "session_id", "state", "has_error", "agent_names",
    "model_names", "tool_names", "finding_codes", "breached", "end_to_end_ns", "prefill_ns",
    "decode_ns", "tool_ns", "framework_ns", "wait_ns", "unsplit_ns", "unattributed_ns",
    "turn_count", "model_call_count", "tool_call_count", "ttft_count", "worst_ttft_ns",
    "input_tokens", "output_tokens", "saving_ns",
)  # fmt: skip


class Unauthorized(Exception):
    """Neither a session nor a token that is known."""


@login_not_required
@require_safe
def list_requests(request: HttpRequest, project: str) -> HttpResponse:
    """Summaries in the order asked for; `next` continues the list, null at its end."""
    try:
        mine = _project_for(request, project)
    except Unauthorized:
        return _ask_for_token()
    form = FilterForm(request.GET)
    if not form.is_valid():
        return json_error(400, "The filter makes no sense.", fields=form.errors.get_json_data())
    chosen = form.trace_filter(mine, now=timezone.now())
    cursor = request.GET.get("after")
    try:
        after = paging.decode(cursor, chosen) if cursor else None
    except paging.BadCursor as error:
        return json_error(400, str(error))
    page = trace_queries.trace_page(chosen, after=after)
    following = paging.encode(page.next, chosen) if page.next is not None else None
    return JsonResponse({"requests": [_summary(t) for t in page.rows], "next": following})


@login_not_required
@require_safe
def show_request(request: HttpRequest, project: str, trace_id: UUID) -> HttpResponse:
    """The analysis object, byte for byte as it was made. 404 while it waits to be made."""
    try:
        mine = _project_for(request, project)
    except Unauthorized:
        return _ask_for_token()
    trace = trace_for(mine, trace_id)
    text = trace_queries.document_text(trace)
    if text is None:
        return json_error(404, trace.failure or "This request waits for its analysis. Ask again.")
    return HttpResponse(text, content_type="application/json")


@login_not_required
@require_safe
def show_gate(request: HttpRequest, project: str, app: str) -> HttpResponse:
    """What the gate says of a release, as `manage.py gate --json` prints it."""
    try:
        mine = _project_for(request, project)
    except Unauthorized:
        return _ask_for_token()
    form = GateForm(request.GET)
    if not form.is_valid():
        return json_error(400, "The gate cannot be asked so.", fields=form.errors.get_json_data())
    its = app_for(mine, app)
    judged = form.judged(its)
    if judged is None:
        return json_error(404, "No such release was seen, or no such baseline frozen.")
    text = Report(judged, waiting=releases.waiting(mine)).json()
    return HttpResponse(text, content_type="application/json")


def _project_for(request: HttpRequest, slug: str) -> models.Project:
    """By token if one is shown, else by session. Raises Unauthorized, or Http404."""
    scheme = request.headers.get("Authorization", "")
    if scheme.lower().startswith(BEARER):
        token = find_key(models.ApiToken, scheme[len(BEARER) :].strip(), now=timezone.now())
        if token is None:
            raise Unauthorized
        if token.project.slug != slug:
            raise Http404("a token of another project")
        return token.project
    if not request.user.is_authenticated:
        raise Unauthorized
    return project_for(request.user, slug)


def _ask_for_token() -> JsonResponse:
    message = "Show an API token of this project: `Authorization: Bearer tba_...`, or sign in."
    response = json_error(401, message)
    response.headers["WWW-Authenticate"] = 'Bearer realm="Tracebudget"'
    return response


def _summary(trace: models.Trace) -> dict[str, Any]:
    app = trace.app
    started_at = trace.started_at
    return {
        "trace_id": trace.trace_id.hex,
        "app": app.name if app is not None else None,
        "started_at": started_at.isoformat() if started_at is not None else None,
        **{name: getattr(trace, name) for name in SUMMARY},
    }
