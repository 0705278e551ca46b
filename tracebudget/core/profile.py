"""What is usual in an app, learnt from its other requests: fits, and medians to compare with."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from tracebudget.core.fit import MIN_CALLS, SHARE, CallFit, Estimate, Sample, fit_calls
from tracebudget.core.tokens import Tokens
from tracebudget.core.ttft import KNOWN

MIN_SIMPLE = 10  # requests of a model, for a median that others are held against
SHORT_INPUT, SHORT_OUTPUT = 500, 150  # tokens: a simple request
MATERIAL = 0.10  # less than the least width of an interval, and than people see in a median
USUAL_OUTPUT = 100  # tokens, to compare two fits by

# Services answer with the snapshot's date behind the name that was asked for, and some spans tell
# the one, some the other: one model.
SNAPSHOT = re.compile(r"[-@]20\d\d-?[01]\d-?[0-3]\d$")


def model_key(model: str | None) -> str:
    """The name under which a model's calls are fitted together."""
    return SNAPSHOT.sub("", model or "")


def is_short(tokens: Tokens) -> bool:
    """Little in and little out, both known."""
    known = tokens.input is not None and tokens.output is not None
    return known and (tokens.input or 0) <= SHORT_INPUT and (tokens.output or 0) <= SHORT_OUTPUT


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known of an app from its other requests. `simple_ns`: median time of simple requests,
    by model. `made_at` (ISO 8601, None for a run over files) and `calls` say which profile it is.
    """

    fits: Mapping[str, CallFit] = field(default_factory=dict)
    median_input_tokens: int | None = None  # uncached
    simple_ns: Mapping[str, int] = field(default_factory=dict)
    made_at: str | None = None
    calls: int = 0

    def document(self) -> dict[str, object]:
        """The profile as the analysis object shows it, and as it is kept."""
        return {
            "made_at": self.made_at,
            "calls": self.calls,
            "interval_share": SHARE,
            "fits": {model: asdict(fit) for model, fit in sorted(self.fits.items())},
            "median_input_tokens": self.median_input_tokens,
            "simple_ns": dict(sorted(self.simple_ns.items())),
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Profile | None:
        """The profile that was kept so; None for one of another version, with other fields."""
        same = ("median_input_tokens", "simple_ns", "made_at", "calls")
        try:
            fits = {model: CallFit(**fit) for model, fit in document["fits"].items()}
            return cls(fits=fits, **{name: document[name] for name in same})
        except (KeyError, TypeError):
            return None

    def knows_more_than(self, other: Profile) -> bool:
        """Of models that the other had no fit or no median for."""
        return bool(set(self.fits) - set(other.fits) or set(self.simple_ns) - set(other.simple_ns))

    def differs_from(self, other: Profile) -> bool:
        """Enough for a reader to see it: by MATERIAL in any figure, or in what it knows."""
        ours, theirs = self._figures(), other._figures()
        return set(ours) != set(theirs) or any(
            abs(figure - theirs[name]) > MATERIAL * abs(theirs[name])
            for name, figure in ours.items()
        )

    def _figures(self) -> dict[tuple[str, ...], float]:
        """What it says of usual requests, by what that is."""
        prompt = self.median_input_tokens
        figures: dict[tuple[str, ...], float] = {} if prompt is None else {("prompt",): prompt}
        for model, fit in self.fits.items():
            halves = fit.halves(prompt or 0, USUAL_OUTPUT)
            figures["prefill", model], figures["decode", model] = halves
        return figures | {("simple", model): ns for model, ns in self.simple_ns.items()}

    def fit_of(self, model: str | None) -> CallFit | None:
        return self.fits.get(model_key(model))

    def estimate(self, model: str | None, tokens: Tokens, duration_ns: int) -> Estimate | None:
        """Where the call's prefill ended, from its start; None where no fit applies."""
        fit = self.fit_of(model)
        return None if fit is None else fit.estimate(tokens, duration_ns)

    def faster_model(self, model: str | None) -> tuple[str, int, int] | None:
        """(name, own median, its median) of the model that answers simple requests fastest, if that
        is another.
        """
        own = self.simple_ns.get(model_key(model))
        if own is None:
            return None
        name, fastest = min(self.simple_ns.items(), key=lambda item: (item[1], item[0]))
        return (name, own, fastest) if fastest < own else None


@dataclass(frozen=True, slots=True)
class SeenCall:
    """A successful call of an app. `ttft_ns`: measured or reported, and no mere bound.

    `request_ns`: how long its request took, if that was this call and no tool; else None.
    """

    model: str | None
    tokens: Tokens
    duration_ns: int
    ttft_ns: int | None
    request_ns: int | None


def seen_calls(document: Mapping[str, Any]) -> list[SeenCall]:
    """The calls of one analysis object that a profile may learn from."""
    calls = [step for step in document["steps"] if step["kind"] == "model_call"]
    has_tools = any(step["kind"] == "tool_call" for step in document["steps"])
    waited = document["segments"]["wait"]["critical_ns"]
    alone = document["end_to_end_ns"] - waited if len(calls) == 1 and not has_tools else None
    return [
        SeenCall(
            model=call["model"],
            tokens=Tokens(call["input_tokens"], call["cached_input_tokens"], call["output_tokens"]),
            duration_ns=call["duration_ns"],
            ttft_ns=_evidence(call),
            request_ns=alone,
        )
        for call in calls
        if call["status"] == "ok"
    ]


def _evidence(call: Mapping[str, Any]) -> int | None:
    """A first token that somebody saw: neither an estimate nor a mere lower bound."""
    is_seen = call["ttft_source"] in KNOWN
    ttft: int | None = call["ttft_ns"] if is_seen and not call["ttft_is_bound"] else None
    return ttft


def build_profile(calls: Sequence[SeenCall], *, made_at: str | None = None) -> Profile | None:
    """The profile of one app; None where so few calls say nothing of what is usual."""
    if len(calls) < MIN_CALLS:
        return None
    by_model: defaultdict[str, list[SeenCall]] = defaultdict(list)
    for call in calls:
        by_model[model_key(call.model)].append(call)
    fits = {model: fit_calls(list(_samples(mine))) for model, mine in by_model.items()}
    uncached = [n for call in calls if (n := call.tokens.uncached_input) is not None]
    simple = {model: _simple_ns(mine) for model, mine in by_model.items() if model}
    return Profile(
        fits={model: fit for model, fit in fits.items() if fit is not None},
        median_input_tokens=int(median(uncached)) if uncached else None,
        simple_ns={model: ns for model, ns in simple.items() if ns is not None},
        made_at=made_at,
        calls=len(calls),
    )


def _samples(calls: Iterable[SeenCall]) -> Iterable[Sample]:
    for call in calls:
        uncached, output = call.tokens.uncached_input, call.tokens.output
        if uncached is not None and output is not None:
            yield Sample(uncached, output, call.duration_ns, call.ttft_ns)


def _simple_ns(calls: Iterable[SeenCall]) -> int | None:
    times = [
        call.request_ns for call in calls if call.request_ns is not None and is_short(call.tokens)
    ]
    return int(median(times)) if len(times) >= MIN_SIMPLE else None
