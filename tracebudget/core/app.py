"""What is promised, declared and known of an app: beside its spans, all that an analysis depends
on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tracebudget.core.budget import Budget
from tracebudget.core.declared import NOTHING_DECLARED, Declared
from tracebudget.core.profile import Profile


@dataclass(frozen=True, slots=True)
class App:
    """Budgets its owner set, settings it declared, and the profile fitted on its other requests."""

    budgets: tuple[Budget, ...] = ()
    declared: Declared = NOTHING_DECLARED
    profile: Profile | None = None


UNKNOWN_APP = App()
Apps = Mapping[str, App]  # by name: a trace tells its app only when its root is known
NO_APPS: Apps = {}
