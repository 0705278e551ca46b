"""The small language in which the dialect tables say when a rule holds.

A matcher is a mapping whose entries must all hold. Leaf tests look at the span: `scope`,
`scope_prefix`, `name`, `name_in`, `name_prefix`, `name_re`, `kind_in`, `attr` (key present),
`attr_prefix` (some key starts so), `attr_in` {key: [values]}, `attr_re` {key: regex}, `event` (an
event of that name), `resource_in` {key: [values]}, `declares` (an attribute that by its name tells
a span's kind has one of these values, in whatever case; `*` for any). Combinators: `all`, `any`,
`not`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from operator import methodcaller
from typing import Any

from tracebudget.core.span import Span

Predicate = Callable[[Span], bool]

_NAMES_OF_KIND = re.compile(r"(^|[._])(span|observation|run)[._](kind|type)$")

KINDS = {"UNSPECIFIED": 0, "INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "PRODUCER": 4, "CONSUMER": 5}


def compile_matcher(rule: Mapping[str, Any]) -> Predicate:
    """Turn a matcher into a predicate on spans. Raises KeyError for a test that does not exist."""
    tests = [LEAVES[name](argument) for name, argument in rule.items()]
    return tests[0] if len(tests) == 1 else lambda span: all(test(span) for test in tests)


def _all(rules: list[Mapping[str, Any]]) -> Predicate:
    tests = [compile_matcher(rule) for rule in rules]
    return lambda span: all(test(span) for test in tests)


def _any(rules: list[Mapping[str, Any]]) -> Predicate:
    tests = [compile_matcher(rule) for rule in rules]
    return lambda span: any(test(span) for test in tests)


def _not(rule: Mapping[str, Any]) -> Predicate:
    test = compile_matcher(rule)
    return lambda span: not test(span)


def _name_re(pattern: str) -> Predicate:
    search = re.compile(pattern).search
    return lambda span: search(span.name) is not None


def _kind_in(names: list[str]) -> Predicate:
    kinds = {KINDS[name] for name in names}
    return lambda span: span.kind in kinds


def _attr_prefix(prefix: str) -> Predicate:
    begins = methodcaller("startswith", prefix)
    # Most often it is nowhere, which one search of all keys finds out four times as fast.
    return lambda span: prefix in "\n".join(span.attributes) and any(map(begins, span.attributes))


def spelling(value: Any) -> str:
    """How tables write a value: booleans in lower case (Micrometer sends them as text), all else as
    text.
    """
    if type(value) is str:
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _attr_in(wanted: Mapping[str, list[Any]]) -> Predicate:
    pairs = [(key, {spelling(value) for value in values}) for key, values in wanted.items()]
    return lambda span: all(
        key in span.attributes and spelling(span.attributes[key]) in values for key, values in pairs
    )


def _attr_re(wanted: Mapping[str, str]) -> Predicate:
    pairs = [(key, re.compile(pattern).search) for key, pattern in wanted.items()]
    return lambda span: all(
        isinstance(span.attributes.get(key), str) and search(span.attributes[key])
        for key, search in pairs
    )


def _resource_in(wanted: Mapping[str, list[Any]]) -> Predicate:
    return lambda span: all(span.resource.get(key) in values for key, values in wanted.items())


def declares_kind(key: str) -> bool:
    """SDKs call the attribute that tells a span's kind so: `acme.span.type`, `acme.span_kind`."""
    return key.endswith(("kind", "type")) and _NAMES_OF_KIND.search(key) is not None


def _declares(words: list[str]) -> Predicate:
    wanted = set(words)
    return lambda span: any(
        declares_kind(key) and ("*" in wanted or spelling(value).lower() in wanted)
        for key, value in span.attributes.items()
    )


LEAVES: dict[str, Callable[[Any], Predicate]] = {
    "all": _all,
    "any": _any,
    "not": _not,
    "scope": lambda scope: lambda span: span.scope == scope,
    "scope_prefix": lambda prefix: lambda span: span.scope.startswith(prefix),
    "name": lambda name: lambda span: span.name == name,
    "name_in": lambda names: lambda span: span.name in names,
    "name_prefix": lambda prefix: lambda span: span.name.startswith(prefix),
    "name_re": _name_re,
    "kind_in": _kind_in,
    "attr": lambda key: lambda span: key in span.attributes,
    "attr_prefix": _attr_prefix,
    "attr_in": _attr_in,
    "attr_re": _attr_re,
    "event": lambda name: lambda span: any(event.name == name for event in span.events),
    "resource_in": _resource_in,
    "declares": _declares,
}


def signals(rule: Mapping[str, Any]) -> set[tuple[str, str]]:
    """What of a span the rule looks at, but for its scope: ("key", k), ("prefix", p), ("value", k),
    ("event", name), ("resource", k), ("name", ""), ("kind", ""), ("declared", "").
    """
    found: set[tuple[str, str]] = set()
    for name, argument in rule.items():
        if name in {"all", "any"}:
            found.update(*(signals(inner) for inner in argument)) if argument else None
        elif name == "not":
            found |= signals(argument)
        elif name == "attr":
            found.add(("key", argument))
        elif name == "attr_prefix":
            found.add(("prefix", argument))
        elif name in {"attr_in", "attr_re"}:
            found |= {("value", key) for key in argument}
        elif name == "resource_in":
            found |= {("resource", key) for key in argument}
        elif name == "event":
            found.add(("event", argument))
        elif name == "declares":
            found.add(("declared", ""))
        elif name == "kind_in":
            found.add(("kind", ""))
        elif name.startswith("name"):
            found.add(("name", ""))
    return found
