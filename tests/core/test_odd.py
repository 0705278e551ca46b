"""Pathological traces, made after public bug reports: what is sane to say of each.

What concerns ingest alone (bodies, ids, limits) is tested there. Deep and wide traces are made
here, for they would be large files.
"""

from __future__ import annotations

import itertools

import pytest

from tests.builders import agent, chat, make_span, make_trace, ns, numbered, tool
from tests.core.reading import (
    Document,
    busy,
    diagnoses,
    document_of,
    fixture_spans,
    fixture_traces,
    ms,
    notes,
    part,
    path,
    segments,
    step,
)
from tracebudget.core.span import KIND_CLIENT, KIND_SERVER, Span
from tracebudget.document import dumps

ROOT, TWO, THREE, FOUR = (f"000000b0d6e7000{n}" for n in range(1, 5))


def odd(name: str) -> Document:
    return document_of(fixture_spans(f"odd/{name}.json"))


def test_01_end_before_start() -> None:
    """A call that ends 250 ms before it starts has no length; the total stays."""
    document = odd("01-end-before-start")
    assert (ms(document["end_to_end_ns"]), step(document, TWO)["duration_ns"]) == (1000, 0)
    assert "ends_before_start" in notes(document)
    assert all(piece["duration_ns"] > 0 for piece in document["path"])


def test_02_end_time_zero() -> None:
    """An open root ends with its last descendant, not in 1970."""
    document = odd("02-end-time-zero")
    assert ms(document["end_to_end_ns"]) == 900
    assert (document["state"], document["state_reason"]) == ("incomplete", "root_not_ended")
    assert "unfinished_span" in notes(document)


def test_04_skew_other_host_early() -> None:
    """Moved by 35 ms, and said so."""
    document = odd("04-skew-other-host-early")
    assert ms(step(document, TWO)["start_ns"]) == 25
    assert notes(document)["clock_skew"]["evidence"]["offset_ns"] == ns(35)


def test_06_child_longer_than_parent() -> None:
    document = odd("06-child-longer-than-parent")
    assert segments(document) == {"tool": 100}
    assert (ms(step(document, TWO)["start_ns"]), ms(step(document, TWO)["duration_ns"])) == (
        -20,
        200,
    )


def test_09_nine_days_late() -> None:
    """Late is no different from on time."""
    assert segments(odd("09-nine-days-late")) == {"decode": 700, "framework": 300}


def test_10_microseconds_as_nanos() -> None:
    document = odd("10-microseconds-as-nanos")
    assert ms(document["end_to_end_ns"]) == 2  # kept as it came
    assert "suspect_unit" in notes(document)


def test_14_same_millisecond_ties() -> None:
    spans = fixture_spans("odd/14-same-millisecond-ties.json")
    seen = {dumps(document_of(list(order))) for order in itertools.permutations(spans)}
    assert len(seen) == 1


def test_23_exact_resend() -> None:
    once, again = (fixture_spans(f"odd/23-exact-resend-{half}.json") for half in "ab")
    document = document_of(once + again + once)
    assert document == document_of(once)
    assert (ms(document["end_to_end_ns"]), step(document, TWO)["input_tokens"]) == (1000, 50)


def test_24_shared_span_id_client_server() -> None:
    """Both halves are there, the call hangs below the server half, time counts once."""
    spans = fixture_spans("odd/24-shared-span-id-client-server.json")
    assert {span.kind for span in spans if span.span_id == TWO} == {KIND_CLIENT, KIND_SERVER}
    assert segments(document_of(spans)) == {"decode": 40, "framework": 60}


def test_25_self_parent() -> None:
    document = odd("25-self-parent")
    assert (ms(document["end_to_end_ns"]), document["state"]) == (100, "complete")
    assert "parent_cycle" in notes(document)


def test_27_long_cycle_beside_root() -> None:
    """A ring of 50: cut once, listed, and no time of the request."""
    document = odd("27-long-cycle-beside-root")
    assert ms(document["end_to_end_ns"]) == 1000
    assert notes(document)["parent_cycle"]["evidence"]["count"] == 50
    assert {piece["span_id"] for piece in document["path"]} == {ROOT}


def test_28_parent_never_arrives() -> None:
    """A stand-in over 100..900: two turns' work, and 50 + 20 ms of which nobody knows."""
    document = odd("28-parent-never-arrives")
    assert ms(document["end_to_end_ns"]) == 800
    assert segments(document) == {"decode": 480, "tool": 250, "framework": 70}
    assert part(document, "unattributed") == 70
    assert (document["state"], document["state_reason"]) == ("incomplete", "missing_parent")


def test_29_root_last() -> None:
    """Each view is sane; with the third request all orders are one."""
    parts = [fixture_spans(f"odd/29-root-last-{n}.json") for n in (1, 2, 3)]
    assert document_of(parts[0])["state"] == "incomplete"
    assert document_of(parts[0] + parts[1])["state"] == "incomplete"
    seen = {dumps(document_of(joined(*order))) for order in itertools.permutations(parts)}
    assert len(seen) == 1
    assert document_of(joined(*parts))["state"] == "complete"


def joined(*requests: list[Span]) -> list[Span]:
    return [span for request in requests for span in request]


