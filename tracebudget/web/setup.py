"""The setup page: how do I get my traces in?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.request import split_domain_port
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from tracebudget import models
from tracebudget.queries.arrival import arrival
from tracebudget.web.access import is_owner, project_for


@dataclass(frozen=True, slots=True)
class Doors:
    """Where to send, as a browser that sees this page would reach it."""

    http: str
    grpc: str
    web: str  # takes traces too: the way in where only one port is let through


def doors(request: HttpRequest) -> Doors:
    """The host that the reader came by, with the ports of the receivers."""
    host, _port = split_domain_port(request.get_host())
    scheme = request.scheme or "http"
    return Doors(
        http=f"{scheme}://{host}:{settings.OTLP_PORT}",
        grpc=f"{scheme}://{host}:{settings.GRPC_PORT}",
        web=f"{scheme}://{request.get_host()}",
    )


@require_safe
@never_cache
def setup_page(request: HttpRequest, project: str) -> HttpResponse:
    """How do I get my traces in?"""
    mine = project_for(request.user, project)
    return render(request, "setup/page.html", setup_context(request, mine))


def setup_context(request: HttpRequest, project: models.Project) -> dict[str, Any]:
    """What the page says; also of the page of apps while there are none."""
    live = models.IngestKey.objects.filter(project=project, revoked_at=None)
    return {
        "project": project,
        "arrival": arrival(project),
        "doors": doors(request),
        "keys": live.order_by("created_at", "pk"),
        "is_owner": is_owner(request.user, project),
    }
