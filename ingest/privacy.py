"""The one door between what was received and what is stored, for every way in.

*Timings only* lets through an allowlist of fact keys with short values. Every other value leaves
its length, a keyed digest and whether it parsed; before it goes, the core lifts out the facts
hidden in it. Ids of people and sessions become stable pseudonyms. *Full* keeps all, and cuts what
no page could show.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from operator import attrgetter, is_
from typing import Any, TypeVar

import orjson
from django.conf import settings

from ingest.decode import MARKS_KEY, cut
from tracebudget import models
from tracebudget.core import content
from tracebudget.core.dialects import FACT_KEYS, common
from tracebudget.core.dialects.facts import LIFTED
from tracebudget.core.span import Attributes, Event, Link, Span

Carrier = TypeVar("Carrier", Event, Link)

DIGEST_BYTES = 8
CONTAINERS = (list, dict)
NOTHING = (None, "")  # tells nothing, and its digest would join what has nothing in common
PARTS = ("attributes", "status_message", "events", "links", "scope_attributes", "resource")
_parts = attrgetter(*PARTS)
JSON_STARTS = ("{", "[", '"')
MAX_FACT_CHARS = 200  # of a value that passes: names and ids are shorter, longer text is content
MAX_FACT_ITEMS = 32  # of a list that passes

PSEUDONYM_KEYS = frozenset(common.SESSION_KEYS) | common.IDENTITY_KEYS
PASSING_KEYS = FACT_KEYS - PSEUDONYM_KEYS
# Who sent it and where it ran. No `process.*`: command lines and owners tell of people and secrets.
RESOURCE_KEYS = frozenset({"host.name", "host.id", "host.arch", "container.id"})
RESOURCE_PREFIXES = ("service.", "telemetry.", "deployment.", "k8s.", "cloud.", "faas.", "os.")

NAME_REDACTED = "[name redacted]"
SPAN_NAME = re.compile(
    r"[^\r\n]{0,200}"
)  # a name stands on one line; longer or broken, it is content
# Log lines are sent as events, their text as the name: only what looks like an identifier is a
# name.
EVENT_NAME = re.compile(r"[\w.:/-]{0,100}|First Token Stream Event")
QUERY_STRING = re.compile(r"\?\S+")  # of a URL in a span name


def pass_door(spans: list[Span], project: models.Project, digest_key: bytes) -> list[Span]:
    """The spans as the project lets them be stored. Digests compare inside one project only."""
    if project.privacy == models.Privacy.FULL:
        return list(map(Full(settings.MAX_VALUE_CHARS).pass_span, spans))
    return list(map(TimingsOnly(digest_key, project.pk).pass_span, spans))


class Once:
    """Resource and scope attributes are shared by hundreds of spans: each set passes once."""

    def __init__(self, passing: Callable[[Attributes], Attributes]) -> None:
        self.passing = passing
        self.seen: dict[int, tuple[Attributes, Attributes]] = {}

    def __call__(self, attributes: Attributes) -> Attributes:
        known = self.seen.get(id(attributes))
        if known is None:  # the original is kept beside its result, so that its id stays its own
            known = self.seen[id(attributes)] = (attributes, self.passing(attributes))
        return known[1]


class Full:
    """Everything passes; a value over `cap` characters is cut, after its facts were lifted."""

    def __init__(self, cap: int) -> None:
        self.cap = cap
        self.bound_once = Once(self.bound)

    def pass_span(self, span: Span) -> Span:
        """The same object, but for monstrous spans."""
        parts = (
            self.with_lifted(span, self.bound(span.attributes)),
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

    def with_lifted(self, span: Span, attributes: Attributes) -> Attributes:
        """The core cannot read a cut text, so what it would read there is lifted out first."""
        if attributes is span.attributes:
            return attributes
        lifted = content.lift(span, content.fingerprint)
        return {**attributes, LIFTED: lifted} if lifted else attributes

    def bound(self, attributes: Attributes) -> Attributes:
        """The same mapping where nothing is too long."""
        cap = self.cap
        for value in attributes.values():
            if type(value) is str:
                if len(value) > cap:
                    break
            elif type(value) in CONTAINERS and len(orjson.dumps(value)) > cap:
                break
        else:
            return attributes
        return {key: self.bound_value(value) for key, value in attributes.items()}

    def bound_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return cut(value, self.cap)
        text = orjson.dumps(value).decode()
        return value if len(text) <= self.cap else cut(text, self.cap)

    def bound_each(self, carriers: tuple[Carrier, ...]) -> tuple[Carrier, ...]:
        """Events or links; the same tuple where nothing is too long."""
        bounded = [self.bound(carrier.attributes) for carrier in carriers]
        pairs = list(zip(carriers, bounded, strict=True))
        if all(attributes is carrier.attributes for carrier, attributes in pairs):
            return carriers
        return tuple(replace(carrier, attributes=attributes) for carrier, attributes in pairs)


class TimingsOnly:
    """Facts pass; of everything else remain length, digest and whether it parsed."""

    def __init__(self, digest_key: bytes, project_id: int) -> None:
        person = project_id.to_bytes(blake2b.PERSON_SIZE, "big")
        self.keyed = blake2b(digest_size=DIGEST_BYTES, key=digest_key, person=person)
        self.resource_once = Once(self.resource)
        self.scope_once = Once(self.attributes)

    def pass_span(self, span: Span) -> Span:
        attributes = self.attributes(span.attributes)
        if lifted := content.lift(span, self.digest):
            attributes[LIFTED] = lifted
        marks = dict(span.attributes.get(MARKS_KEY, {}))
        name = self.name(span.name, marks)
        if span.status_message:
            marks["status_message"] = self.redacted(span.status_message)
        if marks:
            attributes[MARKS_KEY] = marks
        return replace(
            span,
            name=name,
            attributes=attributes,
            status_message="",
            trace_state="",
            events=tuple(map(self.event, span.events)),
            links=tuple(map(self.link, span.links)),
            resource=self.resource_once(span.resource),
            scope_attributes=self.scope_once(span.scope_attributes),
        )

    def attributes(self, attributes: Attributes) -> dict[str, Any]:
        passed: dict[str, Any] = {}
        for key, value in attributes.items():
            if key in PASSING_KEYS and is_short(value):
                passed[key] = value
            elif key in PSEUDONYM_KEYS:
                passed[key] = self.pseudonym(value)
            else:
                passed[key] = self.redacted(value)
        return passed

    def resource(self, attributes: Attributes) -> dict[str, Any]:
        passed = self.attributes(attributes)
        for key, value in attributes.items():
            if (key in RESOURCE_KEYS or key.startswith(RESOURCE_PREFIXES)) and is_short(value):
                passed[key] = value
        return passed

    def name(self, name: str, marks: dict[str, Any]) -> str:
        if not SPAN_NAME.fullmatch(name):
            marks["name"] = self.redacted(name)
            return NAME_REDACTED
        return QUERY_STRING.sub("?", name) if "?" in name else name

    def event(self, event: Event) -> Event:
        attributes = self.attributes(event.attributes)
        if EVENT_NAME.fullmatch(event.name):
            return Event(event.name, event.time_ns, attributes)
        marks = {"name": self.redacted(event.name)}
        return Event(NAME_REDACTED, event.time_ns, {**attributes, MARKS_KEY: marks})

    def link(self, link: Link) -> Link:
        return Link(link.trace_id, link.span_id, self.attributes(link.attributes))

    def redacted(self, value: Any) -> Any:
        """Length in characters (of JSON for what is no text), digest, whether it parsed as JSON.

        `parsed` is null for text that does not look like JSON. Nothing is left as nothing.
        """
        if value in NOTHING:
            return value
        if not isinstance(value, str):
            text = orjson.dumps(value)
            return {"redacted": len(text), "digest": self.digest(text), "parsed": None}
        digest = self.digest(value.encode())
        return {"redacted": len(value), "digest": digest, "parsed": parses(value)}

    def pseudonym(self, value: Any) -> Any:
        """Stable in its project, so that requests still join to sessions."""
        if value in NOTHING:
            return value
        text = value if isinstance(value, str) else orjson.dumps(value).decode()
        return f"anon-{self.digest(text.encode())}"

    def digest(self, data: bytes) -> str:
        keyed = self.keyed.copy()
        keyed.update(data)
        return keyed.hexdigest()


def is_short(value: Any) -> bool:
    """A value that can be a fact: a number, a flag, a short text or a short list of these."""
    if isinstance(value, str):
        return len(value) <= MAX_FACT_CHARS
    if isinstance(value, list):
        return len(value) <= MAX_FACT_ITEMS and all(map(is_short, value))
    return value is None or isinstance(value, bool | int | float)


def parses(text: str) -> bool | None:
    if not text.lstrip().startswith(JSON_STARTS):
        return None
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True
