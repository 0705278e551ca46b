"""*Full*: everything passes; a value that no page could show is cut, its facts lifted out first."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from operator import attrgetter, is_
from typing import Any, TypeVar

import orjson

from ingest.decode import cut
from ingest.privacy.facts import Once
from tracebudget.core.content.fingerprint import fingerprint
from tracebudget.core.content.lifting import lift
from tracebudget.core.dialects.facts import LIFTED
from tracebudget.core.span import Attributes, Event, Link, Span

Carrier = TypeVar("Carrier", Event, Link)

PARTS = ("attributes", "status_message", "events", "links", "scope_attributes", "resource")
CONTAINERS = (list, dict)
_parts = attrgetter(*PARTS)


class Full:
    """Cuts values over `cap` characters."""

    def __init__(self, cap: int) -> None:
        self.cap = cap
        self.bound_once = Once(partial(bound, cap=cap))

    def pass_span(self, span: Span) -> Span:
        """The core cannot read a cut text, so what it would read there is lifted out before."""
        bounded = self.bound_span(span)
        if bounded is span:
            return span
        return with_lifted(bounded, lift(span, fingerprint))

    def bound_span(self, span: Span) -> Span:
        """The same object, but for monstrous spans."""
        parts = (
            bound(span.attributes, self.cap),
            cut(span.status_message, self.cap),
            self.bound_each(span.events) if span.events else span.events,
            self.bound_each(span.links) if span.links else span.links,
            self.bound_once(span.scope_attributes),
            self.bound_once(span.resource),
        )
        if all(map(is_, parts, _parts(span))):
            return span
        changed: dict[str, Any] = dict(zip(PARTS, parts, strict=True))
        return replace(span, **changed)

    def bound_each(self, carriers: tuple[Carrier, ...]) -> tuple[Carrier, ...]:
        """Events or links; the same tuple where nothing is too long."""
        bounded = [bound(carrier.attributes, self.cap) for carrier in carriers]
        pairs = list(zip(carriers, bounded, strict=True))
        if all(attributes is carrier.attributes for carrier, attributes in pairs):
            return carriers
        return tuple(replace(carrier, attributes=attributes) for carrier, attributes in pairs)


def bound(attributes: Attributes, cap: int) -> Attributes:
    """The same mapping where nothing is too long."""
    for value in attributes.values():
        if type(value) is str:
            if len(value) > cap:
                break
        elif type(value) in CONTAINERS and len(orjson.dumps(value)) > cap:
            break
    else:
        return attributes
    return {key: _bound_value(value, cap) for key, value in attributes.items()}


def _bound_value(value: Any, cap: int) -> Any:
    if isinstance(value, str):
        return cut(value, cap)
    text = orjson.dumps(value).decode()
    return value if len(text) <= cap else cut(text, cap)


def with_lifted(span: Span, lifted: dict[str, Any]) -> Span:
    return replace(span, attributes={**span.attributes, LIFTED: lifted}) if lifted else span
