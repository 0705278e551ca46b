"""What figures over many requests are made of: counts, sums and sketches, by release and name.

Requests of a stretch of time are added to a `Tally`; tallies of several stretches add up to that of
them all. How they are stored: `models.Rollup`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from heapq import nlargest
from typing import Any, NamedTuple

from tracebudget.core.ttft import KNOWN
from tracebudget.sketch import Columns, Sketch

Row = Mapping[str, Any]

OBSERVED = frozenset(source.value for source in KNOWN)  # as columns have it

# A request's value of each budget metric, by its column of the summary, of which `active_ns` is
# end-to-end less `wait_ns`. Single tools have series of their own.
METRIC_COLUMNS = {
    "end_to_end": "active_ns",
    "turn": "longest_turn_ns",
    "ttft": "worst_ttft_ns",
    "first_visible": "worst_first_visible_ns",
    "tpot": "worst_tpot_ns",
    "tool": "tool_ns",
    "framework": "overhead_ns",
    "turns": "run_turn_count",
    "input_tokens": "largest_input_tokens",
}
# What else is added up of requests, beside their end-to-end.
SUMS = (
    "prefill_ns",
    "decode_ns",
    "tool_ns",
    "framework_ns",
    "wait_ns",
    "unsplit_ns",
    "unattributed_ns",
)
LISTS = {"breached": "over", "unjudged": "unjudged", "unknown_steps": "unknown"}

REQUEST = "end_to_end"
TURN, TURN_CALL, TURN_TTFT, TURN_INPUT = "turn_time", "turn_call", "turn_ttft", "turn_input"
TOOL_CALL = "tool_call"
MODEL_CALL, MODEL_TTFT, MODEL_TPOT = "model_call", "model_ttft", "model_tpot"
CODE, FINDING = "finding_code", "finding"  # of all its subjects, and of each

MAX_TURNS = 12  # by index: tables show no more
MAX_NAMES = 50  # of one kind in a stretch, those with the most time: names come from outside
MAX_RELEASES = 50  # of an app in a stretch; what comes beyond is counted without its release


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def start_of(moment: datetime, minutes: int) -> datetime:
    """When the stretch of so many minutes began in which a moment lies. Days are those of UTC."""
    width = timedelta(minutes=minutes)
    return EPOCH + (moment - EPOCH) // width * width


class Release(NamedTuple):
    environment: str
    version: str


UNTOLD = Release("", "")


class Key(NamedTuple):
    """`metric` is a budget metric or one of the kinds above. `name` is that of a tool or a model, a
    turn's index, a finding's code (and its subject, with a space between them), or "".
    """

    release: Release
    metric: str
    name: str


class Stored(NamedTuple):
    """A series as columns of `models.Rollup`: `STORED` in this order."""

    total: int
    known: int
    sum: int
    also: Mapping[str, int]
    bins: list[int]
    counts: list[int]
    least: int | None
    most: int | None


STORED = ("total", "count", "sum", "also", *Columns._fields)


@dataclass(slots=True)
class Series:
    """Of `total` requests or calls `count` have a value: their sum and sketch.

    `also` counts and adds up what else is told of the same requests or calls.
    """

    total: int = 0
    count: int = 0
    sum: int = 0
    sketch: Sketch = field(default_factory=Sketch)
    also: Counter[str] = field(default_factory=Counter)

    def add(self, value: int | None) -> None:
        self.total += 1
        if value is not None:
            value = max(0, value)
            self.count += 1
            self.sum += value
            self.sketch.add(value)

    def merge(self, other: Stored) -> None:
        self.total += other.total
        self.count += other.known
        self.sum += int(other.sum)
        self.sketch.merge(Columns(other.bins, other.counts, other.least, other.most))
        self.also.update(other.also)

    def stored(self) -> Stored:
        also = {what: number for what, number in self.also.items() if number}
        return Stored(self.total, self.count, self.sum, also, *self.sketch.columns())


class Tally:
    """Series by key."""

    def __init__(self) -> None:
        self.series: defaultdict[Key, Series] = defaultdict(Series)
        self._releases: dict[int, Release] = {}  # by the ids of traces
        self._known: set[Release] = set()

    def add_request(self, row: Row) -> None:
        """A summary. Before its calls and findings."""
        release = self._release_of(row)
        for metric, column in METRIC_COLUMNS.items():
            self.series[Key(release, metric, "")].add(row[column])
        request = self.series[Key(release, REQUEST, "")]
        request.also["errors"] += bool(row["has_error"])
        for column in SUMS:
            request.also[column] += row[column] or 0
        for column, word in LISTS.items():
            request.also.update(f"{word} {item}" for item in row[column] or ())
        for index, ns in enumerate((row["turn_ns"] or ())[:MAX_TURNS]):
            self.series[Key(release, TURN, str(index))].add(ns)

    def _release_of(self, row: Row) -> Release:
        release = Release(row["environment"] or "", row["version"] or "")
        if release not in self._known and len(self._known) >= MAX_RELEASES:
            release = UNTOLD
        self._known.add(release)
        self._releases[row["id"]] = release
        return release

    def add_model_call(self, row: Row) -> None:
        """TTFT and TPOT are of calls that promises are about: foreground, and answered."""
        release, model = self._releases[row["trace_id"]], row["model"] or ""
        calls = self.series[Key(release, MODEL_CALL, model)]
        calls.add(row["duration_ns"])
        calls.also["errors"] += row["is_error"]
        calls.also["critical_ns"] += row["critical_ns"]
        if row["output_tokens"] is not None:
            calls.also["output_tokens"] += row["output_tokens"]
            calls.also["output_known"] += 1
        if row["is_error"] or row["turn"] is None:
            return
        ttft = row["ttft_ns"] if row["ttft_source"] in OBSERVED else None
        self.series[Key(release, MODEL_TTFT, model)].add(ttft)
        self.series[Key(release, MODEL_TPOT, model)].add(row["tpot_ns"])
        if row["turn"] < MAX_TURNS:
            turn = str(row["turn"])
            self.series[Key(release, TURN_CALL, turn)].add(row["duration_ns"])
            self.series[Key(release, TURN_TTFT, turn)].add(ttft)
            self.series[Key(release, TURN_INPUT, turn)].add(row["input_tokens"])

    def add_tool_call(self, row: Row) -> None:
        calls = self.series[Key(self._releases[row["trace_id"]], TOOL_CALL, row["name"])]
        calls.add(row["duration_ns"])
        calls.also["errors"] += row["is_error"]
        calls.also["timeouts"] += row["is_timeout"]
        calls.also["retries"] += row["attempt"] > 0
        calls.also["critical_ns"] += row["critical_ns"]

    def add_findings(self, rows: Iterable[Row]) -> None:
        """Of whole requests: a finding that shows itself twice in one is one, with both savings."""
        found: dict[tuple[int, str, str], int | None] = {}
        for row in rows:
            code, saving = row["code"], row["saving_ns"]
            for metric, name in ((CODE, code), (FINDING, f"{code} {row['subject']}")):
                place = (row["trace_id"], metric, name)
                before = found.get(place)
                found[place] = before if saving is None else saving + (before or 0)
            if row["turn"] is not None:
                where = Key(self._releases[row["trace_id"]], CODE, code)
                self.series[where].also[f"turn {min(row['turn'], MAX_TURNS)}"] += 1
        for (trace, metric, name), saving in found.items():
            self.series[Key(self._releases[trace], metric, name)].add(saving)

    def bounded(self) -> dict[Key, Series]:
        """The series, of each release and metric those names that took the most time."""
        by_metric: defaultdict[tuple[Release, str], list[Key]] = defaultdict(list)
        for key in self.series:
            by_metric[key.release, key.metric].append(key)
        kept = (key for keys in by_metric.values() for key in nlargest(MAX_NAMES, keys, self._size))
        return {key: self.series[key] for key in kept}

    def _size(self, key: Key) -> tuple[int, int, str]:
        one = self.series[key]
        return one.sum, one.total, key.name
