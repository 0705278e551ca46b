"""The status page: is Tracebudget itself well?"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from tracebudget.queries.status import status
from tracebudget.web.access import project_for


@require_safe
def status_page(request: HttpRequest, project: str) -> HttpResponse:
    """Figures of the whole instance, and the project's requests whose analysis failed."""
    mine = project_for(request.user, project)
    context = {"project": mine, "status": status(mine, now=timezone.now())}
    return render(request, "status.html", context)
