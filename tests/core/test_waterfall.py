"""Where the waterfall's rows and blocks stand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.web.traces import (
    MS,
    Recorder,
    nested_agents,
    serial_tools,
    waits_for_a_person,
    worked_example,
)
from tracebudget.core.analysis import analyze
from tracebudget.core.app import App
from tracebudget.core.axis import Axis, Fold, round_step
from tracebudget.core.budget import Budget
from tracebudget.core.waterfall import Row, RowKind, Waterfall, lay_out


def document(recorder: Recorder, **limits_ms: int) -> dict[str, Any]:
    budgets = tuple(Budget(metric, limit * MS) for metric, limit in limits_ms.items())
    return analyze(recorder.spans, apps={"shop": App(budgets=budgets)}).document()


def said(waterfall: Waterfall, row: Row) -> str:
    """A row as a line of text: indentation, what it is, and its blocks in ms."""
    step = waterfall.steps[row.step] if row.step is not None else None
    name = step["name"] if step else None
    name = name or row.name or row.part or row.segment or f"{row.kind} {row.turn}"
    blocks = [
        f"{b.part or b.segment or 'frame'} {b.start_ns // MS}+{b.duration_ns // MS}"
        for b in waterfall.blocks(row)
    ]
    return f"{'  ' * row.depth}{name}: {', '.join(blocks)}"


def drawn(waterfall: Waterfall) -> list[str]:
    return [said(waterfall, row) for row in waterfall.rows]


def test_worked_example_has_a_band_a_turn_and_a_row_a_step() -> None:
    assert drawn(lay_out(document(worked_example()))) == [
        "turn 0: prefill 0+58, decode 58+113, tool 171+184, framework 355+5",
        "  chat lpx: prefill 0+58, decode 58+113",
        "  search_order: tool 171+184",
        "  get_user_info: tool 171+119",
        "  framework: framework 355+5",
        "turn 1: prefill 360+62, decode 422+39",
        "  chat lpx: prefill 360+62, decode 422+39",
    ]


def test_agent_stands_under_the_tool_that_called_it_and_its_turns_below() -> None:
    """A failed attempt is prefill, its wait a row; what a tool delegated is a frame."""
    assert drawn(lay_out(document(nested_agents())))[1:14] == [
        "  framework: framework 0+20, framework 1600+20, framework 3020+80, framework 3500+20",
        "  chat lpx: prefill 20+400",
        "  retry_wait: retry_wait 420+400",
        "  chat lpx: prefill 820+310, decode 1130+470",
        "  ask_researcher: frame 1620+1400, tool 1620+20, tool 3000+20",
        "    researcher: frame 1640+1360",
        "      turn 1: framework 1640+10, prefill 1650+180, decode 1830+470, framework 2300+10,"
        " tool 2310+290, framework 2600+10",
        "        framework: framework 1640+10, framework 2300+10, framework 2600+10",
        "        chat lpx: prefill 1650+180, decode 1830+470",
        "        search_docs: tool 2310+290",
        "      turn 2: unsplit 2610+380, framework 2990+10",
        "        chat lpx: unsplit 2610+380",
        "  GET state: io 3100+400",
    ]


def test_agents_of_parallel_tools_stand_each_under_its_own() -> None:
    """Both overlap, so that times alone could not tell which tool called which agent."""
    made = Recorder()
    root = made.agent("lead", 0, 1000)
    made.chat(0, 100, root, asks=[("ask", "a"), ("ask", "b")])
    first = made.tool("ask", 100, 900, root, call_id="a")
    second = made.tool("ask", 110, 800, root, call_id="b")
    made.chat(130, 700, made.agent("for the second", 120, 790, second))
    made.chat(150, 600, made.agent("for the first", 140, 890, first))
    made.chat(900, 1000, root)
    names = [line.split(":")[0] for line in drawn(lay_out(document(made)))]
    assert [name for name in names[2:] if not name.endswith("framework")] == [
        "  ask",
        "    for the first",
        "      turn 2",
        "        chat lpx",
        "  ask",
        "    for the second",
        "      turn 1",
        "        chat lpx",
        "turn 3",
        "  chat lpx",
    ]


def test_io_has_its_name_and_too_short_calls_share_a_row() -> None:
    made = Recorder()
    root = made.agent("support", 0, 1000)
    for start in (0, 20):
        made.span("SELECT session", start, start + 10, root, kind=3)
    for number in range(4):
        made.span(f"GET /item/{number}", 50 + number * 4, 53 + number * 4, root, kind=3)
    made.chat(100, 1000, root, ttft=50)
    assert drawn(lay_out(document(made)))[1:4] == [
        "  SELECT session: io 0+10, io 20+10",
        "  framework: framework 10+10, framework 30+20, framework 53+1, framework 57+1,"
        " framework 61+1, framework 65+35",
        "  io: io 50+3, io 54+3, io 58+3, io 62+3",
    ]


def test_only_rows_that_hold_others_say_so() -> None:
    rows = lay_out(document(nested_agents())).rows
    deeper = [
        after.depth > row.depth for row, after in zip(rows, [*rows[1:], rows[0]], strict=True)
    ]
    assert [row.has_inside for row in rows] == deeper


def test_background_work_extends_the_axis_a_little_and_is_marked() -> None:
    waterfall = lay_out(document(serial_tools()))
    memory = waterfall.rows[-1]
    assert (memory.kind, memory.is_background) == (RowKind.STEP, True)
    assert sum(row.is_background for row in waterfall.rows) == 1
    assert waterfall.axis.end_ns == 4540 * MS
    assert waterfall.end == pytest.approx(4210 / 4540)


def test_short_gaps_are_seen_in_their_band_only() -> None:
    waterfall = lay_out(document(serial_tools()))
    gaps = [row for row in waterfall.rows if row.kind == RowKind.GAP]
    assert [row.duration_ns // MS for row in gaps] == [30, 83]  # turn 2: 12 of 4,210 ms
    (band,) = [row for row in waterfall.rows if row.kind == RowKind.TURN and row.turn == 2]
    assert waterfall.blocks(band)[-1].duration_ns == 12 * MS


def test_ruler_stands_at_the_limit_and_says_by_how_much() -> None:
    waterfall = lay_out(document(serial_tools(), end_to_end=3000, turn=900))
    assert waterfall.ruler is not None
    assert waterfall.ruler.at == pytest.approx(3000 / 4540)
    assert waterfall.ruler.over_ns == 1210 * MS
    over = {row.turn: row.over_ns for row in waterfall.rows if row.kind == RowKind.TURN}
    assert over == {0: None, 1: 1857 * MS, 2: None}


def test_limit_far_beyond_the_request_does_not_squeeze_it() -> None:
    waterfall = lay_out(document(worked_example(), end_to_end=30_000))
    assert waterfall.ruler is not None
    assert waterfall.ruler.at is None
    assert waterfall.axis.end_ns == 461 * MS


def test_waiting_for_a_person_is_folded_and_uses_no_budget() -> None:
    """|== 2.9 s ==|/ 89 s /|= 2.9 s =|    a limit of 4 s lies in the second run"""
    waterfall = lay_out(document(waits_for_a_person(), end_to_end=4000))
    (fold,) = waterfall.axis.folds
    assert (fold.start_ns // MS, fold.end_ns // MS) == (2905, 92_000)
    width = waterfall.axis.at(fold.end_ns) - waterfall.axis.at(fold.start_ns)
    assert width == pytest.approx(0.02)
    assert waterfall.ruler is not None
    assert waterfall.ruler.at == pytest.approx(waterfall.axis.at((4000 + 89_095) * MS))


def test_path_of_a_row_is_what_the_request_waited_for() -> None:
    waterfall = lay_out(document(worked_example()))
    paths = {
        said(waterfall, row).split(":")[0].strip(): waterfall.path(row) for row in waterfall.rows
    }
    ((start, width),) = paths["search_order"]
    assert start * 461 == pytest.approx(171)
    assert width * 461 == pytest.approx(184)
    assert paths["get_user_info"] == []


def test_agents_nested_deeper_than_python_recurses() -> None:
    made = Recorder()
    parent = made.agent("a0", 0, 10_000)
    for level in range(1, 1500):
        made.chat(level, level + 0.5, parent, tokens=(1, 1))
        parent = made.agent(f"a{level}", level + 0.5, 10_000 - level, parent)
    made.chat(1500, 1501, parent, tokens=(1, 1))
    rows = lay_out(document(made)).rows
    assert max(row.depth for row in rows) > 1500


@given(
    st.integers(1, 10**15),
    st.lists(st.integers(0, 10**15), max_size=6, unique=True).map(sorted),
    st.integers(0, 10**15),
)
def test_axis_never_runs_backwards(end: int, bounds: list[int], moment: int) -> None:
    inside = [min(bound, end) for bound in bounds]
    folds = [Fold(a, b) for a, b in zip(inside[::2], inside[1::2], strict=False) if a < b]
    axis = Axis(end, folds)
    assert (axis.at(0), axis.at(end)) == (0, 1)
    assert 0 <= axis.at(moment) <= axis.at(moment + 1) <= 1
    assert all(not fold.start_ns < tick < fold.end_ns for tick in axis.ticks() for fold in folds)
    assert 1 <= len(axis.ticks()) <= 20


@pytest.mark.parametrize(
    ("least", "step"),
    [
        (1, 1),
        (3, 5),
        (60 * MS, 100 * MS),
        (7e9, 10e9),
        (21e9, 60e9),
        (90e9, 120e9),
        (1e15, 12 * 86400e9),
    ],
)
def test_ticks_stand_at_round_moments(least: float, step: float) -> None:
    assert round_step(least) == step
