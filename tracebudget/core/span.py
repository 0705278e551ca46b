"""The span as the core knows it: what OTLP carries, in plain frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from tracebudget.core.record import record

# Attribute values are what OTLP/JSON can say: str, bool, int, float, None, list and dict of these.
# Bytes arrive as base64 text. A value that the privacy door took away is a `Redacted` mapping (see
# content.py).
Attributes = Mapping[str, Any]

KIND_UNSPECIFIED, KIND_INTERNAL, KIND_SERVER, KIND_CLIENT, KIND_PRODUCER, KIND_CONSUMER = range(6)
STATUS_UNSET, STATUS_OK, STATUS_ERROR = range(3)

FLAG_HAS_IS_REMOTE = 0x100  # OTLP SpanFlags: the next bit is meaningful
FLAG_IS_REMOTE = 0x200  # OTLP SpanFlags: the parent lives in another process


@record
class Event:
    """A moment inside a span. `time_ns` is Unix time in nanoseconds."""

    name: str
    time_ns: int
    attributes: Attributes = field(default_factory=dict)


@record
class Link:
    """A pointer to a span that is no ancestor. Used to group, never to measure."""

    trace_id: str
    span_id: str
    attributes: Attributes = field(default_factory=dict)


@record
class Span:
    """One OTLP span as received. Ids are lower-case hex, times Unix nanoseconds; 0 means not given.

    `resource` and `scope_attributes` are shared between the spans of one export, never copied.
    """

    trace_id: str
    span_id: str
    parent_id: str  # "" for none
    name: str
    kind: int
    start_ns: int
    end_ns: int
    attributes: Attributes
    status: int = STATUS_UNSET
    status_message: str = ""
    events: tuple[Event, ...] = ()
    links: tuple[Link, ...] = ()
    flags: int = 0
    trace_state: str = ""
    scope: str = ""
    scope_version: str = ""
    scope_attributes: Attributes = field(default_factory=dict)
    resource: Attributes = field(default_factory=dict)
    dropped_attributes: int = 0
    dropped_events: int = 0
    dropped_links: int = 0

    @property
    def service(self) -> str:
        """`service.name` of the sender, "" when it sent none."""
        name = self.resource.get("service.name")
        return name if isinstance(name, str) else ""

    @property
    def parent_is_remote(self) -> bool:
        """OTLP flags say that the parent lives in another process."""
        return (
            self.flags & (FLAG_HAS_IS_REMOTE | FLAG_IS_REMOTE)
            == FLAG_HAS_IS_REMOTE | FLAG_IS_REMOTE
        )
