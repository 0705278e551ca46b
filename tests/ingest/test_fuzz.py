"""Whatever is sent: never a 5xx, never a crash, and what was stored can be read again."""

from __future__ import annotations

import gzip
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import otlp
from tests.ingest.exporter import Exporter
from tests.otlp import JSON, PROTOBUF, json_span
from tracebudget import keys, models
from tracebudget.packing import decompress, unpack_spans

BODY = otlp.recorded(otlp.two_turns) + otlp.recorded(otlp.failing_tool)

# One database for all examples: they only add.
fuzzed = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def assert_sane(
    exporter: Exporter,
    body: bytes,
    content_type: str,
    *,
    privacy: models.Privacy = models.Privacy.FULL,
    neighbour: str = "",
    **headers: str,
) -> None:
    """No 5xx, all that was stored can be read, and the span with the neighbour's id is there."""
    models.Project.objects.update(privacy=privacy)
    keys.forget_all()
    response = exporter.send(body, content_type, **headers)
    assert response.status_code in {200, 400, 413}, response.content
    assert not neighbour or response.status_code == 200, response.content
    stored = {""}
    for batch in models.SpanBatch.objects.all():
        spans = unpack_spans(decompress(batch.payload))
        assert len(spans) == batch.span_count
        stored |= {span.span_id for span in spans}
    assert neighbour in stored
    models.SpanBatch.objects.all().delete()
    models.Trace.objects.all().delete()


@given(st.binary(max_size=200))
@fuzzed
def test_random_bytes(exporter: Exporter, body: bytes) -> None:
    assert_sane(exporter, body, PROTOBUF)
    assert_sane(exporter, body, JSON)
    assert_sane(exporter, body, JSON, content_encoding="gzip")


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """A good body with some bytes changed, or a piece taken out."""
    body = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
    start = draw(st.integers(0, len(body)))
    if draw(st.booleans()):
        del body[start : start + draw(st.integers(0, 50))]
    return bytes(body)


modes = st.sampled_from(models.Privacy)


@given(damaged(BODY), modes)
@fuzzed
def test_damaged_protobuf(exporter: Exporter, body: bytes, privacy: models.Privacy) -> None:
    assert_sane(exporter, body, PROTOBUF, privacy=privacy)


@given(damaged(otlp.as_json(BODY)), modes)
@fuzzed
def test_damaged_json(exporter: Exporter, body: bytes, privacy: models.Privacy) -> None:
    assert_sane(exporter, body, JSON, privacy=privacy)


@given(damaged(gzip.compress(BODY)))
@fuzzed
def test_damaged_gzip(exporter: Exporter, body: bytes) -> None:
    assert_sane(exporter, body, PROTOBUF, content_encoding="gzip")


odd_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["NaN", "1e400", "\0", "00" * 8, otlp.TRACE_ID, "-1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["values", "key", "value", "low", "high"]), inner, max_size=2
        )
        | st.dictionaries(
            st.sampled_from(
                [
                    "stringValue",
                    "intValue",
                    "doubleValue",
                    "arrayValue",
                    "kvlistValue",
                    "bytesValue",
                ]
            ),
            inner,
            max_size=2,
        )
    ),
    max_leaves=6,
)
FIELDS = [*json_span(), "parentSpanId", "status", "events", "links", "attributes", "flags"]


NEIGHBOUR = "0123456789abcdef"
GOOD = json_span(traceId="9" * 32, spanId=NEIGHBOUR)


@given(st.dictionaries(st.sampled_from(FIELDS), odd_values, max_size=4), odd_values, modes)
@fuzzed
def test_odd_fields(
    exporter: Exporter, changes: dict[str, Any], value: Any, privacy: models.Privacy
) -> None:
    span = json_span(**{"attributes": [{"key": "k", "value": value}]} | changes)
    events = json_span(events=[{"name": "e", "attributes": [{"key": "k", "value": value}]}])
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span, events, GOOD]}]}]})
    assert_sane(exporter, body.encode(), JSON, privacy=privacy, neighbour=NEIGHBOUR)


@st.composite
def odd_frames(draw: st.DrawFn) -> bytes:
    """A good span in a good frame, between frames in which anything stands anywhere."""
    scope_spans = {"scope": draw(odd_values), "spans": draw(odd_values | st.just([json_span()]))}
    lists = {"scopeSpans": draw(odd_values | st.just([scope_spans, draw(odd_values)]))}
    frame = {"resource": draw(odd_values), **lists}
    good = {"scopeSpans": [{"spans": [GOOD]}]}
    document = {"resourceSpans": [frame, good, draw(odd_values)], "more": draw(odd_values)}
    return json.dumps(document).encode()


@given(odd_frames(), modes)
@fuzzed
def test_odd_frames(exporter: Exporter, body: bytes, privacy: models.Privacy) -> None:
    assert_sane(exporter, body, JSON, privacy=privacy, neighbour=NEIGHBOUR)
