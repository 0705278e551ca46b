"""What the gate says, as a page of text for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tracebudget import models
from tracebudget.core.gate import Check, MoreOften, Outcome, worst_first
from tracebudget.release import gate_words
from tracebudget.release.gate import Judged

SCHEMA = "tracebudget.gate/v1"


@dataclass(frozen=True, slots=True)
class Report:
    """`waiting`: requests of the project that are not analysed yet. `frozen`: the release that has
    become a baseline, or "".
    """

    judged: Judged
    waiting: int = 0
    frozen: str = ""

    def text(self) -> str:
        parts = (self._head, self._checks, self._grown, self._end)
        return "\n\n".join("\n".join(lines) for part in parts if (lines := list(part())))

    def _head(self) -> Iterator[str]:
        judged, release, baseline = self.judged, self.judged.release, self.judged.baseline
        where = f" in {release.environment}" if release.environment else ""
        left_out = f", {judged.left_out:,} not whole and left out" if judged.left_out else ""
        yield (
            f"{release.app.name}, release {release.version}{where}: "
            f"{judged.figures.requests:,} requests{left_out}"
        )
        if baseline is not None:
            requests = baseline.figures["requests"]
            yield (
                f"against the baseline of release {baseline.release}, frozen "
                f"{baseline.frozen_at:%Y-%m-%d %H:%M} UTC: {requests:,} requests"
            )
        if self.waiting:
            yield f"Not analysed yet: {self.waiting:,} requests of the project; see --wait."

    def _checks(self) -> Iterator[str]:
        checks = worst_first(self.judged.checks)
        rows = [(gate_words.check_outcome(check), gate_words.check_name(check)) for check in checks]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for check, row in zip(checks, rows, strict=True):
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
            said = [gate_words.check_words(check), gate_words.change(check)]
            yield "  ".join([*cells, *filter(None, said)])

    def _grown(self) -> Iterator[str]:
        if self.judged.grown:
            yield "Found more often than before:"
            yield from (f"  {gate_words.grown_words(item)}" for item in self.judged.grown)

    def _end(self) -> Iterator[str]:
        judged = self.judged
        outcomes = {check.outcome for check in judged.checks}
        if judged.is_passed:
            unknown = (
                ": what cannot be told passes, as asked" if Outcome.UNKNOWN in outcomes else ""
            )
            yield f"PASS{unknown}."
        elif Outcome.WORSE in outcomes:
            yield "FAIL."
        else:
            yield "FAIL: what cannot be told stops a release; --unknown pass lets it go."
        if self.frozen:
            yield f"Release {self.frozen} is frozen as a baseline."
        elif judged.is_passed and judged.rules.freezes:
            yield f"Not frozen: {judged.figures.requests:,} requests are too few to tell a p95."

    def json(self) -> str:
        judged, release = self.judged, self.judged.release
        document = {
            "schema": SCHEMA,
            "project": release.app.project.slug,
            "app": release.app.name,
            "release": release.version,
            "environment": release.environment or None,
            "requests": judged.figures.requests,
            "left_out": judged.left_out,
            "waiting": self.waiting,
            "baseline": None if judged.baseline is None else _baseline(judged.baseline),
            "tolerance": judged.rules.tolerance,
            "unknown": "pass" if judged.rules.unknown_passes else "fail",
            "verdict": "pass" if judged.is_passed else "fail",
            "checks": [_check(check) for check in judged.checks],
            "more_often": [_more_often(item) for item in judged.grown],
            "frozen": self.frozen or None,
        }
        return json.dumps(document, indent=2, ensure_ascii=False)


def _baseline(baseline: models.Baseline) -> dict[str, Any]:
    return {
        "release": baseline.release,
        "frozen_at": baseline.frozen_at.isoformat(),
        "requests": baseline.figures["requests"],
    }


def _check(check: Check) -> dict[str, Any]:
    return {
        "kind": check.kind,
        "name": check.name or None,
        "quantile": check.quantile or None,
        "outcome": check.outcome.value,
        "why": check.why,
        "evidence": check.evidence,
        "text": gate_words.check_words(check),
    }


def _more_often(item: MoreOften) -> dict[str, Any]:
    return {
        "code": item.found.code,
        "subject": item.found.subject,
        "share": item.share,
        "share_before": item.share_before,
        "requests": item.found.requests,
        "saving_ns": item.found.saving_ns,
    }
