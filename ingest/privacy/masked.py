"""*Masked*: everything passes but what the table of masks finds, and values named like secrets.

Most spans hold nothing of the kind. So all texts of a span are searched as one, and only where that
finds something is each looked at by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from ingest.privacy.digest import Digest, pseudonym
from ingest.privacy.facts import (
    PERSON_KEYS,
    Once,
    Verdicts,
    is_fact,
    is_plain,
    is_plain_in_resource,
    only_facts,
)
from ingest.privacy.full import Full, with_lifted
from ingest.privacy.masks import CALLED, MASKS, Mask, is_clean, masked, masks_for
from tracebudget.core.content.lifting import lift
from tracebudget.core.span import Attributes, Event, Link, Span

HIDDEN = "[secret]"
SECRET_NAME = re.compile(rf"(?:^|[\W_])(?:{'|'.join(CALLED)})$", re.IGNORECASE)
HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")  # of accessToken
LARGE = 10**11  # a smaller number is no card


def is_secret_name(key: str) -> bool:
    return not is_plain(key) and SECRET_NAME.search(HUMP.sub("_", key)) is not None


SECRET_NAMES = Verdicts(is_secret_name)
CLEAN_NAMES = Verdicts(is_clean)


class Masked:
    """The door for the spans of one export. What is longer than `cap` characters is cut."""

    def __init__(self, cap: int, digest: Digest) -> None:
        self.full = Full(cap)
        self.digest = digest
        self.shared_once = Once(partial(mask_shared, digest=digest))

    def pass_span(self, span: Span) -> Span:
        """Facts are lifted out of every span: keyed digests compare with one another alone."""
        lifted = only_facts(lift(span, self.digest))
        search = Search()
        search.add_span(span)
        masks = search.masks()
        masked_span = Rule(masks, self.digest).span(span) if masks else span
        return with_lifted(self.full.bound_span(self.with_shared(masked_span)), lifted)

    def with_shared(self, span: Span) -> Span:
        resource = self.shared_once(span.resource)
        scope_attributes = self.shared_once(span.scope_attributes)
        if resource is span.resource and scope_attributes is span.scope_attributes:
            return span
        return replace(span, resource=resource, scope_attributes=scope_attributes)


def mask_shared(attributes: Attributes, digest: Digest) -> Attributes:
    """Hosts and services keep their names, even addresses: clocks are told apart by them."""
    search = Search()
    search.add(attributes)
    masks = search.masks()
    rule = Rule(masks, digest, is_plain_in_resource)
    return rule.mapping(attributes) if masks else attributes


class Search:
    """The texts of a span, to be searched as one, and whether a name among them is a secret's."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.has_secret_name = False

    def add_span(self, span: Span) -> None:
        self.texts += (span.name, span.status_message, span.trace_state, span.scope)
        self.add(span.attributes)
        for event in span.events:
            self.texts.append(event.name)
            self.add(event.attributes)
        for link in span.links:
            self.add(link.attributes)

    def add(self, value: Any) -> None:
        if type(value) is str:
            self.texts.append(value)
        elif type(value) is dict:
            for key, inner in value.items():
                if not CLEAN_NAMES[key]:
                    self.texts.append(key)
                self.has_secret_name |= SECRET_NAMES[key]
                self.add(inner)
        elif type(value) is list:
            for item in value:
                self.add(item)
        elif type(value) is int and value > LARGE:
            self.texts.append(str(value))

    def masks(self) -> list[Mask]:
        """Those that are to be used; none for most spans."""
        return list(MASKS) if self.has_secret_name else masks_for("\n".join(self.texts))


class Rule(NamedTuple):
    """The masks that found something in a span, and how they change each part of it."""

    masks: list[Mask]
    digest: Digest
    is_plain: Callable[[str], bool] = is_plain

    def span(self, span: Span) -> Span:
        return replace(
            span,
            name=self.text(span.name),
            status_message=self.text(span.status_message),
            trace_state=self.text(span.trace_state),
            scope=self.text(span.scope),
            attributes=self.mapping(span.attributes),
            events=tuple(map(self.event, span.events)),
            links=tuple(map(self.link, span.links)),
        )

    def event(self, event: Event) -> Event:
        return Event(self.text(event.name), event.time_ns, self.mapping(event.attributes))

    def link(self, link: Link) -> Link:
        return Link(link.trace_id, link.span_id, self.mapping(link.attributes))

    def mapping(self, mapping: Attributes) -> dict[str, Any]:
        return {self.text(key): self.named(key, value) for key, value in mapping.items()}

    def named(self, key: str, value: Any) -> Any:
        """A value under its name. An id that gives somebody away still joins, as a pseudonym."""
        if type(value) in NO_SECRETS or (self.is_plain(key) and is_fact(value)):
            return value
        if SECRET_NAMES[key]:
            return HIDDEN
        if key in PERSON_KEYS and self.value(value) != value:
            return pseudonym(value, self.digest)
        return self.value(value)

    def value(self, value: Any) -> Any:
        if type(value) is str:
            return self.text(value)
        if type(value) is dict:
            return self.mapping(value)
        if type(value) is list:
            return [self.value(item) for item in value]
        if type(value) is int and value > LARGE and self.text(str(value)) != str(value):
            return self.text(str(value))
        return value

    def text(self, text: str) -> str:
        return masked(text, self.masks)


NO_SECRETS = (bool, float, type(None))
