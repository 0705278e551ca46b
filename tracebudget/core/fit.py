"""The robust estimate behind `inferred`, and the medians of an app: what its other requests say
about this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median

from tracebudget.core.tokens import Tokens

MIN_POINTS = 3  # below it a slope is two guesses
MAX_POINTS = 100  # of one slope


@dataclass(frozen=True, slots=True)
class CallFit:
    """duration = a + b * uncached input tokens + c * (output tokens - 1), in ns; fitted on `count`
    calls.
    """

    a_ns: float
    b_ns: float
    c_ns: float
    count: int

    def prefill_ns(self, tokens: Tokens, duration_ns: int) -> int | None:
        """What is left of the call when its decode is taken away, within the call; None without an
        output count.
        """
        if tokens.output is None or tokens.output < 1:
            return None
        decode = round(self.c_ns * (tokens.output - 1))
        return min(max(1, duration_ns - decode), duration_ns)


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known of an app from its other requests. `simple_ns`: median time of simple requests,
    by model.
    """

    fits: Mapping[str, CallFit] = field(default_factory=dict)
    median_input_tokens: int | None = None
    simple_ns: Mapping[str, int] = field(default_factory=dict)

    def document(self) -> dict[str, object]:
        """The profile as the analysis object shows it."""
        return {
            "fits": {model: asdict(fit) for model, fit in sorted(self.fits.items())},
            "median_input_tokens": self.median_input_tokens,
            "simple_ns": dict(sorted(self.simple_ns.items())),
        }

    def estimate(self, model: str | None, tokens: Tokens, duration_ns: int) -> int | None:
        """The inferred end of prefill, from the call's start; None where no fit applies."""
        fit = self.fits.get(model or "")
        return fit.prefill_ns(tokens, duration_ns) if fit is not None and duration_ns > 0 else None

    def faster_model(self, model: str | None) -> tuple[str, int, int] | None:
        """(name, own median, its median) of the model that answers simple requests fastest, if that
        is another.
        """
        own = self.simple_ns.get(model or "")
        if own is None:
            return None
        name, fastest = min(self.simple_ns.items(), key=lambda item: (item[1], item[0]))
        return (name, own, fastest) if fastest < own else None


def slope(points: Sequence[tuple[int, int]]) -> float | None:
    """Theil-Sen: the median of the slopes between all pairs with different x; None for fewer than
    three points. Of many points an even sample is taken: the pairs grow with their square.
    """
    points = points[:: max(1, len(points) // MAX_POINTS)]
    pairs = [
        (x2 - x1, y2 - y1)
        for i, (x1, y1) in enumerate(points)
        for x2, y2 in points[i + 1 :]
        if x1 != x2
    ]
    return median(dy / dx for dx, dy in pairs) if len(points) >= MIN_POINTS and pairs else None
