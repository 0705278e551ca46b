"""`manage.py prepare`: what must be done once before the programs of a release start."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from tracebudget.runtime.data_dir import make_secret
from tracebudget.runtime.database import prepare_database
from tracebudget.runtime.errors import StartError


class Command(BaseCommand):
    help = "Make the secret key, migrate the database, and make the first project. Safe to repeat."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            settings.DATA_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
            make_secret(settings.SECRET_KEY_FILE)
            is_first = prepare_database()
        except StartError as error:
            raise CommandError(str(error)) from error
        self.stdout.write("The database is ready.")
        if is_first:
            self.stdout.write(
                f"The first project is made; its keys are in {settings.CREDENTIALS_FILE}. "
                "`python manage.py sign_in_link` prints the way in."
            )
