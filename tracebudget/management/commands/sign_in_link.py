"""`manage.py sign_in_link [USER]`: print a link that signs the user in, once and for an hour."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from tracebudget.runtime.first_start import OWNER
from tracebudget.sign_in import create_sign_in_url


class Command(BaseCommand):
    help = "Print a link that signs a user in, once and for an hour."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", nargs="?", default=OWNER, help=f"user name (default: {OWNER})")

    def handle(self, *args: Any, user: str, **options: Any) -> None:
        found = User.objects.filter(username=user, is_active=True).first()
        if found is None:
            raise CommandError(f"There is no active user {user!r}.")
        self.stdout.write(create_sign_in_url(found, now=timezone.now()))
