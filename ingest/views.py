"""OTLP over HTTP: authenticate, read, decode, take in, answer."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from ingest import otlp
from ingest.auth import authenticate
from ingest.body import read_body, read_capped
from ingest.decode import Export
from ingest.errors import INTERNAL, OtlpError, retried_when_away
from ingest.intake import latest_ns, take_in

logger = logging.getLogger(__name__)

View = Callable[[HttpRequest], HttpResponse]


def answers_in_otlp(view: View) -> View:
    """Errors become a google.rpc.Status, on the web port too."""

    @wraps(view)
    def wrapped(request: HttpRequest) -> HttpResponse:
        try:
            with retried_when_away():
                return view(request)
        except OtlpError as refusal:
            error = refusal
        except Exception:
            logger.exception("An export over HTTP failed")
            error = INTERNAL
        return otlp.error_response(error, request.content_type or "")

    return wrapped


@csrf_exempt
@login_not_required
@require_POST
@answers_in_otlp
def export_traces(request: HttpRequest) -> HttpResponse:
    """Store the spans of one export request; durable before the 200."""
    now = timezone.now()
    content_type = otlp.media_type(request.content_type or "")
    project = authenticate(request.headers, now=now).project
    export = otlp.read_export(read_body(request), content_type, latest_ns=latest_ns(now))
    take_in(export, project, now=now)
    return otlp.export_response(export, content_type)


@csrf_exempt
@login_not_required
@require_POST
@answers_in_otlp
def ignore_export(request: HttpRequest) -> HttpResponse:
    """A success without effect, for exporters that send logs and metrics to where traces go.

    The body is read to its end: senders that cannot finish writing see a broken connection.
    """
    content_type = otlp.media_type(request.content_type or "")
    authenticate(request.headers, now=timezone.now())
    read_capped(request)
    return otlp.export_response(Export(), content_type)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The OTLP port's 404, without a page."""
    error = OtlpError(404, "There is nothing here. Traces go to /v1/traces.")
    return otlp.error_response(error, request.content_type or "")
