"""The robust estimate behind `inferred`: what this app's and model's other calls say about prefill and decode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from tracebudget.core.tokens import Tokens


@dataclass(frozen=True, slots=True)
class CallFit:
    """duration = a + b * uncached input tokens + c * (output tokens - 1), in ns; fitted on `count` calls."""

    a_ns: float
    b_ns: float
    c_ns: float
    count: int

    def prefill_ns(self, tokens: Tokens, duration_ns: int) -> int | None:
        """What is left of the call when its decode is taken away, within the call; None without an output count."""
        if tokens.output is None or tokens.output < 1:
            return None
        decode = round(self.c_ns * (tokens.output - 1))
        return min(max(1, duration_ns - decode), duration_ns)


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known of an app from its other requests."""

    fits: Mapping[str, CallFit] = field(default_factory=dict)

    def document(self) -> dict[str, object]:
        """The profile as the analysis object shows it."""
        return {"fits": {model: asdict(fit) for model, fit in sorted(self.fits.items())}}

    def estimate(self, model: str | None, tokens: Tokens, duration_ns: int) -> int | None:
        """The inferred end of prefill, from the call's start; None where no fit applies."""
        fit = self.fits.get(model or "")
        return fit.prefill_ns(tokens, duration_ns) if fit is not None and duration_ns > 0 else None
