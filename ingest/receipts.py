"""A record for people who ask where their data went: what came, what was kept, what was not.

Looking at every attribute of every span once more would cost more than storing them. So it is done
at most once a second for each project, way and signal; exports in between are counted, and their
counts go into the next receipt. A process that dies loses a second of counts, never a span.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, NamedTuple

from django.db import DatabaseError

from ingest.decode import CUT, OUR_KEYS, Export
from ingest.errors import OtlpError
from ingest.privacy.digest import PSEUDONYM
from ingest.privacy.facts import NAME_REDACTED
from tracebudget import models
from tracebudget.core.dialects.facts import is_redacted
from tracebudget.core.span import Attributes, Span
from tracebudget.models import Fate, Place, Signal, Way

logger = logging.getLogger(__name__)

EVERY = timedelta(seconds=1)
RECEIPTS_KEPT = 50  # of a project: for somebody who sets an exporter up and looks at what arrives
MAX_FATES, MAX_REASONS = 300, 20  # of one receipt, the most frequent

WITHHELD = ("", NAME_REDACTED)

Counted = tuple[Place, str, Fate]  # where, under which name, what became of the value


@dataclass
class Tally:
    """Exports since the last receipt."""

    export_count: int = 0
    span_count: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    repaired: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        self.export_count += other.export_count
        self.span_count += other.span_count
        self.refused += other.refused
        self.repaired += other.repaired
        self.errors += other.errors


class Stream(NamedTuple):
    """Exports that are counted together."""

    project: models.Project
    way: Way
    signal: Signal


class Tallies:
    """The open tallies of this process, and when the last receipt of each stream was written."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.open: dict[Stream, Tally] = {}
        self.written: dict[Stream, datetime] = {}

    def add(self, stream: Stream, tally: Tally, *, now: datetime) -> Tally | None:
        """Count, and give what is due to be written; None while the last receipt is young."""
        with self.lock:
            self.open.setdefault(stream, Tally()).add(tally)
            if stream in self.written and now - self.written[stream] < EVERY:
                return None
            self.written[stream] = now
            return self.open.pop(stream)


_tallies = Tallies()


def note_export(stream: Stream, export: Export, passed: Sequence[Span], *, now: datetime) -> None:
    """Count an export that was stored; `passed` is what the privacy door made of its spans."""
    tally = Tally(1, export.stored, export.refused, export.repaired)
    if due := _tallies.add(stream, tally, now=now):
        _write(stream, due, fates_of(export.spans, passed), now=now)


def note_ignored(stream: Stream, *, now: datetime) -> None:
    """Count an export of which nothing is stored."""
    if due := _tallies.add(stream, Tally(1), now=now):
        _write(stream, due, Counter(), now=now)


@contextmanager
def errors_noted(stream: Stream, *, now: datetime) -> Iterator[None]:
    """Count an export that is refused as a whole: its sender may not show the answer."""
    try:
        yield
    except OtlpError as error:
        tally = Tally(1, errors=Counter([error.message]))
        if due := _tallies.add(stream, tally, now=now):
            _write(stream, due, Counter(), now=now)
        raise


def _write(stream: Stream, tally: Tally, fates: Counter[Counted], *, now: datetime) -> None:
    """The spans are stored already, so a failure here is not the sender's."""
    receipts = models.Receipt.objects.filter(project=stream.project)
    try:
        models.Receipt.objects.create(
            project=stream.project,
            at=now,
            way=stream.way,
            signal=stream.signal,
            privacy=stream.project.privacy,
            export_count=tally.export_count,
            span_count=tally.span_count,
            refused=dict(tally.refused.most_common(MAX_REASONS)),
            repaired=dict(tally.repaired.most_common(MAX_REASONS)),
            errors=dict(tally.errors.most_common(MAX_REASONS)),
            fates=[[*fate, count] for fate, count in fates.most_common(MAX_FATES)],
        )
        oldest = receipts.order_by("-id").values("id")[RECEIPTS_KEPT : RECEIPTS_KEPT + 1]
        receipts.filter(id__lte=oldest).delete()
    except DatabaseError as error:
        logger.warning("A receipt could not be written: %s", error)


# --- what became of the values -------------------------------------------------------------------


def fates_of(spans: Iterable[Span], passed: Iterable[Span]) -> Counter[Counted]:
    """How often each name met each fate. Of shared attributes each set counts once."""
    fates: Counter[Counted] = Counter()
    seen: set[int] = set()
    for before, after in zip(spans, passed, strict=True):
        fates.update(_of_span(before, after))
        for place, old, new in (
            (Place.SCOPE, before.scope_attributes, after.scope_attributes),
            (Place.RESOURCE, before.resource, after.resource),
        ):
            if id(old) not in seen:
                seen.add(id(old))
                fates.update(_of_attributes(place, old, new))
    return fates


def _of_span(before: Span, after: Span) -> Iterator[Counted]:
    yield from _of_text(Place.NAME, before.name, after.name)
    yield from _of_text(Place.STATUS_MESSAGE, before.status_message, after.status_message)
    yield from _of_text(Place.TRACE_STATE, before.trace_state, after.trace_state)
    yield from _of_attributes(Place.SPAN, before.attributes, after.attributes)
    for old, new in zip(before.events, after.events, strict=True):
        yield from _of_text(Place.EVENT_NAME, old.name, new.name)
        yield from _of_attributes(Place.EVENT, old.attributes, new.attributes)
    for old_link, new_link in zip(before.links, after.links, strict=True):
        yield from _of_attributes(Place.LINK, old_link.attributes, new_link.attributes)


def _of_text(place: Place, before: str, after: str) -> Iterator[Counted]:
    if before:
        yield place, "", fate_of(before, after)


def _of_attributes(place: Place, before: Attributes, after: Attributes) -> Iterator[Counted]:
    """A name that is not stored is not told here either."""
    for key, value in before.items():
        if key in after:
            yield place, key, fate_of(value, after[key])
        else:
            is_renamed = after.keys() - before.keys() - OUR_KEYS
            yield place, "", Fate.MASKED if is_renamed else Fate.LEFT_OUT


def fate_of(before: Any, after: Any) -> Fate:
    if after == before:
        return Fate.KEPT
    if is_redacted(after) or after in WITHHELD:
        return Fate.WITHHELD
    if not isinstance(after, str):
        return Fate.MASKED
    if after.startswith(PSEUDONYM):
        return Fate.PSEUDONYM
    return Fate.CUT if CUT in after else Fate.MASKED
