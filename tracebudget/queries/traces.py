"""Which requests, in which order, and one of them whole.

Lists read the summary columns of `models.Trace`, never spans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils.functional import Promise
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from tracebudget import models
from tracebudget.core.span import Span
from tracebudget.document import loads
from tracebudget.packing import decompress, unpack_spans
from tracebudget.templatetags.duration import count, duration
from tracebudget.wording import STATES, finding_title, metric_name

Document = dict[str, Any]
Text = str | Promise

PAGE_SIZE = 50  # rows that are read before one filters
MAX_COUNTED = 10_000  # matches counted exactly; a larger number helps nobody and costs a scan
# Requests looked through at a time for what no index orders: a tenth of a second, of however
# many. What is older is a link away.
MAX_SEARCHED = 50_000
NAMES_FROM = 1_000  # latest requests whose names are offered in filters
ANY = "any"

# A request that started in a window arrived at that time or later; clocks may be a day ahead.
CLOCK_SLACK = timedelta(days=1)


# --- which requests ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing to filter by: its WHERE, and the words that say the same."""

    label: Text
    where: Callable[[Any], Q]
    words: Callable[[Any], str]


def _holds(column: str) -> Callable[[str], Q]:
    return lambda value: Q(**{f"{column}__contains": [value]})


def _breaches(metric: str) -> Q:
    return Q(breached__len__gt=0) if metric == ANY else Q(breached__contains=[metric])


def _breach_words(metric: str) -> str:
    if metric == ANY:
        return gettext("over a budget")
    return gettext("over the budget of %(metric)s") % {"metric": metric_name(metric)}


def _state(state: str) -> Q:
    return Q(has_error=True) if state == "error" else Q(state=state)


def _state_words(state: str) -> str:
    return gettext("with an error in it") if state == "error" else str(STATES[state])


CONDITIONS: dict[str, Condition] = {
    "app": Condition(
        _("app"), lambda v: Q(app__slug=v), lambda v: gettext("of app %(v)s") % {"v": v}
    ),
    "environment": Condition(
        _("environment"), lambda v: Q(environment=v), lambda v: gettext("in %(v)s") % {"v": v}
    ),
    "version": Condition(
        _("version"), lambda v: Q(version=v), lambda v: gettext("of release %(v)s") % {"v": v}
    ),
    "state": Condition(_("state"), _state, _state_words),
    "breach": Condition(_("breach"), _breaches, _breach_words),
    "finding": Condition(
        _("finding"),
        _holds("finding_codes"),
        lambda v: gettext("with the finding “%(v)s”") % {"v": finding_title(v)},
    ),
    "model": Condition(
        _("model"), _holds("model_names"), lambda v: gettext("with model %(v)s") % {"v": v}
    ),
    "tool": Condition(
        _("tool"), _holds("tool_names"), lambda v: gettext("with tool %(v)s") % {"v": v}
    ),
    "agent": Condition(
        _("agent"), _holds("agent_names"), lambda v: gettext("with agent %(v)s") % {"v": v}
    ),
    "session": Condition(
        _("session"), lambda v: Q(session_id=v), lambda v: gettext("of session %(v)s") % {"v": v}
    ),
    "longer": Condition(
        _("longer than"),
        lambda ns: Q(end_to_end_ns__gte=ns),
        lambda ns: gettext("of %(v)s or longer") % {"v": duration(ns)},
    ),
    "shorter": Condition(
        _("shorter than"),
        lambda ns: Q(end_to_end_ns__lte=ns),
        lambda ns: gettext("of %(v)s or shorter") % {"v": duration(ns)},
    ),
    "text": Condition(
        _("text of the name"),
        lambda v: Q(name__icontains=v),
        lambda v: gettext("named “…%(v)s…”") % {"v": v},
    ),
}

SORTS: dict[str, tuple[str, Text]] = {
    "time": ("started_at", _("time")),
    "duration": ("end_to_end_ns", _("duration")),
    "prefill": ("prefill_ns", _("prefill")),
    "decode": ("decode_ns", _("decode")),
    "tool": ("tool_ns", _("tool")),
    "framework": ("framework_ns", _("framework")),
}

