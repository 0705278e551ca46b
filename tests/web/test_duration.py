"""Numbers: three significant digits, a unit, a dash for what is unknown."""

from __future__ import annotations

import pytest

from tracebudget.templatetags.duration import amount, count, duration, exact, percent, significant

US, MS, SECOND, MINUTE = 10**3, 10**6, 10**9, 60 * 10**9


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "—"),
        (0, "0 ms"),
        (1, "1 ns"),
        (1_189_474, "1.19 ms"),
        (999_600, "1 ms"),  # never "1,000 µs"
        (120 * MS, "120 ms"),
        (999_400_000, "999 ms"),
        (2_900 * MS, "2.9 s"),
        (59_960 * MS, "60 s"),
        (134 * SECOND, "2 min 14 s"),
        (60 * MINUTE - SECOND // 10, "1 h"),
        (61 * MINUTE, "1 h 1 min"),
        (25 * 60 * MINUTE, "1 d 1 h"),
        (-5 * MS, "−5 ms"),
    ],
)
def test_duration(ns: int | None, text: str) -> None:
    assert duration(ns) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, "—"), (0, "0 %"), (0.0004, "< 0.1 %"), (0.551, "55.1 %"), (0.9999, "> 99.9 %"),
        (1, "100 %"), (12.345, "1,230 %"),
    ],
)  # fmt: skip
def test_percent_never_hides_a_little_or_claims_all(share: float | None, text: str) -> None:
    assert percent(share) == text


def test_counts_are_exact() -> None:
    assert (count(1_234_567), count(None)) == ("1,234,567", "—")


def test_metrics_have_their_unit() -> None:
    assert (amount(1_234, "input_tokens"), amount(1_234_000, "ttft")) == ("1,234", "1.23 ms")


@pytest.mark.parametrize(
    ("value", "metric", "text"),
    [
        (8000, "input_tokens", "8000"),
        (1_234_567, "ttft", "1.234567 ms"),
        (900 * MS, "turn", "900 ms"),
        (2 * MINUTE, "turn", "2 min"),
        (90 * SECOND, "turn", "90 s"),
    ],
)
def test_a_form_gets_back_exactly_what_was_saved(value: int, metric: str, text: str) -> None:
    assert exact(value, metric) == text


def test_significant_digits_round_across_a_power_of_ten() -> None:
    assert [significant(value) for value in (0.0, 9.996, 99.96, 0.5, 1234.5)] == [
        "0", "10", "100", "0.5", "1,230",
    ]  # fmt: skip
