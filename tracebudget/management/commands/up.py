"""`manage.py up`: start everything on this machine, with nothing to install."""

from __future__ import annotations

import signal
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from tracebudget.runtime.errors import StartError
from tracebudget.runtime.start import run


class Command(BaseCommand):
    help = "Start Tracebudget here: database and broker (unless named), web, OTLP, worker and beat."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--no-demo", action="store_true", help="leave an empty database empty")

    def handle(self, *args: Any, **options: Any) -> None:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends us like Ctrl-C
        try:
            run(sys.stdout, with_demo=not options["no_demo"])
        except StartError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            self.stdout.write("Stopped.")
