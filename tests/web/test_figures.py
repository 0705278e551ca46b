"""Figures for Plotly, and share bars."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import plotly.graph_objects as go  # type: ignore[import-untyped]
import pytest

from tests.web.traces import MS, START, nested_agents
from tracebudget.core.analysis import analyze
from tracebudget.queries.apps import Bucket
from tracebudget.queries.rollups import Percentiles
from tracebudget.series import SUMS
from tracebudget.web.figures import (
    of_columns,
    percentiles_figure,
    segments_figure,
    shares,
    told_apart,
)
from tracebudget.web.request_page import RequestPage


def trend() -> list[Bucket]:
    full = dict.fromkeys(SUMS, 300 * MS)
    empty = dict.fromkeys(SUMS, 0)
    return [
        Bucket(START, 3, Percentiles(400 * MS, 900 * MS, 6000 * MS, 3, 3), full),
        Bucket(START + timedelta(hours=1), 0, Percentiles(None, None, None, 0, 0), empty),
    ]


def figures() -> dict[str, dict[str, Any]]:
    page = RequestPage(analyze(nested_agents().spans).document())
    return {
        "segments": segments_figure(trend()),
        "percentiles": percentiles_figure(trend(), 3000 * MS),
        "turns": page.turns_figure,
    }


@pytest.mark.parametrize("name", figures())
def test_plotly_knows_every_key(name: str) -> None:
    """Its Python half refuses unknown keys and values."""
    figure = figures()[name]
    assert go.Figure(json.loads(json.dumps(figure))).data


def test_means_are_of_the_requests_of_each_stretch() -> None:
    bars = {bar["name"]: bar for bar in segments_figure(trend())["data"]}
    assert bars["prefill"]["y"] == [100.0, 0.0]
    assert bars["prefill"]["customdata"] == ["100 ms", "0 ms"]
    assert "waiting for a person" not in bars


def test_charts_that_reach_far_are_in_seconds() -> None:
    figure = percentiles_figure(trend(), 3000 * MS)
    assert figure["layout"]["yaxis"]["ticksuffix"] == " s"
    assert figure["data"][2]["y"] == [6.0, None]
    assert figure["layout"]["shapes"][0]["y0"] == 3.0


def test_ignorance_is_a_hatched_bar_of_its_own() -> None:
    bars = {bar["name"]: bar for bar in figures()["turns"]["data"]}
    assert "pattern" in bars["model, not split"]["marker"]
    assert "pattern" not in bars["decode"]["marker"]


def test_shares_add_up_and_tell_ignorance_apart() -> None:
    columns = dict.fromkeys(SUMS, 0) | {
        "prefill_ns": 10,
        "decode_ns": 60,
        "unsplit_ns": 20,
        "framework_ns": 30,
        "unattributed_ns": 30,
    }
    bars = shares(of_columns(columns))
    assert [(bar.code, bar.x, bar.width) for bar in bars] == [
        ("prefill", "0%", "10%"),
        ("decode", "10%", "40%"),
        ("unsplit", "50%", "20%"),
        ("unattributed", "70%", "30%"),
    ]
    assert [bar.fill for bar in bars if bar.fill] == [
        "url(#hatch-unsplit)",
        "url(#hatch-unattributed)",
    ]


def test_nothing_has_no_shares() -> None:
    assert (
        shares(
            told_apart(
                dict.fromkeys(
                    ("prefill", "decode", "unsplit", "tool", "framework", "unattributed", "wait"), 0
                )
            )
        )
        == []
    )
