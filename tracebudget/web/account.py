"""One's own account: a password, so that one can come back without a link."""

from __future__ import annotations

from typing import cast

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@sensitive_post_parameters()
def account_page(request: HttpRequest) -> HttpResponse:
    """Set a password, or change it with the old one. Other sessions of the user end."""
    user = cast(User, request.user)
    form_type = PasswordChangeForm if user.has_usable_password() else SetPasswordForm
    form = form_type(user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        update_session_auth_hash(request, form.save())
        messages.success(request, gettext("Your password is saved. Other sessions are signed out."))
        return redirect("account")
    status = 400 if form.errors else 200
    return render(request, "sign_in/account.html", {"form": form}, status=status)
