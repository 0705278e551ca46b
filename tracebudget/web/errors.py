"""Error pages, and the same as JSON for the API. What went wrong, why, what to do next."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import get_template
from django.utils.translation import gettext

API_PREFIX = "/api/"


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _answer(request, 400, str(exception) or gettext("This request makes no sense here."))


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _answer(request, 403, gettext("You may not do this."))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _answer(request, 404, gettext("There is nothing at this address that you may see."))


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Django's own page would name neither the product nor the way out."""
    return _answer(
        request,
        403,
        gettext("This form is too old, or was not sent from here. Go back, reload, send it again."),
    )


def server_error(request: HttpRequest) -> HttpResponse:
    """Touches neither the database nor the base template: either may be what is broken."""
    if request.path.startswith(API_PREFIX):
        return json_error(500, "The server failed. Its log says why.")
    return HttpResponse(get_template("500.html").render(), status=500)


def json_error(status: int, message: str, **more: object) -> JsonResponse:
    """The one shape of an error in the API."""
    return JsonResponse({"error": {"status": status, "message": message, **more}}, status=status)


def _answer(request: HttpRequest, status: int, message: str) -> HttpResponse:
    if request.path.startswith(API_PREFIX):
        return json_error(status, message)
    return render(request, f"{status}.html", {"message": message}, status=status)
