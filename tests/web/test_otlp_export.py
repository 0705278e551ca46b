"""The download of a request's spans: everything that was stored, and no digest."""

from __future__ import annotations

import json

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from ingest.otlp import read_export
from ingest.privacy import pass_door
from tests.web.traces import ARRIVAL, Recorder, arrive, nested_agents, serial_tools, worked_example
from tracebudget import models, store
from tracebudget.core.span import Event, Link, Span
from tracebudget.web.otlp import export_of

JSON = "application/json"


def read_back(spans: list[Span]) -> list[Span]:
    return list(read_export(json.dumps(export_of(spans)).encode(), JSON).spans)


@pytest.mark.parametrize("make", [worked_example, serial_tools, nested_agents])
def test_file_reads_as_the_spans_that_were_stored(
    page: Client, project: models.Project, make: type[Recorder]
) -> None:
    recorder = make(7)
    arrive(project, recorder)
    answer = page.get(f"/p/shop/requests/{recorder.trace_id}/otlp/")
    assert answer.headers["Content-Disposition"].endswith(f'"{recorder.trace_id}.otlp.json"')
    spans = read_export(answer.content, JSON).spans
    assert sorted(spans, key=lambda s: s.span_id) == recorder.spans


values = st.recursive(
    st.text('aé€😀\n"\\', max_size=5)
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.text("abc.", min_size=1), values, max_size=4), st.integers(10**18, 2**60))
def test_every_value_survives(attributes: dict[str, object], start_ns: int) -> None:
    span = Span(
        trace_id="1" * 32, span_id="2" * 16, parent_id="3" * 16, name="step", kind=3,
        start_ns=start_ns, end_ns=start_ns + 1, attributes=attributes, status=2,
        status_message="no", events=(Event("first", start_ns, attributes),),
        links=(Link("4" * 32, "5" * 16, attributes),), flags=0x301, trace_state="a=b",
        scope="tests", scope_version="1", scope_attributes=attributes, resource=attributes,
        dropped_attributes=1, dropped_events=2, dropped_links=3,
    )  # fmt: skip
    assert read_back([span]) == [span]


def test_no_digest_leaves_the_house(page: Client, project: models.Project) -> None:
    project.privacy = models.Privacy.TIMINGS_ONLY
    recorder = worked_example()
    passed = pass_door(recorder.spans, project, b"k" * 32)
    assert "digest" in str(passed)
    store.store_spans(project, passed, now=ARRIVAL)
    answer = page.get(f"/p/shop/requests/{recorder.trace_id}/otlp/")
    assert b"redacted" in answer.content
    assert b"digest" not in answer.content
    assert b"lifted" not in answer.content


def test_stranger_gets_nothing(stranger: Client, project: models.Project) -> None:
    recorder = worked_example()
    arrive(project, recorder)
    assert stranger.get(f"/p/shop/requests/{recorder.trace_id}/otlp/").status_code == 404
