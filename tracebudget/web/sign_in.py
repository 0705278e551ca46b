"""Signing in, by a single-use link or by password, and out."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from tracebudget.sign_in import redeem

sign_in = LoginView.as_view(template_name="sign_in/form.html", redirect_authenticated_user=True)
sign_out = LogoutView.as_view()


@login_not_required
@never_cache
@require_GET
def sign_in_by_link(request: HttpRequest, token: str) -> HttpResponse:
    """Sign in whoever follows the link first. A browser that only looks ahead uses nothing up."""
    if "prefetch" in request.headers.get("Sec-Purpose", ""):
        return HttpResponse(status=503)
    user = redeem(token, now=timezone.now())
    if user is None:
        return render(request, "sign_in/link_gone.html", status=410)
    login(request, user)
    return redirect(settings.LOGIN_REDIRECT_URL)
