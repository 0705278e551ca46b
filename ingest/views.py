"""OTLP over HTTP: bodies in, answers out."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt

from ingest import otlp
from ingest.auth import Caller
from ingest.body import read_body, read_capped
from ingest.errors import INTERNAL, OtlpError, retried_when_away
from ingest.intake import ignore, receive
from tracebudget.models import Signal, Way

logger = logging.getLogger(__name__)

View = Callable[..., HttpResponse]


def answers_in_otlp(view: View) -> View:
    """Errors become a google.rpc.Status, on the web port too."""

    @wraps(view)
    def wrapped(request: HttpRequest, **arguments: Any) -> HttpResponse:
        try:
            require_post(request)
            with retried_when_away():
                return view(request, **arguments)
        except OtlpError as error:
            return otlp.error_response(error, request.content_type or "")
        except Exception:
            logger.exception("An export over HTTP failed")
            return otlp.error_response(INTERNAL, request.content_type or "")

    return wrapped


def require_post(request: HttpRequest) -> None:
    """OtlpError 405 for people who look what is here, and for browsers that ask whether a page may
    send: it may not, for then whoever sees the page has the key.
    """
    if request.method != "POST":
        raise OtlpError(405, "This address takes OTLP exports by POST, and not from web pages.")


@csrf_exempt
@login_not_required
@answers_in_otlp
def export_traces(request: HttpRequest) -> HttpResponse:
    """Store the spans of one export request; durable before the 200."""
    content_type = otlp.media_type(request.content_type or "")
    read = partial(read_body, request)
    export = receive(caller_of(request), content_type, read, now=timezone.now())
    return otlp.export_response(export, content_type)


@csrf_exempt
@login_not_required
@answers_in_otlp
def ignore_export(request: HttpRequest, signal: Signal) -> HttpResponse:
    """A success without effect: see intake.ignore."""
    content_type = otlp.media_type(request.content_type or "")
    read = partial(read_capped, request)
    export = ignore(caller_of(request), signal, read, now=timezone.now())
    return otlp.export_response(export, content_type)


def caller_of(request: HttpRequest) -> Caller:
    return Caller(request.headers, request.META.get("REMOTE_ADDR", ""), Way.HTTP)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The OTLP port's 404, without a page."""
    error = OtlpError(404, "There is nothing here. Traces go to /v1/traces.")
    return otlp.error_response(error, request.content_type or "")
