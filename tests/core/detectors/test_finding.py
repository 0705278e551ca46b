"""Findings together: the order of investigation, severities, the six steps of triage."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest

from tests.builders import Branch, agent, chat, ns, tool
from tests.core.detectors.proof import FIRES, SILENT, UNKNOWN, proofs
from tests.core.reading import Document, analyzed, diagnoses, triage
from tracebudget.core.finding import DETECTORS, Detector, Unknown, severity_of

# The troubleshooting table: each code and its step of the investigation.
STEPS = {
    "tools_dominate": 1,
    "framework_overhead": 1,
    "many_turns": 1,
    "double_generation": 2,
    "malformed_tool_arguments": 2,
    "model_retry": 2,
    "queueing": 2,
    "slow_first_token": 2,
    "slow_decode": 2,
    "decode_stutter": 2,
    "oversized_model": 2,
    "serial_tools": 3,
    "repeated_tool_call": 3,
    "tool_timeout": 3,
    "tool_retry": 3,
    "context_growth": 4,
    "prefix_cache_unused": 4,
    "tool_result_inflates_context": 4,
    "network_gap": 5,
    "handoff_gap": 5,
    "model_not_bottleneck": 6,
    "model_bound": 6,
}


def test_every_row_of_the_troubleshooting_table_is_a_rule() -> None:
    assert {code: rule.step for code, rule in DETECTORS.items()} == STEPS


def can_be_unknown(rule: Detector) -> bool:
    """As the rule's own type says, which mypy holds it to."""
    return Unknown in get_args(get_args(get_type_hints(rule)["return"])[0])


def test_every_rule_is_proved_on_every_side_that_it_has() -> None:
    sides = {
        code: {FIRES, SILENT} | ({UNKNOWN} if can_be_unknown(rule.detector) else set())
        for code, rule in DETECTORS.items()
    }
    assert proofs() == sides


# --- severity -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("saving", "total", "severity"),
    [
        (19, 1000, "info"),  # below 2 % and below 20 ms
        (20, 1100, "warning"),  # 20 ms
        (19, 900, "warning"),  # 2.1 %
        (200, 1000, "warning"),
        (250, 1000, "critical"),  # a quarter
        (None, 1000, "warning"),  # points onwards
        (0, 1000, "info"),
    ],
)
def test_severity_follows_from_the_saving(
    saving: float | None, total: float, severity: str
) -> None:
    assert severity_of(None if saving is None else ns(saving), ns(total)) == severity


# --- order ----------------------------------------------------------------------------------------


def troubled() -> Document:
    """Framework time, a retry, two serial waves and a doubt about tokens.

    agent  |...|-429-|..|-chat-|--tool--|--tool--|-chat-|-tool-|-tool-|-chat-|
    """
    asks = {"c1": "a", "c2": "b"}
    return analyzed(
        agent(
            0,
            3000,
            chat(400, 450, error="429"),
            chat(500, 600, asks=asks),
            tool(600, 900, name="a", call_id="c1"),
            tool(900, 1200, name="b", call_id="c2"),
            chat(1200, 1300, asks={"c3": "a", "c4": "b"}),
            tool(1300, 1900, name="a", call_id="c3", arguments={"n": 1}),
            tool(1900, 2500, name="b", call_id="c4", arguments={"n": 1}),
            chat(2500, 3000),
        )
    )


def test_findings_stand_in_the_order_of_investigation_and_data_quality_last() -> None:
    found = troubled()["findings"]
    steps = [finding["step"] for finding in found]
    known = [step for step in steps if step is not None]
    assert known == sorted(known)
    assert steps[len(known) :] == [None] * (len(steps) - len(known))
    assert len(known) > 3
    assert None in steps


def test_within_a_step_the_largest_saving_comes_first() -> None:
    waves = [f["saving_ns"] for f in troubled()["findings"] if f["code"] == "serial_tools"]
    assert waves == [ns(600), ns(300)]


# --- triage ---------------------------------------------------------------------------------------


def test_the_six_steps_are_always_there() -> None:
    document = troubled()
    assert [row["step"] for row in document["triage"]] == [1, 2, 3, 4, 5, 6]
    assert [list(row) for row in document["triage"]] == [["step", "state", "codes", "why"]] * 6


def test_a_step_with_findings_names_them() -> None:
    row = troubled()["triage"][2]
    assert (row["state"], row["codes"], row["why"]) == ("found", ["serial_tools"], None)


def test_found_beats_unknown() -> None:
    """The TTFT is unknown as well; the retry was found."""
    assert triage(troubled(), 2) == ("found", None)


def test_unknown_says_why() -> None:
    assert triage(analyzed(agent(0, 100, chat(0, 100))), 2) == ("unknown", "ttft_unknown")


def test_clear_is_clear() -> None:
    document = analyzed(agent(0, 100, chat(0, 100, ttft=30, input=9, output=20)))
    assert triage(document, 2) == ("clear", None)
    assert triage(document, 3) == ("clear", None)


# --- the golden cases -----------------------------------------------------------------------------


def golden(*steps: Branch, end: float) -> set[str]:
    return set(diagnoses(analyzed(agent(0, end, *steps))))


def test_model_300_ms_tools_1500_ms_framework_200_ms() -> None:
    found = golden(chat(200, 500), tool(500, 2000), end=2000)
    assert {"tools_dominate", "framework_overhead", "model_not_bottleneck"} <= found


def test_three_tools_of_300_ms_in_a_row_from_one_answer() -> None:
    asks = {f"c{n}": f"t{n}" for n in range(3)}
    tools = (tool(100 + 300 * n, 400 + 300 * n, name=f"t{n}", call_id=f"c{n}") for n in range(3))
    document = analyzed(agent(0, 1100, chat(0, 100, asks=asks), *tools, chat(1000, 1100)))
    assert diagnoses(document)["serial_tools"]["saving_ns"] == ns(600)
    assert diagnoses(document)["serial_tools"]["evidence"]["sum_ns"] == ns(900)
