"""The one door between what was received and what is stored, for every way in.

*Timings only* lets through an allowlist of facts. Of every other value remain its length, a keyed
digest and whether it parsed; before it goes, the core lifts out the facts hidden in it. *Masked*
lets everything through but what the table of masks finds. *Full* keeps all. Both cut what no page
could show. Ids of people and sessions become stable pseudonyms where they would give somebody away.
"""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings

from ingest.privacy.digest import keyed_digest
from ingest.privacy.full import Full
from ingest.privacy.masked import Masked
from ingest.privacy.timings_only import TimingsOnly
from tracebudget import models
from tracebudget.core.span import Span


def pass_door(spans: list[Span], project: models.Project, digest_key: bytes) -> list[Span]:
    """The spans as the project lets them be stored, in their order."""
    return list(map(_door(project, digest_key), spans))


def _door(project: models.Project, digest_key: bytes) -> Callable[[Span], Span]:
    """Whatever is neither of the two open modes is the closed one."""
    if project.privacy == models.Privacy.FULL:
        return Full(settings.MAX_VALUE_CHARS).pass_span
    digest = keyed_digest(digest_key, project.pk)
    if project.privacy == models.Privacy.MASKED:
        return Masked(settings.MAX_VALUE_CHARS, digest).pass_span
    return TimingsOnly(digest).pass_span
