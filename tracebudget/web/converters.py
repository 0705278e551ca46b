"""Ids in addresses, as traces write them: hex digits in either case, without dashes."""

from __future__ import annotations

from uuid import UUID


class TraceId:
    regex = "[0-9a-fA-F]{32}"

    def to_python(self, value: str) -> UUID:
        return UUID(hex=value)

    def to_url(self, value: UUID | str) -> str:
        return value.hex if isinstance(value, UUID) else value


class SpanId:
    regex = "[0-9a-fA-F]{16}"

    def to_python(self, value: str) -> str:
        return value.lower()

    def to_url(self, value: str) -> str:
        return value
