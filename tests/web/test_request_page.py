"""The request page: its numbers, its waterfall, and what it must never show."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import orjson
import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from tests.web.traces import (
    ARRIVAL,
    MS,
    Recorder,
    arrive,
    nested_agents,
    serial_tools,
    worked_example,
)
from tracebudget import models, store
from tracebudget.core.fit import CallFit
from tracebudget.core.profile import Profile
from tracebudget.packing import decompress
from tracebudget.web.waterfall import BLOCK_ROWS

QUERIES = 5  # session, user, project, trace, analysis


def opened(page: Client, recorder: Recorder, **query: str) -> HttpResponse:
    answer = page.get(reverse("request", args=["shop", recorder.trace_id]), query)
    assert answer.status_code == 200
    return answer  # type: ignore[return-value]


def text(answer: HttpResponse) -> str:
    """The page's words, tags and repeated blanks left out."""
    words = re.sub(r"<[^>]+>", " ", answer.content.decode())
    return re.sub(r"\s+", " ", words)


@pytest.fixture
def budgets(project: models.Project) -> None:
    app = models.App.objects.create(project=project, name="shop", slug="shop")
    limits = {"end_to_end": 3000, "turn": 900, "ttft": 300, "tool_call:search_order": 5000}
    models.Budget.objects.bulk_create(
        models.Budget(app=app, metric=metric, limit=limit * MS) for metric, limit in limits.items()
    )


def test_worked_example_shows_the_numbers_of_the_contract(
    page: Client, project: models.Project
) -> None:
    arrive(project, worked_example())
    said = text(opened(page, worked_example()))
    for fact in (
        "461 ms", "prefill 120 ms", "decode 152 ms", "tool 184 ms", "framework 5 ms",
        "TTFT 58 ms measured · 1.19 ms a token · 1,240 → 96",
        "TTFT 62 ms measured · 684 µs a token · 1,548 → 58",
    ):  # fmt: skip
        assert fact in said
    assert "2 turns · 2 model calls · 2 tool calls" in said


def test_every_first_token_says_where_it_was_read(page: Client, project: models.Project) -> None:
    arrive(project, worked_example())
    said = text(opened(page, worked_example()))
    origin = "gen_ai.response.time_to_first_chunk"
    assert f"TTFT 58 ms measured ({origin})" in said  # of the row
    assert f"58 ms measured {origin}" in said  # of the table


def test_waterfall_is_rows_of_html_and_svg(page: Client, project: models.Project) -> None:
    arrive(project, worked_example())
    html = opened(page, worked_example()).content.decode()
    rows = re.findall(r'<div class="row ([^"]*)" id="([^"]*)"', html)
    assert [css.split()[0] for css, _id in rows] == [
        "turn", "step", "step", "step", "gap", "turn", "step",
    ]  # fmt: skip
    assert rows[2] == ("step depth-1 tool_call critical", f"step-{3:016x}")
    prefill = '<rect class="seg prefill" x="0%" width="12.5813%"'  # 58 of 461
    assert html.count(prefill) == 2  # in the band and in the row


def test_over_budget_is_said_in_words_and_marked(
    page: Client, project: models.Project, budgets: None
) -> None:
    arrive(project, serial_tools())
    answer = opened(page, serial_tools())
    said = text(answer)
    assert "1.21 s over the 3 s budget." in said
    assert "1.86 s over" in said  # turn 1
    assert "budget 3 s, 1.21 s past it" in said
    assert "TTFT, worst 330 ms measured 300 ms 30 ms over" in said
    assert "tool search_order, slowest call 720 ms 5 s within" in said
    assert 'class="past"' in answer.content.decode()


def test_finding_says_evidence_saving_and_remedy_and_names_its_steps(
    page: Client, project: models.Project
) -> None:
    arrive(project, serial_tools())
    html = opened(page, serial_tools()).content.decode()
    said = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))
    assert "Tool calls of one answer ran one after another turn 1" in said
    assert "saves 1.32 s" in said
    assert "3 calls, search_order → search_invoice → search_shipment: 2.07 s in a row" in said
    assert "Run them at the same time, if they are independent." in said
    ids = " ".join(f"{number:016x}" for number in (5, 6, 7))
    assert f'data-spans="{ids}"' in html
    assert len(re.findall(r"tool_call found critical\" id=\"step-000000000000000[567]", html)) == 3


