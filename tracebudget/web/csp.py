"""The content security policy of every page: only our own files run, and nobody may frame us.

Django has this built in from 6.0; a header that never varies is not worth a library until then.
"""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

# Plotly adds an empty <style> element and fills it by script; the hash of "" permits that.
EMPTY_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        f"style-src 'self' {EMPTY_STYLE}",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)


def content_security_policy(
    next_layer: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: say the policy on each answer."""

    def answer(request: HttpRequest) -> HttpResponse:
        response = next_layer(request)
        response.headers["Content-Security-Policy"] = POLICY
        return response

    return answer