def test_32_tools_in_separate_traces() -> None:
    """The hole of 410 ms is unattributed, and no evidence of anything."""
    main, _ = fixture_traces("odd/32-tools-in-separate-traces.json")
    document = document_of(main)
    assert part(document, "unattributed") == 410
    assert diagnoses(document) == {}


def test_35_second_service_without_name() -> None:
    """Tools from a gateway that sends no resource at all belong to the one trace."""
    document = odd("35-second-service-without-name")
    assert segments(document)["tool"] == 580
    assert document["app"] != "unknown"


def test_44_tokens_text_and_fraction() -> None:
    one, two = fixture_traces("odd/44-tokens-text-and-fraction.json")
    calls = [document_of(one)["steps"][0], document_of(two)["steps"][0]]
    assert [call["input_tokens"] for call in calls] == [120, 120]  # "120" and 120.0
    assert [call["output_tokens"] for call in calls] == [None, None]  # a fraction, "n/a"


def test_70_tokens_on_parent_and_child() -> None:
    rows = odd("70-tokens-on-parent-and-child")["steps"]
    assert sum(row.get("input_tokens") or 0 for row in rows) == 113
    assert sum(row.get("output_tokens") or 0 for row in rows) == 11


def test_71_llm_inside_llm() -> None:
    """Framework, SDK and HTTP span of one call: the SDK's, which carries usage."""
    document = odd("71-llm-inside-llm")
    (call,) = (row for row in document["steps"] if row["kind"] == "model_call")
    assert (call["span_id"], call["input_tokens"], call["output_tokens"]) == (THREE, 1000, 50)
    assert segments(document) == {"decode": 780, "framework": 220}


def test_74_stream_start_late() -> None:
    """400 tokens in 5 ms are impossible: the 4.9 s before were most likely the model's."""
    document = odd("74-stream-start-late")
    assert part(document, "unattributed") == 4930
    assert "framework_overhead" not in diagnoses(document)


def test_75_llm_span_lost() -> None:
    """80 % of the request are a hole after the tool."""
    document = odd("75-llm-span-lost")
    assert part(document, "unattributed") == 4000
    assert ("framework/unattributed", 1000, 5000, ROOT) in path(document)


def test_77_parallel_tools() -> None:
    """Three that overlap: 2,300 ms of clock, 4,600 ms of work."""
    document = odd("77-parallel-tools")
    assert segments(document)["tool"] == 2300
    assert busy(document)["tool"] == 4600
    assert sum(segments(document).values()) == 3000


def test_79_retries_in_one_turn() -> None:
    """600 ms of failed calls, 6,000 ms of waiting, the good one 2,300 ms; tokens of one."""
    document = odd("79-retries-in-one-turn")
    assert len(document["turns"]) == 1
    assert [row["attempt"] for row in document["steps"][1:]] == [0, 1, 2]
    assert part(document, "retry_wait") == 6000
    assert segments(document) == {"prefill": 600 + 700, "decode": 1600, "framework": 6100}
    retry = diagnoses(document)["model_retry"]
    assert (retry["evidence"]["failed"], ms(retry["saving_ns"])) == (2, 6600)


def test_80_only_llm_spans() -> None:
    """Every call is the root of a trace of its own; the session joins them."""
    documents = [document_of(spans) for spans in fixture_traces("odd/80-only-llm-spans.json")]
    assert len({document["session_id"] for document in documents}) == 1
    assert [segments(document) for document in documents] == [{"prefill": 400, "decode": 1100}] * 3
    assert [len(document["turns"]) for document in documents] == [1, 1, 1]


def test_82_both_dialects_on_one_span() -> None:
    (call,) = odd("82-both-dialects-on-one-span")["steps"]
    assert (call["input_tokens"], call["output_tokens"]) == (100, 20)


def test_83_phases_do_not_add_up() -> None:
    """vLLM: the first token came at 115.5 ms, queue and prefill explain half of it."""
    document = odd("83-phases-do-not-add-up")
    assert ms(document["segments"]["prefill"]["critical_ns"]) == 115.5
    assert part(document, "queue") == pytest.approx(0.054589)
    assert part(document, "engine_other") == pytest.approx(115.5 - 57.8 - 0.054589)


# --- large ones -----------------------------------------------------------------------------------


def test_33_depth_3000() -> None:
    """A chain; each span has 1 ms of its own."""
    spans = [
        make_span("x", n / 2, 3000 - n / 2, id=numbered(n), parent=numbered(n - 1) if n else "")
        for n in range(3000)
    ]
    document = document_of(spans)
    own: dict[str, int] = {}
    for piece in document["path"]:
        own[piece["span_id"]] = own.get(piece["span_id"], 0) + piece["duration_ns"]
    assert set(own.values()) == {ns(1)}
    assert len(dumps(document)) > 0


def test_34_ten_thousand_spans() -> None:
    """Five hundred rounds of an agent, each with a wave of parallel tools of many spans."""
    rounds = []
    for n in range(500):
        at = n * 100
        rounds.append(chat(at, at + 40, ttft=10, input=50 + n, output=9))
        rounds += [tool(at + 40, at + 90 - k, name=f"t{k}") for k in range(18)]
    document = document_of(make_trace(agent(0, 50_000, *rounds)))
    assert len(document["steps"]) == 1 + 500 * 19
    assert segments(document) == {
        "prefill": 5_000,
        "decode": 15_000,
        "tool": 25_000,
        "framework": 5_000,
    }