def test_unknown_is_a_dash_with_its_reason(page: Client, project: models.Project) -> None:
    arrive(project, nested_agents())
    said = text(opened(page, nested_agents()))
    assert "TTFT — unknown" in said
    assert "model, not split" in said
    assert "cannot tell" in said


def test_number_of_queries_is_fixed(
    page: Client, project: models.Project, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    recorders = [worked_example(1), nested_agents(2)]
    arrive(project, *recorders)
    for recorder in recorders:
        with django_assert_num_queries(QUERIES):
            opened(page, recorder)


def test_json_is_the_analysis_byte_for_byte(page: Client, project: models.Project) -> None:
    (trace,) = arrive(project, worked_example())
    stored = models.Analysis.objects.get(trace=trace)
    answer = page.get(reverse("api_request", args=["shop", trace.trace_id]))
    assert answer.content == decompress(bytes(stored.document))


def test_request_that_waits_for_its_analysis_says_so(page: Client, project: models.Project) -> None:
    recorder = worked_example()
    store.store_spans(project, recorder.spans, now=ARRIVAL)
    said = text(opened(page, recorder))
    assert "This request waits for its analysis" in said
    assert "5 spans have arrived" in said


def test_trace_that_is_full_says_what_is_missing(page: Client, project: models.Project) -> None:
    (trace,) = arrive(project, worked_example())
    models.Trace.objects.filter(pk=trace.pk).update(refused_span_count=1234)
    assert "1,234 spans that came later were refused" in text(opened(page, worked_example()))


def test_trace_without_a_single_step_is_drawn_as_not_traced(
    page: Client, project: models.Project
) -> None:
    plain = Recorder()
    plain.span("work", 0, 100, plain.span("job", 0, 200))
    arrive(project, plain)
    assert "200 ms (100 %) is not traced." in text(opened(page, plain))


# --- long traces ---------------------------------------------------------------------------------


def many_turns(number: int) -> Recorder:
    made = Recorder()
    root = made.agent("loop", 0, number * 10)
    for index in range(number):
        made.chat(index * 10, index * 10 + 9, root, ttft=3, tokens=(10, 5))
    return made


@pytest.fixture
def long(project: models.Project) -> Recorder:
    recorder = many_turns(300)  # a band and a row each
    arrive(project, recorder)
    return recorder


def rows_in(answer: HttpResponse) -> list[str]:
    return re.findall(r'<div class="row [^"]*" id="([^"]*)"', answer.content.decode())


def test_long_trace_comes_in_blocks(page: Client, long: Recorder) -> None:
    answer = opened(page, long)
    assert len(rows_in(answer)) == 2 * BLOCK_ROWS
    html = answer.content.decode()
    assert html.count('class="block unloaded"') == 4
    assert f'href="?from={2 * BLOCK_ROWS}#waterfall">Rows 201 to 300</a>' in html


def test_block_is_asked_for_by_its_first_row(page: Client, long: Recorder) -> None:
    address = reverse("request_rows", args=["shop", long.trace_id])
    answer = page.get(address, {"from": 2 * BLOCK_ROWS})
    assert rows_in(answer)[0] == "turn-100"  # type: ignore[arg-type]
    assert b"<html" not in answer.content


@pytest.mark.parametrize("where", [{"from": "400"}, {"step": f"{250:016x}"}])
def test_address_chooses_the_block(page: Client, long: Recorder, where: dict[str, str]) -> None:
    rows = rows_in(opened(page, long, **where))
    assert f"step-{250:016x}" in rows
    assert "turn-0" not in rows


@pytest.mark.parametrize("nonsense", ["-1", "x", "9" * 5000, "²"])
def test_row_number_that_makes_no_sense_is_harmless(
    page: Client, long: Recorder, nonsense: str
) -> None:
    opened(page, long, **{"from": nonsense, "turns": nonsense, "steps": nonsense})


def test_tables_come_in_parts(page: Client, long: Recorder) -> None:
    said = text(opened(page, long, turns="100", steps="100"))
    assert "← Before" in said
    assert "More →" in said


# --- spans ---------------------------------------------------------------------------------------

SECRET = "the customer's address"


def span_text(page: Client, recorder: Recorder, number: int) -> str:
    address = reverse("request_span", args=["shop", recorder.trace_id, f"{number:016x}"])
    answer = page.get(address)
    assert answer.status_code == 200
    return text(answer)  # type: ignore[arg-type]


def secretive() -> Recorder:
    recorder = worked_example()
    recorder.spans[1].attributes["gen_ai.input.messages"] = SECRET  # type: ignore[index]
    return recorder


def test_step_opens_with_its_figures_and_attributes(page: Client, project: models.Project) -> None:
    arrive(project, secretive())
    said = span_text(page, secretive(), 2)
    assert "TTFT 58 ms measured" in said
    assert "gen_ai.response.time_to_first_chunk" in said
    assert "the customer&#x27;s address" in said


def test_step_says_where_each_fact_was_read(page: Client, project: models.Project) -> None:
    arrive(project, worked_example())
    said = span_text(page, worked_example(), 2)
    assert "Where this was read" in said
    assert "input tokens 1240 gen_ai.usage.input_tokens attribute" in said
    assert "first token 0.058 s gen_ai.response.time_to_first_chunk attribute" in said
    assert "time per output token derived (end − first token) / (output tokens − 1)" in said


def test_value_that_is_not_kept_is_shown_as_its_length_never_as_its_digest(
    page: Client, project: models.Project
) -> None:
    models.Project.objects.update(privacy=models.Privacy.TIMINGS_ONLY)
    stored = _stored_in_timings_only(project)
    said = span_text(page, secretive(), 2)
    assert f"not stored, {len(SECRET)} characters" in said
    assert SECRET not in said
    digests = re.findall(r'"digest":"([0-9a-f]+)"', stored)
    assert digests
    assert not [digest for digest in digests if digest in said]


def _stored_in_timings_only(project: models.Project) -> str:
    """Through the privacy door, as ingest does. What is stored, as text."""
    redacted: dict[str, Any] = {
        "redacted": len(SECRET),
        "digest": "feedfacefeedface",
        "parsed": None,
    }
    recorder = secretive()
    recorder.spans[1].attributes["gen_ai.input.messages"] = redacted  # type: ignore[index]
    recorder.spans[1].attributes["tracebudget.lifted"] = {  # type: ignore[index]
        "prompt": ["feedfacefeedface"],
        "facts": {"stream": [True, "request"]},
        "tool_requests": [],
    }
    arrive(project, recorder)
    return orjson.dumps([span.attributes for span in recorder.spans]).decode()


def test_tree_shows_every_span_below_its_parent(page: Client, project: models.Project) -> None:
    recorder = nested_agents()
    arrive(project, recorder)
    answer = page.get(reverse("request_spans", args=["shop", recorder.trace_id]))
    html = answer.content.decode()
    depths = re.findall(r'<td class="tree depth-(\d+)"', html)
    assert len(depths) == len(recorder.spans)
    assert depths == ["0", "1", "1", "1", "2", "3", "3", "3", "1", "1"]
    assert "plain span" in html


def test_ring_of_parents_is_listed_once(page: Client, project: models.Project) -> None:
    ring = Recorder()
    first, second = ring.span("a", 0, 10), ring.span("b", 0, 10)
    ring.spans = [
        replace(first, parent_id=second.span_id),
        replace(second, parent_id=first.span_id),
    ]
    arrive(project, ring)
    answer = page.get(reverse("request_spans", args=["shop", ring.trace_id]))
    assert answer.content.decode().count('<td class="tree') == 2


def test_unknown_span_is_not_found(page: Client, project: models.Project) -> None:
    arrive(project, worked_example())
    address = reverse("request_span", args=["shop", worked_example().trace_id, "f" * 16])
    assert page.get(address).status_code == 404


def test_an_inferred_first_token_is_shown_with_its_interval(
    page: Client, project: models.Project
) -> None:
    """By a law of 100 ms and 2 ms a token the call of 300 ms had its first token after 100 ms."""
    app = models.App.objects.create(project=project, name="shop", slug="shop")
    fit = CallFit(a_ns=100 * MS, b_ns=0, c_ns=2 * MS, count=40, error=0.05, margin=0.2)
    profile = Profile(fits={"lpx": fit}, made_at="2026-01-01T12:00:00+00:00", calls=40)
    models.Learned.objects.create(app=app, changed_at=ARRIVAL, profile=profile.document())
    made = Recorder()
    made.chat(0, 300, made.agent("support", 0, 300), tokens=(1000, 101))
    arrive(project, made)
    assert "TTFT 100 ms inferred, 80 ms to 120 ms" in text(opened(page, made))
    span = page.get(reverse("request_span", args=["shop", made.trace_id, made.spans[1].span_id]))
    assert "100 ms inferred, 80 ms to 120 ms" in re.sub(r"\s+", " ", span.content.decode())
