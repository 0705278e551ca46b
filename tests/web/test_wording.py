"""Every code that the core can say has words, and words say the numbers that prove them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.builders import START_NS
from tests.web.traces import MS, Recorder, nested_agents, serial_tools, worked_example
from tracebudget import wording
from tracebudget.core import analysis
from tracebudget.core.app import App
from tracebudget.core.budget import METRICS, Budget
from tracebudget.core.dialects import CONTENT_FACTS, DIALECTS
from tracebudget.core.finding import DETECTORS, STEPS
from tracebudget.core.provenance import Standing
from tracebudget.core.segment import PARTS, SegmentKind
from tracebudget.core.step import StepKind
from tracebudget.core.ttft import TtftSource
from tracebudget.finding_words import ALL, FINDINGS, QUALITY

CORE = Path(analysis.__file__).parent
SOURCE = "\n".join(path.read_text() for path in CORE.rglob("*.py"))


def codes(pattern: str, source: str = SOURCE) -> set[str]:
    found = set(re.findall(pattern, source))
    assert found
    return found


def test_every_detector_has_words() -> None:
    assert set(DETECTORS) <= set(FINDINGS)


def test_every_note_has_words() -> None:
    refused = codes(r'return "(ttft_\w+)"', (CORE / "ttft.py").read_text())
    assert codes(r'Note\(\s*"(\w+)"') | refused == set(QUALITY)


def test_every_reason_for_not_knowing_has_words() -> None:
    assert codes(r'Unknown\("(\w+)"\)') <= set(wording.WHYS)


def test_every_other_code_has_words() -> None:
    assert set(METRICS) == set(wording.METRICS) == set(wording.METRIC_TEXTS)
    assert {kind.value for kind in SegmentKind} == set(wording.SEGMENTS)
    assert {part for parts in PARTS.values() for part in parts} == set(wording.PARTS)
    assert {kind.value for kind in StepKind} == set(wording.KINDS)
    assert {source.value for source in TtftSource} == set(wording.TTFT_SOURCES)
    assert {fact for d in DIALECTS for fact in d.facts} - CONTENT_FACTS == set(wording.FACTS)
    assert {standing.value for standing in Standing} == set(wording.STANDINGS)
    assert set(STEPS) == set(wording.STEPS) == set(wording.STEPS_CLEAR)
    assert codes(r'return "\w+", "(\w+)"') <= set(wording.STATE_REASONS)


@pytest.mark.parametrize("code", sorted(ALL))
def test_a_finding_can_be_said_without_its_evidence(code: str) -> None:
    said = wording.explain({"code": code, "evidence": {}})
    assert said.title
    assert said.text
    assert said.cause
    assert said.check
    assert said.remedy
    assert "{" not in said.text


def test_the_richest_form_that_the_evidence_allows_is_said() -> None:
    evidence: dict[str, Any] = {
        "tool_ns": 2_310 * MS,
        "end_to_end_ns": 4_210 * MS,
        "model_ns": 1_690 * MS,
        "limit_ns": None,
    }
    without = wording.explain({"code": "tools_dominate", "evidence": evidence})
    assert without.text == "2.31 s of 4.21 s went to tools; model calls took 1.69 s."
    assert without.figures == ()
    limited = wording.explain({"code": "tools_dominate", "evidence": evidence | {"limit_ns": MS}})
    assert "over their budget of 1 ms" in limited.text


def test_evidence_that_the_text_leaves_out_is_listed() -> None:
    said = wording.explain({"code": "rehung_step", "evidence": {"from": "aa", "count": 3}})
    assert said.figures == (("from", "aa"), ("spans", "3"))


def test_a_moment_is_said_as_one() -> None:
    said = wording.explain({"code": "unfinished_span", "evidence": {"assumed_end_ns": START_NS}})
    assert said.figures == (("assumed end", "2026-01-01T00:00:00.000000000Z"),)


def test_codes_among_the_evidence_are_said_in_words() -> None:
    evidence = {"same_by": "tokens", "tool": "tokens"}
    said = wording.explain({"code": "double_generation", "evidence": evidence})
    assert said.figures == (("the same by", "model and token counts"), ("tool", "tokens"))


def test_text_from_outside_is_no_format() -> None:
    """A tool may be called {limit_ns}."""
    evidence = {"tool": "{limit_ns}", "duration_ns": MS}
    said = wording.explain({"code": "tool_timeout", "evidence": evidence})
    assert said.text == "{limit_ns} timed out after 1 ms."


def test_unknown_code_is_named_as_it_is() -> None:
    assert wording.explain({"code": "news", "evidence": {"x_ns": MS}}).title == "news"


def verdict(recorder: Any, **limits_ms: int) -> wording.Verdict:
    budgets = tuple(Budget(metric, limit * MS) for metric, limit in limits_ms.items())
    found = analysis.analyze(recorder.spans, apps={"shop": App(budgets=budgets)})
    return wording.verdict(found.document())


def test_verdict_over_budget_says_by_how_much_where_and_what_would_help() -> None:
    said = verdict(serial_tools(), end_to_end=3000)
    assert (said.state, said.total, said.against) == (
        "over", "4.21 s", "1.21 s over the 3 s budget.",
    )  # fmt: skip
    assert said.largest == "Tools took 2.29 s (54.4 %)."
    assert said.advice == (
        "Tool calls of one answer ran one after another (turn 1):"
        " without that, 2.89 s, within budget."
    )


def test_verdict_without_a_budget_says_so() -> None:
    said = verdict(worked_example())
    assert (said.state, said.against) == ("none", "No budget is set for this app.")


def test_verdict_names_the_metric_that_is_over() -> None:
    said = verdict(worked_example(), end_to_end=3000, turn=100)
    assert (said.state, said.against) == ("over", "Over budget: turn, longest.")


def test_verdict_admits_what_is_not_split() -> None:
    made = Recorder()
    made.chat(0, 900, made.agent("support", 0, 1000), tokens=(100, 50))
    expected = "The model took 900 ms (90 %), not split into prefill and decode."
    assert verdict(made).largest == expected


def test_facts_of_a_step_are_counted() -> None:
    document = analysis.analyze(nested_agents().spans).document()
    assert wording.triage_facts(2, document) == "5 model calls, 1 failed."
    assert wording.triage_facts(6, document) == ""
