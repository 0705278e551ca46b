"""Every code of this package has its sentence, and every sentence its figures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.core.test_checklist import CASES
from tracebudget.core import checklist, declaration, gate
from tracebudget.core.checklist import Facts, check
from tracebudget.core.gateway import SETTINGS
from tracebudget.models import Verdict
from tracebudget.release import checklist_words, gate_words, words


def codes_in(module: object, pattern: str) -> set[str]:
    """What a module of the core gives as reasons, read out of its source."""
    return set(re.findall(pattern, Path(str(getattr(module, "__file__"))).read_text()))  # noqa: B009


@pytest.mark.parametrize(("item", "facts", "state", "why"), CASES)
def test_a_verdict_reads_as_a_sentence(
    item: str, facts: dict[str, object], state: str, why: str
) -> None:
    said = checklist_words.verdict_words(check(Facts(**facts))[item])  # type: ignore[arg-type]
    assert said.endswith(".")
    assert "{" not in said


def test_every_reason_of_the_checklist_has_a_sentence() -> None:
    given = codes_in(checklist, r'(?:UNKNOWN|DONE|_found\(facts), "(\w+)"')
    given |= codes_in(checklist, r'else "(\w+)"\)')
    assert {why for *_, why in CASES} >= given
    assert checklist_words.WHYS.keys() == given | {why for *_, why in CASES}
    assert checklist_words.ITEMS.keys() == checklist.ITEMS.keys()
    assert checklist_words.STATES.keys() == set(checklist.State)


def test_every_reason_of_the_gate_has_a_sentence() -> None:
    given = codes_in(gate, r'Outcome\.[A-Z]+, "(\w+)"')
    given |= {f"{kind}{o}" for kind in ("", "errors_") for o in ("better", "same", "worse")}
    assert gate_words.WHYS.keys() == given | {"no_baseline", "first"}
    assert gate_words.OUTCOMES.keys() == set(gate.Outcome)


def test_every_observation_has_a_sentence() -> None:
    given = codes_in(declaration, r'(?:CONFIRMED|CONTRADICTED|UNSEEN), "(\w+)"')
    given |= codes_in(declaration, r'why = "(\w+)"')
    given |= codes_in(declaration, r'else "(\w+)"')
    assert words.WHYS.keys() >= given
    assert words.SETTING_TEXTS.keys() == SETTINGS.keys()
    assert words.OBSERVATIONS.keys() == set(declaration.Observation)
    assert words.VERDICTS.keys() == set(Verdict)
