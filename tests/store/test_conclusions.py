"""From the analysis object to columns: what lists show is what budgets judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import agent, chat, make_trace, tool
from tests.core.reading import FIXTURES, fixture_traces
from tracebudget.conclusions import MAX_TURNS, Conclusions, conclude
from tracebudget.core.analysis import analyze
from tracebudget.core.app import App
from tracebudget.core.budget import METRICS, Budget
from tracebudget.core.span import Span

COLUMNS = {
    "turn": "longest_turn_ns",
    "ttft": "worst_ttft_ns",
    "first_visible": "worst_first_visible_ns",
    "tpot": "worst_tpot_ns",
    "tool": "tool_ns",
    "framework": "overhead_ns",
    "turns": "run_turn_count",
    "input_tokens": "largest_input_tokens",
}
TRACES = sorted(
    path
    for folder in ("recorded", "critical_path")
    for path in (FIXTURES / folder).glob("*.json")
    if path.name != "truth.json"
)


def concluded(spans: list[Span], limits: dict[str, int]) -> tuple[Conclusions, dict[str, int]]:
    """The conclusions, and each metric's value as the core judged it."""
    app = analyze(spans).document()["app"]
    budgets = tuple(Budget(metric, limit) for metric, limit in limits.items())
    document = analyze(spans, apps={app: App(budgets=budgets)}).document()
    values = {budget["metric"]: budget["value"] for budget in document["budgets"]}
    return conclude(document), values


def test_every_metric_has_its_column() -> None:
    assert {*COLUMNS, "end_to_end"} == set(METRICS)


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_columns_hold_what_the_budgets_judged(path: Path) -> None:
    for spans in fixture_traces(str(path.relative_to(FIXTURES))):
        found, values = concluded(spans, dict.fromkeys(METRICS, 0))
        summary = found.summary
        assert summary["end_to_end_ns"] - summary["wait_ns"] == values["end_to_end"]
        assert {metric: summary[column] for metric, column in COLUMNS.items()} == {
            metric: values[metric] for metric in COLUMNS
        }


def test_failed_calls_are_nobodys_worst() -> None:
    r"""
    agent  |===========================|
    chat   |xxxxxx|            90 ms to its first token, and failed
    chat          |====|       40 ms
    """
    spans = make_trace(
        agent(0, 270, chat(0, 100, ttft=90, error="overloaded"), chat(110, 170, ttft=40))
    )
    summary = concluded(spans, {})[0].summary
    assert summary["worst_ttft_ns"] == 40_000_000
    assert summary["model_call_count"] == 2


def test_metrics_without_a_figure_are_named() -> None:
    spans = make_trace(agent(0, 100, chat(0, 90)))
    found, _ = concluded(spans, {"ttft": 1, "end_to_end": 1, "turns": 9})
    assert (found.summary["breached"], found.summary["unjudged"]) == (["end_to_end"], ["ttft"])


def test_turns_of_the_top_run_are_listed_in_order_and_bounded() -> None:
    rounds = [
        (chat(at, at + 30, asks={f"c{at}": "look"}), tool(at + 30, at + 100, call_id=f"c{at}"))
        for at in range(0, 2500, 100)
    ]
    spans = make_trace(agent(0, 2500, *(step for both in rounds for step in both)))
    summary = concluded(spans, {})[0].summary
    assert summary["run_turn_count"] == 25
    assert summary["turn_ns"] == [100_000_000] * MAX_TURNS


def test_a_nested_run_has_turns_of_its_own() -> None:
    inner = agent(40, 80, chat(40, 55), chat(60, 75), name="inner")
    spans = make_trace(
        agent(
            0,
            120,
            chat(0, 30, asks={"c1": "ask"}),
            tool(30, 90, inner, call_id="c1"),
            chat(95, 120),
        )
    )
    summary = concluded(spans, {})[0].summary
    assert (summary["turn_count"], summary["run_turn_count"]) == (4, 2)
    assert summary["turn_ns"] == [95_000_000, 25_000_000]


def test_retries_of_a_tool_count_up() -> None:
    r"""
    look |--x--| |--x--| |--ok--|      other |-----|
           0       1        2                  0
    """
    looks = (
        tool(100, 150, name="look", error="boom"),
        tool(160, 210, name="look", error="boom"),
        tool(220, 270, name="look"),
    )
    spans = make_trace(agent(0, 500, chat(0, 100), *looks, tool(280, 300, name="other")))
    calls = conclude(analyze(spans).document()).tool_calls
    assert [(call["name"], call["attempt"]) for call in calls] == [
        ("look", 0), ("look", 1), ("look", 2), ("other", 0),
    ]  # fmt: skip


def test_what_tools_put_into_a_prompt_is_what_the_turn_before_does_not_explain() -> None:
    r"""
    chat 1000 in, 50 out |--tool--| chat 4400 in, 30 out   chat 4500 in
                                    3350 of the tool        no tool between
    """
    spans = make_trace(
        agent(
            0, 900,
            chat(0, 100, input=1000, output=50), tool(100, 200),
            chat(210, 300, input=4400, output=30), chat(400, 500, input=4500, output=30),
        )
    )  # fmt: skip
    calls = conclude(analyze(spans).document()).model_calls
    assert [call["tool_result_tokens"] for call in calls] == [None, 3350, None]
