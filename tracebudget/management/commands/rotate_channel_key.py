"""`manage.py rotate_channel_key`: a new key for the addresses and secrets of channels."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from tracebudget.alerts import vault


class Command(BaseCommand):
    help = "Seal the addresses and secrets of all channels under a new key. Nothing is restarted."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--drop-old",
            action="store_true",
            help="forget the old keys: backups of the database made until now lose their channels",
        )

    def handle(self, *args: Any, drop_old: bool, **options: Any) -> None:
        try:
            count = vault.rotate(keep_old=not drop_old)
        except vault.VaultError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"Sealed {count} channels under a new key. Back up {settings.CHANNEL_KEY_FILE}."
        )
