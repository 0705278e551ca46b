"""Single-use, short-lived sign-in links: the way in on the first visit, without a password."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime

from django.conf import settings
from django.contrib.auth.models import User
from django.urls import reverse

from tracebudget import models


def create_sign_in_url(user: User, *, now: datetime) -> str:
    """A URL that signs `user` in once, within SIGN_IN_LINK_TTL. Only its digest is stored."""
    token = secrets.token_urlsafe(32)
    models.SignInLink.objects.create(
        user=user, digest=_digest(token), expires_at=now + settings.SIGN_IN_LINK_TTL
    )
    return settings.URL + reverse("sign_in_by_link", args=[token])


def redeem(token: str, *, now: datetime) -> User | None:
    """The user that the link signs in; None if used, expired or unknown. Of two at once, one."""
    links = models.SignInLink.objects.filter(digest=_digest(token))
    usable = links.filter(used_at=None, expires_at__gt=now, user__is_active=True)
    return links.get().user if usable.update(used_at=now) else None


def _digest(token: str) -> str:
    """A plain hash will do: the token is 256 random bits, which nobody can guess from it."""
    return hashlib.sha256(token.encode()).hexdigest()