ORDER_WORDS: dict[tuple[str, bool], Text] = {
    ("time", True): _("newest first"),
    ("time", False): _("oldest first"),
    ("duration", True): _("slowest first"),
    ("duration", False): _("fastest first"),
    ("prefill", True): _("most prefill first"),
    ("prefill", False): _("least prefill first"),
    ("decode", True): _("most decode first"),
    ("decode", False): _("least decode first"),
    ("tool", True): _("most tool time first"),
    ("tool", False): _("least tool time first"),
    ("framework", True): _("most framework time first"),
    ("framework", False): _("least framework time first"),
}


ORDERED = {"app", "session"}  # what an index finds in the order of time


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time, named as the URL names it. No start: all time."""

    name: str
    since: datetime | None
    until: datetime

    def where(self, column: str = "started_at") -> Q:
        if self.since is None:
            return Q(**{f"{column}__isnull": False})
        return Q(**{f"{column}__gte": self.since, f"{column}__lt": self.until})

    def rows(self) -> Q:
        """For tables partitioned by day of arrival: the same, and which days to look into."""
        if self.since is None:
            return self.where()
        return self.where() & Q(day__gte=(self.since - CLOCK_SLACK).date())


WINDOWS: dict[str, tuple[timedelta | None, Text]] = {
    "1h": (timedelta(hours=1), _("last hour")),
    "24h": (timedelta(hours=24), _("last 24 hours")),
    "7d": (timedelta(days=7), _("last 7 days")),
    "30d": (timedelta(days=30), _("last 30 days")),
    "all": (None, _("all time")),
}


def window(name: str, *, now: datetime) -> Window:
    """A named window that ends now. Clocks ahead of ours are let in."""
    length, _words = WINDOWS[name]
    return Window(name, None if length is None else now - length, now + CLOCK_SLACK)


@dataclass(frozen=True, slots=True)
class TraceFilter:
    """Which requests of a project, in which order; says in words what its WHERE does."""

    project: models.Project
    window: Window
    values: Mapping[str, Any] = field(default_factory=dict)
    sort: str = "time"
    descending: bool = True
    before: datetime | None = None

    def traces(self) -> QuerySet[models.Trace]:
        """All that match. Traces that were never analysed have nothing to filter by."""
        where = Q()
        for key in self.values.keys() - ORDERED:
            where &= CONDITIONS[key].where(self.values[key])
        return self._ordered().filter(where).select_related("app")

    def _ordered(self) -> QuerySet[models.Trace]:
        """What an index has in the order of time: of the project, or of an app or a session."""
        where = Q(started_at__isnull=False) & self.window.where()
        if self.before is not None:
            where &= Q(started_at__lt=self.before)
        if "session" in self.values:
            where &= Q(project=self.project, session_id=self.values["session"])
        if "app" in self.values:
            # Named by its id, and without the project, which it implies: of anything else Postgres
            # does not know how many requests it has, and walks those of the whole project.
            apps = models.App.objects.filter(project=self.project, slug=self.values["app"])
            where &= Q(app__in=list(apps.values_list("pk", flat=True)))
        else:
            where &= Q(project=self.project)
        return models.Trace.objects.filter(where)

    def horizon(self) -> datetime | None:
        """How far back to look, where each request has to be looked at; None: at all. One query, if
        any.
        """
        if not self.values.keys() - ORDERED and self.sort == "time":
            return None
        starts = self._ordered().order_by("-started_at", "-id").values_list("started_at", flat=True)
        return starts[MAX_SEARCHED : MAX_SEARCHED + 1].first()

    def describe(self, matches: int) -> str:
        """The sentence above the list."""
        many = gettext("More than %(n)s requests") if matches > MAX_COUNTED else None
        number = min(matches, MAX_COUNTED)
        start = many or ngettext("%(n)s request", "%(n)s requests", number)
        words = [start % {"n": count(number)}]
        words += [CONDITIONS[key].words(value) for key, value in self.values.items()]
        words.append(gettext("in all time") if self.window.since is None else self._window_words())
        order = ORDER_WORDS[self.sort, self.descending]
        return f"{' '.join(words)}, {order}."

    def _window_words(self) -> str:
        return gettext("in the %(window)s") % {"window": WINDOWS[self.window.name][1]}

    @property
    def column(self) -> str:
        return SORTS[self.sort][0]


@dataclass(frozen=True, slots=True)
class Position:
    """A row's place in an order: what a page continues behind."""

    value: datetime | int
    id: int


