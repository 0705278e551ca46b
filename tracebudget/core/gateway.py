"""The settings of an app's gateway as its owner declares them: what should be so.

They are the ones that the troubleshooting of agents asks for: how the model is called, how tools
run, what is cached. What the traces say of each is in `declaration`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from tracebudget.core.declared import Declared

MS, SECOND = 1_000_000, 1_000_000_000

Value = str | int | float | bool


def written(value: Value) -> str:
    """A value as a file of settings writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class Gateway:
    """Declared settings; None where nothing is declared."""

    endpoint: str | None = None
    model: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    stream: bool | None = None
    parallel: bool | None = None
    max_parallel: int | None = None
    timeout_ms: int | None = None
    retry: int | None = None
    tool_result_ttl_seconds: int | None = None
    prefix_cache: bool | None = None

    def settings(self) -> dict[str, Value]:
        """What is declared, by name, in the order of the file."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in values if value is not None}


NO_GATEWAY = Gateway()


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting's place in the file and what may stand there: numbers from `least` to `most`."""

    section: str
    kind: type
    least: float = 0
    most: float = 0

    def path(self, name: str) -> str:
        return f"{self.section}.{name}"


# The bounds tell a slip of the pen (seconds for milliseconds, a token for a word) from a setting.
SETTINGS: dict[str, Setting] = {
    "endpoint": Setting("inference", str),
    "model": Setting("inference", str),
    "temperature": Setting("inference", float, 0, 2),
    "max_tokens": Setting("inference", int, 1, 10_000_000),
    "stream": Setting("inference", bool),
    "parallel": Setting("tools", bool),
    "max_parallel": Setting("tools", int, 1, 1_000),
    "timeout_ms": Setting("tools", int, 1, 24 * 3_600_000),
    "retry": Setting("tools", int, 0, 100),
    "tool_result_ttl_seconds": Setting("cache", int, 0, 30 * 24 * 3_600),
    "prefix_cache": Setting("cache", bool),
}


def declared_by(
    gateway: Gateway, *, read_only: Iterable[str] = (), dependent: Iterable[str] = ()
) -> Declared:
    """What detectors need of the settings, and of the marks on tools.

    `parallel: false` sets no cap: that tools ran one by one is then the setting's doing, and its
    price is still what running them side by side would save.
    """
    timeout, ttl = gateway.timeout_ms, gateway.tool_result_ttl_seconds
    return Declared(
        max_parallel=gateway.max_parallel,
        tool_timeout_ns=None if timeout is None else timeout * MS,
        result_ttl_ns=None if ttl is None else ttl * SECOND,
        read_only=frozenset(read_only),
        dependent=frozenset(dependent),
    )
