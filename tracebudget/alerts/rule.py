"""An app's rule: its own, or the default."""

from __future__ import annotations

from tracebudget import models
from tracebudget.core.alerting import DEFAULT_RULE, MINUTE_NS, Rule


def rule_of(app: models.App) -> Rule | None:
    """When the app's alerts open and close; None if nobody watches. One query."""
    row = models.AlertRule.objects.filter(app=app).first()
    if row is None:
        return DEFAULT_RULE
    if not row.is_on:
        return None
    return Rule(
        over=row.over,
        of_last=row.of_last,
        window_ns=row.window_minutes * MINUTE_NS,
        recovery_ns=row.recovery_minutes * MINUTE_NS,
    )
