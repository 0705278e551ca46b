"""*Timings only*: facts pass; of everything else remain length, digest and whether it parsed.

The hot path of ingest beside decoding: what is asked of a name is asked once, and remembered.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import partial
from typing import Any

import orjson

from ingest.decode import MARKS_KEY
from ingest.privacy.digest import Digest, pseudonym
from ingest.privacy.facts import (
    NAME_REDACTED,
    NOTHING,
    NUMBERS,
    PERSON_KEYS,
    Once,
    Verdicts,
    is_fact,
    is_plain,
    is_plain_in_resource,
    only_facts,
)
from ingest.privacy.masks import is_clean, masked, masks_for
from tracebudget.core.content.lifting import lift
from tracebudget.core.dialects.facts import LIFTED
from tracebudget.core.span import Attributes, Event, Link, Span

JSON_STARTS = ("{", "[", '"')

# A sender may write anything where a name belongs. What does not look like one is content.
SPAN_NAME = re.compile(r"[^\r\n]{0,200}")
# Log lines are events, too. BeeAI's `new_token (agent.requirement.new_token)` is a name.
EVENT_NAME = re.compile(r"[\w.:/-]{0,100}( \([\w.:/-]{0,100}\))?|First Token Stream Event")
KEY = re.compile(r"[\w.:/\[\]-]{1,200}")
QUERY_STRING = re.compile(r"\?\S+")  # of a URL


class Verdict(Enum):
    """What becomes of an attribute, by its name."""

    FACT = "passes if its value is a fact"
    PERSON = "becomes a pseudonym"
    WITHHELD = "leaves length and digest"
    LEFT_OUT = "goes with its name, which is no name"


def verdict_on(key: str) -> Verdict:
    if is_plain(key):
        return Verdict.FACT
    if key in PERSON_KEYS:
        return Verdict.PERSON
    is_name = KEY.fullmatch(key) and is_clean(key)
    return Verdict.WITHHELD if is_name else Verdict.LEFT_OUT


def verdict_on_resource(key: str) -> Verdict:
    return Verdict.FACT if is_plain_in_resource(key) else verdict_on(key)


def span_name(name: str) -> str:
    """The name without what a URL asks and what masks find."""
    if not SPAN_NAME.fullmatch(name):
        return NAME_REDACTED
    name = QUERY_STRING.sub("?", name)
    return masked(name, masks_for(name))


def event_name(name: str) -> str:
    return name if EVENT_NAME.fullmatch(name) and is_clean(name) else NAME_REDACTED


KEYS = Verdicts(verdict_on)
RESOURCE = Verdicts(verdict_on_resource)
SPAN_NAMES = Verdicts(span_name)
EVENT_NAMES = Verdicts(event_name)

FACT, PERSON, LEFT_OUT = Verdict.FACT, Verdict.PERSON, Verdict.LEFT_OUT


class Rule:
    """What becomes of attributes; what comes again in one export is digested once.

    Nothing here refers to what holds it: an export's content is gone with its last reference, and
    does not wait for the garbage collector.
    """

    def __init__(self, digest: Digest) -> None:
        self.digest = digest
        self.texts: Verdicts[Any] = Verdicts(partial(withheld_text, digest=digest))
        self.persons = Verdicts(partial(pseudonym, digest=digest))

    def mapping(self, attributes: Attributes, verdicts: Verdicts[Verdict] = KEYS) -> dict[str, Any]:
        passed: dict[str, Any] = {}
        for key, value in attributes.items():
            verdict = verdicts[key]
            if verdict is FACT and (type(value) in NUMBERS or is_fact(value)):
                passed[key] = value
            elif verdict is PERSON and value not in NOTHING:
                passed[key] = self.person(value)
            elif verdict is not LEFT_OUT:
                passed[key] = self.texts[value] if type(value) is str else self.withheld(value)
        return passed

    def person(self, value: Any) -> str:
        return self.persons[value] if type(value) is str else pseudonym(value, self.digest)

    def withheld(self, value: Any) -> Any:
        """Length in characters, of JSON for what is no text, and digest. Nothing stays nothing."""
        if value in NOTHING:
            return value
        text = orjson.dumps(value)
        return {"redacted": len(text), "digest": self.digest(text), "parsed": None}


class TimingsOnly:
    """The door for the spans of one export."""

    def __init__(self, digest: Digest) -> None:
        self.digest = digest
        rule = Rule(digest)
        self.attributes, self.texts = rule.mapping, rule.texts
        self.resource_once = Once(partial(self.attributes, verdicts=RESOURCE))
        self.scope_once = Once(self.attributes)

    def pass_span(self, span: Span) -> Span:
        attributes = self.attributes(span.attributes)
        left_out = len(span.attributes) - len(attributes)
        if lifted := only_facts(lift(span, self.digest)):
            attributes[LIFTED] = lifted
        name = SPAN_NAMES[span.name]
        if name is NAME_REDACTED or span.status_message or MARKS_KEY in span.attributes:
            attributes[MARKS_KEY] = self.marks(span, name)
        return Span(
            span.trace_id,
            span.span_id,
            span.parent_id,
            name,
            span.kind,
            span.start_ns,
            span.end_ns,
            attributes,
            span.status,
            "",  # status message
            tuple(map(self.event, span.events)) if span.events else (),
            tuple(map(self.link, span.links)) if span.links else (),
            span.flags,
            "",  # trace state
            SPAN_NAMES[span.scope],
            SPAN_NAMES[span.scope_version],
            self.scope_once(span.scope_attributes),
            self.resource_once(span.resource),
            span.dropped_attributes + left_out,
            span.dropped_events,
            span.dropped_links,
        )

    def marks(self, span: Span, name: str) -> dict[str, Any]:
        """The decoder's own, and what remains of texts that are no attributes."""
        marks = dict(span.attributes.get(MARKS_KEY, {}))
        if name is NAME_REDACTED:
            marks["name"] = self.texts[span.name]
        if span.status_message:
            marks["status_message"] = self.texts[span.status_message]
        return marks

    def event(self, event: Event) -> Event:
        attributes = self.attributes(event.attributes)
        name = EVENT_NAMES[event.name]
        if name is NAME_REDACTED:
            attributes[MARKS_KEY] = {"name": self.texts[event.name]}
        return Event(name, event.time_ns, attributes)

    def link(self, link: Link) -> Link:
        return Link(link.trace_id, link.span_id, self.attributes(link.attributes))


def withheld_text(text: str, digest: Digest) -> Any:
    """`parsed` tells whether text that looks like JSON is JSON: null for other text."""
    if not text:
        return text
    return {"redacted": len(text), "digest": digest(text.encode()), "parsed": parses(text)}


def parses(text: str) -> bool | None:
    if not text.lstrip().startswith(JSON_STARTS):
        return None
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True
