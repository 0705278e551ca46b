"""Answers to findings: what a team has said to one, so that it is told no more of it.

A finding is known by code and subject, in whatever request it shows itself. Answers are looked up
when figures are read, not when requests are analysed: they hold for old requests as for new ones,
and the analysis stays a matter of the traces alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from django.contrib.auth.models import User
from django.db.models import Q

from tracebudget import models
from tracebudget.models import Verdict

# Verdicts that are no answer to most findings.
ONLY_FOR = {
    Verdict.DEPENDENT: frozenset({"serial_tools"}),
    Verdict.NOT_IDEMPOTENT: frozenset({"repeated_tool_call", "tool_retry"}),
}

Key = tuple[int, str, str]  # app, code, subject
Standing = Mapping[Key, models.FindingAnswer]


def fits(verdict: Verdict, code: str) -> bool:
    """Whether a finding can be answered so."""
    return verdict not in ONLY_FOR or code in ONLY_FOR[verdict]


def answer(  # noqa: PLR0913  (an answer has as many sides)
    app: models.App,
    code: str,
    subject: str,
    *,
    verdict: Verdict,
    note: str,
    user: User | None,
    now: datetime,
) -> models.FindingAnswer:
    """Answer a finding of the app, or open it again. It stands until the next answer."""
    return models.FindingAnswer.objects.create(
        app=app,
        code=code,
        subject=subject,
        verdict=verdict,
        note=note,
        answered_by=user,
        answered_at=now,
    )


def standing(apps: Iterable[models.App]) -> Standing:
    """The answers that stand for these apps. One query."""
    latest = models.FindingAnswer.objects.filter(app__in=apps).select_related("answered_by")
    latest = latest.order_by("app", "code", "subject", "-id").distinct("app", "code", "subject")
    return {
        (row.app_id, row.code, row.subject): row for row in latest if row.verdict != Verdict.OPEN
    }


def answered(answers: Standing) -> Q:
    """Rows of `models.Finding` that are answered. Few people answer hundreds of findings."""
    where = Q(code__in=[])
    for app, code, subject in answers:
        where |= Q(app=app, code=code, subject=subject)
    return where


def history(app: models.App) -> list[models.FindingAnswer]:
    """All that was answered, the latest first. One query."""
    rows = models.FindingAnswer.objects.filter(app=app).select_related("answered_by")
    return list(rows.order_by("-id"))
