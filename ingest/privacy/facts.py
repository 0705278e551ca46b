"""Which attributes are facts, which name a person or a session, and what all modes do with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ingest.privacy.masks import MASKS
from tracebudget.core.dialects import FACT_KEYS, common, fits_fact_pattern
from tracebudget.core.dialects.matcher import declares_kind
from tracebudget.core.span import Attributes

T = TypeVar("T")

PERSON_KEYS = frozenset(common.SESSION_KEYS) | common.IDENTITY_KEYS
PLAIN_KEYS = FACT_KEYS - PERSON_KEYS
# Who sent it and where it ran. No owners and command lines: they tell of people and secrets.
RESOURCE_PREFIXES = ("service.", "telemetry.", "deployment.", "k8s.", "cloud.", "faas.", "os.")
NAME_REDACTED = "[name redacted]"
NOTHING = (None, "")  # tells nothing, and its digest would join what has nothing in common

MAX_FACT_CHARS = 200  # names and ids are shorter, longer text is content
MAX_FACT_ITEMS = 32
NUMBERS = (int, float, bool, type(None))

MAX_REMEMBERED = 8192  # verdicts kept: keys come from programs, but hostile ones have no end

# The others want context, and find numbers: ids are full of them.
GIVING_AWAY = tuple(mask for mask in MASKS if mask.name in ("secret", "mail"))


def is_fact(value: Any) -> bool:
    """A number, a flag, a short text, or a short list of these, without a secret in it."""
    if type(value) is str:
        return len(value) <= MAX_FACT_CHARS and GOOD_FACTS[value]
    if type(value) is list:
        return len(value) <= MAX_FACT_ITEMS and all(map(is_fact, value))
    return type(value) in NUMBERS


def only_facts(lifted: dict[str, Any]) -> dict[str, Any]:
    """What the core lifted out of content, without what is too long for a fact, or gives away."""
    if facts := lifted.get("facts"):
        lifted["facts"] = {name: fact for name, fact in facts.items() if is_fact(fact[0])}
    for request in lifted.get("tool_requests", ()):
        request[:2] = [text if is_fact(text) else NAME_REDACTED for text in request[:2]]
    return lifted


def is_plain(key: str) -> bool:
    """The attribute's value is a fact, or a span's kind in an SDK that has no table."""
    if key in PLAIN_KEYS or declares_kind(key):
        return True
    return key not in PERSON_KEYS and fits_fact_pattern(key)


def is_plain_in_resource(key: str) -> bool:
    return key in common.RESOURCE_KEYS or key.startswith(RESOURCE_PREFIXES) or key in PLAIN_KEYS


class Verdicts(dict[str, T]):
    """What a judge said of texts that come again and again, such as the names of attributes."""

    def __init__(self, judge: Callable[[str], T]) -> None:
        super().__init__()
        self.judge = judge

    def __missing__(self, text: str) -> T:
        if len(self) >= MAX_REMEMBERED:
            self.clear()
        verdict = self[text] = self.judge(text)
        return verdict


def gives_nobody_away(text: str) -> bool:
    lowered = text.lower()
    return not any(mask.hint(lowered) and mask.replace(text) != text for mask in GIVING_AWAY)


GOOD_FACTS = Verdicts(gives_nobody_away)


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
