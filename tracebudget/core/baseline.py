"""The figures of one release: what a baseline freezes, and what the gate holds against one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tracebudget.core.quantile import Quantile, quantile

QUANTILES = {"p50": 0.5, "p95": 0.95}


@dataclass(frozen=True, slots=True)
class Spread:
    """A budget metric over the requests of a release, in its unit.

    `known` of all requests have a value. A quantile that so few values cannot tell is None.
    """

    known: int
    p50: Quantile | None
    p95: Quantile | None

    def at(self, name: str) -> Quantile | None:
        found: Quantile | None = getattr(self, name)
        return found


@dataclass(frozen=True, slots=True)
class Found:
    """In how many requests a finding was, and what it cost them together."""

    code: str
    subject: str
    requests: int
    saving_ns: int | None


@dataclass(frozen=True, slots=True)
class Figures:
    """A release in numbers. Metrics that no request has are left out."""

    requests: int
    errors: int
    metrics: Mapping[str, Spread] = field(default_factory=dict)
    findings: Sequence[Found] = ()

    def known(self, metric: str) -> int:
        """How many requests have a value."""
        spread = self.metrics.get(metric)
        return 0 if spread is None else spread.known

    def coverage(self, metric: str) -> float:
        """The share of requests that have one."""
        return self.known(metric) / self.requests if self.requests else 0.0

    @property
    def tells(self) -> bool:
        """Whether these are enough requests for a comparison of their p95."""
        spread = self.metrics.get("end_to_end")
        return spread is not None and spread.p95 is not None

    def document(self) -> dict[str, Any]:
        """As it is stored; `figures_in` reads it back."""
        return asdict(self)


def spread(values: Iterable[int | None]) -> Spread | None:
    """Of the values of all requests; None where no request has one."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return None
    return Spread(len(known), **{name: quantile(known, at) for name, at in QUANTILES.items()})


def figures_in(document: Mapping[str, Any]) -> Figures:
    return Figures(
        requests=document["requests"],
        errors=document["errors"],
        metrics={name: _spread_in(stored) for name, stored in document["metrics"].items()},
        findings=tuple(Found(**stored) for stored in document["findings"]),
    )


def _spread_in(stored: Mapping[str, Any]) -> Spread:
    quantiles = {name: stored[name] for name in QUANTILES}
    return Spread(
        stored["known"],
        **{name: None if at is None else Quantile(**at) for name, at in quantiles.items()},
    )
