"""How spans lie in a row: JSON by position, the sender written once, compressed with zstandard.

One row holds the spans of one trace from one export request. Attribute names repeat from span to
span, so they compress together to a fraction; a row per span would not. What repeats from trace to
trace, names above all, stands in a dictionary that both sides have (docs/decisions/0003).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import cache, cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

import orjson
import zstandard

from tracebudget.core.span import Event, Link, Span

FORMAT = 1  # of the JSON: a reader refuses what it does not know
LEVEL = 3  # 1 saves two microseconds a span, and costs 15 bytes
DICTIONARIES = Path(__file__).with_name("dictionaries")  # made by tests/train_dictionary.py
DICTIONARY = 2  # that new rows are packed with; its number stands in them

_stable_order: Callable[[Span], Any] = attrgetter("span_id", "kind", "start_ns", "end_ns")


def pack_spans(spans: Iterable[Span]) -> bytes:
    """The spans of one trace as bytes, not yet compressed; equal for equal spans in any order."""
    ordered = sorted(spans, key=_stable_order)
    senders: list[list[Any]] = []
    places: dict[tuple[Any, ...], int] = {}
    rows = []
    for span in ordered:
        sender = (id(span.resource), span.scope, span.scope_version, id(span.scope_attributes))
        place = places.setdefault(sender, len(senders))
        if place == len(senders):
            senders.append([span.resource, span.scope, span.scope_version, span.scope_attributes])
        rows.append(_row(span, place))
    return orjson.dumps([FORMAT, ordered[0].trace_id, senders, rows])


def unpack_spans(packed: bytes) -> list[Span]:
    """What `pack_spans` packed; the spans of one sender share its attributes again."""
    format_, trace_id, senders, rows = orjson.loads(packed)
    if format_ != FORMAT:
        raise ValueError(f"Spans were stored in format {format_}; this release reads {FORMAT}.")
    return [_span(trace_id, senders[row[0]], row) for row in rows]


def compress(data: bytes) -> bytes:
    return _tools.compressor.compress(data)


def decompress(data: bytes) -> bytes:
    """With the dictionary that the data names."""
    return _tools.decompressor(zstandard.get_frame_parameters(data).dict_id).decompress(data)


class _Tools(threading.local):
    """A thread's own: zstandard's objects are dear to make and not to be shared."""

    @cached_property
    def compressor(self) -> zstandard.ZstdCompressor:
        return zstandard.ZstdCompressor(LEVEL, dict_data=_dictionary(DICTIONARY))

    @cached_property
    def _decompressors(self) -> dict[int, zstandard.ZstdDecompressor]:
        return {0: zstandard.ZstdDecompressor()}  # 0: packed without one

    def decompressor(self, number: int) -> zstandard.ZstdDecompressor:
        if number not in self._decompressors:
            decompressor = zstandard.ZstdDecompressor(dict_data=_dictionary(number))
            self._decompressors[number] = decompressor
        return self._decompressors[number]


_tools = _Tools()


@cache
def _dictionary(number: int) -> zstandard.ZstdCompressionDict:
    dictionary = zstandard.ZstdCompressionDict((DICTIONARIES / str(number)).read_bytes())
    dictionary.precompute_compress(LEVEL)
    return dictionary


def _row(span: Span, place: int) -> list[Any]:
    return [
        place,
        span.span_id,
        span.parent_id,
        span.name,
        span.kind,
        span.start_ns,
        span.end_ns,
        span.attributes,
        span.status,
        span.status_message,
        [[event.name, event.time_ns, event.attributes] for event in span.events],
        [[link.trace_id, link.span_id, link.attributes] for link in span.links],
        span.flags,
        span.trace_state,
        span.dropped_attributes,
        span.dropped_events,
        span.dropped_links,
    ]


def _span(trace_id: str, sender: list[Any], row: list[Any]) -> Span:
    resource, scope, scope_version, scope_attributes = sender
    _, span_id, parent_id, name, kind, start_ns, end_ns, attributes, status, message = row[:10]
    events, links, flags, trace_state, dropped_attributes, dropped_events, dropped_links = row[10:]
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id,
        name=name,
        kind=kind,
        start_ns=start_ns,
        end_ns=end_ns,
        attributes=attributes,
        status=status,
        status_message=message,
        events=tuple(Event(*event) for event in events),
        links=tuple(Link(*link) for link in links),
        flags=flags,
        trace_state=trace_state,
        scope=scope,
        scope_version=scope_version,
        scope_attributes=scope_attributes,
        resource=resource,
        dropped_attributes=dropped_attributes,
        dropped_events=dropped_events,
        dropped_links=dropped_links,
    )
