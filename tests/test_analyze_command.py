"""`manage.py analyze`: files in, the analysis object or a page of text out, and no database."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from opentelemetry.trace import Tracer

from tests.otlp import START_NS, chat, gzipped, recorded, two_turns
from tracebudget.budget_file import BudgetFileError, read_budgets
from tracebudget.core.budget import Budget

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = Path(__file__).parent / "fixtures"
WORKED_EXAMPLE = FIXTURES / "worked_example.json"
MS = 1_000_000

Capture = pytest.CaptureFixture[str]


def test_json_is_one_object_a_trace_a_line(capsys: Capture) -> None:
    call_command("analyze", str(WORKED_EXAMPLE), "--format", "json")
    (line,) = capsys.readouterr().out.splitlines()
    expected = json.loads((FIXTURES / "worked_example.expected.json").read_text())
    document = json.loads(line)
    assert document | expected == document
    assert document["source"] == str(WORKED_EXAMPLE)


def test_text_says_where_the_time_went(capsys: Capture) -> None:
    call_command("analyze", str(WORKED_EXAMPLE))
    text = capsys.readouterr().out
    assert "prefill    120 ms    26 %" in text
    assert "model call  chat groq-3-lpx  171 ms  TTFT 58 ms (measured)  1,240 in, 96 out" in text


def test_compressed_protobuf_is_read(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "export.pb.gz"
    file.write_bytes(gzipped(recorded(lambda tracer: two_turns(tracer, START_NS))))
    call_command("analyze", str(file), "--format", "json")
    assert json.loads(capsys.readouterr().out)["end_to_end_ns"] == 461 * MS


def test_an_unreadable_file_harms_no_other(tmp_path: Path, capsys: Capture) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text('{"resourceSpans": [')
    with pytest.raises(SystemExit) as stopped:
        call_command("analyze", str(broken), "nowhere.json", str(WORKED_EXAMPLE))
    out, err = capsys.readouterr()
    assert stopped.value.code == 2
    assert str(broken) in err
    assert "nowhere.json: The file cannot be read" in err
    assert "461 ms" in out


def test_standard_input_needs_no_database() -> None:
    """As a user without a database would call it."""
    command = [sys.executable, "manage.py", "analyze", "-", "--format", "json"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        input=WORKED_EXAMPLE.read_bytes(),
        capture_output=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "DATABASE_URL": "postgresql://nobody@localhost:1/none"},
    )
    assert json.loads(done.stdout)["source"] == "-"
    assert done.stderr == b""


def test_budgets_are_judged(tmp_path: Path, capsys: Capture) -> None:
    budgets = tmp_path / "budgets.yaml"
    budgets.write_text("support-agent: [{metric: end_to_end, limit: 300 ms}]")
    call_command("analyze", str(WORKED_EXAMPLE), "--format", "json", "--budgets", str(budgets))
    (judged,) = json.loads(capsys.readouterr().out)["budgets"]
    assert (judged["value"], judged["limit"], judged["state"]) == (461 * MS, 300 * MS, "over")


def test_a_budget_file_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as refused:
        call_command("analyze", str(WORKED_EXAMPLE), "--budgets", str(tmp_path / "none.yaml"))
    assert refused.value.returncode == 2


def test_a_budget_file_holds_budgets_for_one_app_or_for_all() -> None:
    assert read_budgets("[{metric: turns, limit: 5}]") == {"*": (Budget("turns", 5, 95.0),)}
    assert read_budgets("shop: [{metric: 'tool_call:f', limit: 1.5 s, objective: 99.9}]") == {
        "shop": (Budget("tool_call:f", 1500 * MS, 99.9),)
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("metric: turns", "must be a list of budgets"),
        ("just text", "Write a list of budgets"),
        ("[{metric: turns}]", "needs a `metric` and a `limit`"),
        ("[{metric: speed, limit: 1}]", "no metric 'speed'"),
        ("[{metric: ttft, limit: fast}]", "a time such as `300 ms`"),
        ("[{metric: turns, limit: 5 ms}]", "must be a whole number"),
        ("[{metric: turns, limit: 5, objective: 120}]", "must be a percentage"),
        ("[{", "neither YAML nor JSON"),
    ],
)
def test_a_budget_file_says_what_is_wrong_with_it(text: str, said: str) -> None:
    with pytest.raises(BudgetFileError, match=said):
        read_budgets(text)


# --- what the files say of each other -------------------------------------------------------------


def unwatched(count: int, service: str) -> bytes:
    """One call each of `count` requests whose first token nobody saw: 80 ms, 0.05 ms a token of
    prompt, 8 ms a token of answer.
    """

    def act(tracer: Tracer) -> None:
        for number in range(count):
            read, written = 500 + 700 * (number % 9), 30 + 17 * (number % 7)
            lasts = round((80 + 0.05 * read + 8 * (written - 1)) * MS)
            start = START_NS + number * 10_000 * MS
            facts = chat(0, read, written, "stop")
            del facts["gen_ai.response.time_to_first_chunk"]
            span = tracer.start_span("chat groq-3-lpx", attributes=facts, start_time=start)
            span.end(start + lasts)

    return recorded(act, service=service)


def test_calls_that_nobody_watched_are_fitted_over_all_files(
    tmp_path: Path, capsys: Capture
) -> None:
    """Twenty calls make a fit, whichever files they are in; another app's do not help."""
    for name, count, service in (("a", 15, "shop"), ("b", 15, "shop"), ("c", 15, "other")):
        (tmp_path / name).write_bytes(unwatched(count, service))
    call_command("analyze", *(str(tmp_path / name) for name in "abc"), "--format", "json")
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    sources = {(d["app"], d["steps"][0]["ttft_source"]) for d in documents}
    assert sources == {("shop", "inferred"), ("other", "unknown")}
    shop = [d for d in documents if d["app"] == "shop"]
    assert all(d["profile"]["calls"] == 30 for d in shop)
    for document in shop:
        (call,) = document["steps"]
        truth = (80 + 0.05 * call["input_tokens"]) * MS
        assert call["ttft_ns"] == pytest.approx(truth, rel=0.01)


def test_one_trace_alone_is_not_fitted(capsys: Capture) -> None:
    call_command("analyze", str(WORKED_EXAMPLE), "--format", "json")
    assert json.loads(capsys.readouterr().out)["profile"] is None
