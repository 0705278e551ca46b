"""The ten items, each from facts that show it, facts that show the contrary, and facts that tell
nothing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tracebudget.core.checklist import (
    ITEMS,
    Facts,
    Handling,
    Recorded,
    Routes,
    Times,
    check,
)
from tracebudget.core.declaration import Observation
from tracebudget.core.gate import Kept, judge

ALL_TOLD = Recorded(
    calls=200, ttft=200, tpot=150, tpot_calls=150, input_tokens=200, output_tokens=200, streamed=9
)
SPLIT = Times(100, 100, end_to_end_ns=1_000, unsplit_ns=30, unattributed_ns=20)


def cap(over: int, unjudged: int = 0, requests: int = 100) -> dict[str, Any]:
    return {"prompt_cap": judge(Kept("input_tokens", 8_000, 95, requests, over, unjudged))}


def found(*codes: str) -> dict[str, Any]:
    return {"found": dict.fromkeys(codes, 3), "times": SPLIT}


def handling(**facts: Any) -> dict[str, Any]:
    return {"handling": Handling(**facts)}


CASES: list[tuple[str, dict[str, Any], str, str]] = [
    ("recorded", {}, "unknown", "no_calls"),
    ("recorded", {"recorded": ALL_TOLD}, "done", "all_recorded"),
    ("recorded", {"recorded": replace(ALL_TOLD, ttft=198)}, "done", "all_recorded"),
    ("recorded", {"recorded": replace(ALL_TOLD, ttft=197)}, "not_done", "not_recorded"),
    ("recorded", {"recorded": replace(ALL_TOLD, tpot=0, tpot_calls=0)}, "done", "all_recorded"),
    ("split", {}, "unknown", "no_requests"),
    ("split", {"times": SPLIT}, "done", "is_split"),
    ("split", {"times": replace(SPLIT, unsplit_ns=31)}, "not_done", "not_split"),
    ("split", {"times": replace(SPLIT, with_turns=98)}, "not_done", "not_split"),
    ("parallel", {}, "unknown", "no_several_tools"),
    ("parallel", handling(together=4), "done", "ran_together"),
    ("parallel", handling(together=4) | found("serial_tools"), "not_done", "ran_in_a_row"),
    ("cached", {}, "unknown", "no_ttl"),
    ("cached", {"result_ttl_seconds": 60}, "unknown", "cache_unseen"),
    ("cached", {"result_ttl_seconds": 0}, "unknown", "no_ttl"),
    ("cached", found("repeated_tool_call"), "unknown", "repeats_unmarked"),
    ("cached", found("repeated_tool_call") | {"read_only_repeats": 2}, "not_done", "asked_again"),
    ("context", {}, "unknown", "no_cap"),
    ("context", cap(over=5), "done", "under_cap"),
    ("context", cap(over=6), "not_done", "over_cap"),
    ("context", cap(over=0, unjudged=9), "unknown", "cap_unproven"),
    ("context", cap(over=0, requests=9), "unknown", "cap_unproven"),
    ("context", cap(over=5) | found("context_growth"), "not_done", "context_grows"),
    ("timeouts", {}, "unknown", "no_timeout_declared"),
    ("timeouts", {"timeout_ms": 3000}, "unknown", "no_timeout_seen"),
    ("timeouts", {"timeout_ms": 3000} | handling(timeouts=2, went_on=2), "done", "went_on"),
    ("timeouts", handling(timeouts=2, went_on=2), "unknown", "no_timeout_declared"),
    ("timeouts", handling(timeouts=2, went_on=1), "not_done", "ended_there"),
    (
        "timeouts",
        {"timeout_ms": 3000, "timeout_state": Observation.CONTRADICTED},
        "not_done",
        "ran_longer",
    ),
    ("one_generation", {}, "unknown", "nothing_streamed"),
    ("one_generation", {"recorded": ALL_TOLD}, "done", "generated_once"),
    ("one_generation", found("double_generation"), "not_done", "generated_twice"),
    ("routing", {}, "unknown", "no_simple_requests"),
    ("routing", {"routes": Routes({"s": 1}, {})}, "unknown", "only_simple_requests"),
    ("routing", {"routes": Routes({"s": 1}, {"s": 9})}, "unknown", "one_model"),
    ("routing", {"routes": Routes({"s": 8, "l": 1}, {"l": 9, "s": 1})}, "done", "routed"),
    ("routing", found("oversized_model"), "not_done", "oversized"),
    ("limits", {}, "unknown", "no_failures"),
    ("limits", handling(failed_calls=3, coded_calls=2), "not_done", "no_codes"),
    ("limits", handling(failed_calls=3, coded_calls=3, codes=["429"]), "unknown", "codes_told"),
    ("benchmark", {}, "not_done", "not_frozen"),
    ("benchmark", {"frozen_at": datetime(2026, 1, 1, tzinfo=UTC)}, "done", "frozen"),
]


@pytest.mark.parametrize(("item", "facts", "state", "why"), CASES)
def test_item(item: str, facts: dict[str, Any], state: str, why: str) -> None:
    verdict = check(Facts(**facts))[item]
    assert (verdict.state, verdict.why) == (state, why)


def test_there_are_ten_and_each_is_tried() -> None:
    assert len(ITEMS) == 10
    assert {item for item, *_ in CASES} == ITEMS.keys()


def test_nothing_is_done_where_nothing_was_seen() -> None:
    assert {verdict.state.value for verdict in check(Facts()).values()} == {"unknown", "not_done"}


def test_findings_are_named_as_evidence() -> None:
    verdict = check(Facts(**found("context_growth", "tool_result_inflates_context")))["context"]
    assert verdict.codes == ("context_growth", "tool_result_inflates_context")
    assert verdict.evidence == {"found": 3, "requests": 100}