@dataclass(frozen=True, slots=True)
class TracePage:
    """Rows, how many match (MAX_COUNTED + 1: more), and where the next page begins, if any.

    `horizon` is how far back was looked, None where everything was.
    """

    rows: list[models.Trace]
    matches: int
    next: Position | None
    horizon: datetime | None = None


def trace_page(
    chosen: TraceFilter,
    *,
    after: Position | None = None,
    size: int = PAGE_SIZE,
    horizon: datetime | None = None,
) -> TracePage:
    """One page in the filter's order, ties broken by id: never a row twice, never one left out of
    those since the horizon.

    Two queries.
    """
    traces = chosen.traces()
    if horizon is not None:
        traces = traces.filter(started_at__gte=horizon)
    matches = traces.order_by()[: MAX_COUNTED + 1].count()
    sign = "-" if chosen.descending else ""
    rows = list(
        _behind(traces, chosen, after).order_by(f"{sign}{chosen.column}", f"{sign}id")[: size + 1]
    )
    last = rows[size - 1] if len(rows) > size else None
    following = Position(getattr(last, chosen.column), last.pk) if last is not None else None
    return TracePage(rows[:size], matches, following, horizon)


def _behind(
    traces: QuerySet[models.Trace], chosen: TraceFilter, after: Position | None
) -> QuerySet[models.Trace]:
    """(column, id) beyond the position. The first condition alone is what an index can use."""
    if after is None:
        return traces
    than = "lt" if chosen.descending else "gt"
    return traces.filter(**{f"{chosen.column}__{than}e": after.value}).filter(
        Q(**{f"{chosen.column}__{than}": after.value}) | Q(**{f"id__{than}": after.id})
    )


@dataclass(frozen=True, slots=True)
class Names:
    """What the latest requests of a project offer to filter by."""

    environments: list[str]
    versions: list[str]
    models: list[str]
    tools: list[str]
    agents: list[str]
    findings: list[str]
    breaches: list[str]


def names(project: models.Project, app: models.App | None = None) -> Names:
    """Distinct names among the latest requests. One query."""
    mine = Q(app=app) if app is not None else Q(project=project)
    latest = models.Trace.objects.filter(mine, started_at__isnull=False)
    rows = latest.order_by("-started_at").values_list(
        "environment", "version", "model_names", "tool_names", "agent_names", "finding_codes",
        "breached",
    )[:NAMES_FROM]  # fmt: skip
    found: list[set[str]] = [set() for _column in range(7)]
    for row in rows:
        for values, value in zip(found, row, strict=True):
            values.update(value if isinstance(value, list) else [value] if value else [])
    return Names(*(sorted(values) for values in found))


PINNED_SHOWN = 50


def pinned(project: models.Project) -> list[models.Trace]:
    """The requests pinned last, PINNED_SHOWN at most. One query."""
    kept = models.Trace.objects.filter(project=project, pinned_at__isnull=False)
    return list(kept.select_related("app").order_by("-pinned_at")[:PINNED_SHOWN])


def pinned_count(project: models.Project) -> int:
    """One query."""
    return models.Trace.objects.filter(project=project, pinned_at__isnull=False).count()


# --- one request ---------------------------------------------------------------------------------


def find_trace(project: models.Project, trace_id: UUID) -> models.Trace | None:
    """One query, its app and its place in the queue with it."""
    found = models.Trace.objects.filter(project=project, trace_id=trace_id)
    return found.select_related("app", "due").first()


def document_text(trace: models.Trace) -> bytes | None:
    """The analysis object as JSON, as it was made; None before the first analysis. One query."""
    stored = models.Analysis.objects.filter(day=trace.day, trace=trace)
    packed = stored.values_list("document", flat=True).first()
    return None if packed is None else decompress(bytes(packed))


def document(trace: models.Trace) -> Document | None:
    """The analysis object. One query."""
    text = document_text(trace)
    return None if text is None else loads(text)


def spans(trace: models.Trace) -> list[Span]:
    """All spans as stored, by start; one that came in two batches stands there once. One query."""
    batches = models.SpanBatch.objects.filter(day=trace.day, trace=trace)
    unique = {
        (span.span_id, span.service, span.kind, span.end_ns): span
        for batch in batches
        for span in unpack_spans(decompress(batch.payload))
    }
    return sorted(unique.values(), key=lambda s: (s.start_ns, -s.end_ns, s.span_id))
