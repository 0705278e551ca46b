"""`manage.py run PROGRAM`: one program of Tracebudget in this process, for containers and units.

`up` starts the same programs with the same command lines, and watches them.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from tracebudget.runtime import programs
from tracebudget.runtime.child import ROOT

PROGRAMS = {
    program.__name__: program
    for program in (programs.web, programs.otlp, programs.grpc, programs.worker, programs.beat)
}


class Command(BaseCommand):
    help = "Become one program of Tracebudget. It needs DATABASE_URL and BROKER_URL."
    requires_system_checks = []  # each program has its own

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("program", choices=PROGRAMS)

    def handle(self, *args: Any, program: str, **options: Any) -> None:
        command = PROGRAMS[program]()
        os.chdir(ROOT)
        os.execv(command.argv[0], command.argv)
