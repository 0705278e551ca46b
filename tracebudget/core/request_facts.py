"""What a call asked the service for, as its spans tell it: temperature, the cap on its answer, and
where it went. The analysis needs none of it; declared settings are held against it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from tracebudget.core.span import Span

TEMPERATURE = ("gen_ai.request.temperature", "ai.settings.temperature")
MAX_TOKENS = (
    "gen_ai.request.max_tokens",
    "ai.settings.maxOutputTokens",
    "ai.settings.maxTokens",
)
PARAMETERS = "llm.invocation_parameters"  # OpenInference: all of them, as JSON
MAX_TOKENS_PARAMETERS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
ADDRESSES = (("server.address", "server.port"), ("net.peer.name", "net.peer.port"))
URLS = ("url.full", "http.url")

Address = tuple[str, int | None]  # host in lower case, and port where it is told


class RequestFacts:
    """The calls of one request, each asked for by its span id."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self.spans: dict[str, list[Span]] = {}
        self.children: dict[str, list[Span]] = {}
        for span in spans:
            self.spans.setdefault(span.span_id, []).append(span)
            self.children.setdefault(span.parent_id, []).append(span)

    def temperature(self, span_id: str) -> float | None:
        told = self._told(span_id, TEMPERATURE, ("temperature",))
        return None if told is None else float(told)

    def max_tokens(self, span_id: str) -> int | None:
        told = self._told(span_id, MAX_TOKENS, MAX_TOKENS_PARAMETERS)
        return None if told is None else int(told)

    def address(self, span_id: str) -> Address | None:
        """Where the call went: as its span says, else the HTTP span below it."""
        return next(
            (
                address
                for span in (*self.spans.get(span_id, ()), *self._below(span_id))
                if (address := address_of(span)) is not None
            ),
            None,
        )

    def _below(self, span_id: str) -> Iterator[Span]:
        seen, waiting = {span_id}, [span_id]
        while waiting:
            for child in self.children.get(waiting.pop(), ()):
                if child.span_id not in seen:
                    seen.add(child.span_id)
                    waiting.append(child.span_id)
                    yield child

    def _told(
        self, span_id: str, keys: Sequence[str], parameters: Sequence[str]
    ) -> int | float | None:
        for span in self.spans.get(span_id, ()):
            places: list[tuple[Mapping[str, Any], Sequence[str]]] = [
                (span.attributes, keys),
                (_parameters(span), parameters),
            ]
            for place, names in places:
                for name in names:
                    if _is_number(place.get(name)):
                        number: int | float = place[name]
                        return number
        return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _parameters(span: Span) -> Mapping[str, Any]:
    text = span.attributes.get(PARAMETERS)
    try:
        parsed = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def address_of(span: Span) -> Address | None:
    """The server that a span names, by address or by URL."""
    for name, port in ADDRESSES:
        host, told = span.attributes.get(name), span.attributes.get(port)
        if isinstance(host, str) and host:
            by_url = address_in(host) if "://" in host else None
            return by_url or (host.lower(), told if isinstance(told, int) else None)
    urls = (span.attributes.get(key) for key in URLS)
    return next(
        (found for url in urls if isinstance(url, str) and (found := address_in(url))), None
    )


def address_in(url: str) -> Address | None:
    """Host and port of a URL, the scheme's usual port where it names none."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        return None
    return (parts.hostname, port) if parts.hostname else None
