"""What is packed comes out again, and equal content has equal bytes."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.store.spans import span, two_turns
from tracebudget.core.span import Event, Link, Span
from tracebudget.packing import (
    DICTIONARIES,
    DICTIONARY,
    compress,
    decompress,
    pack_spans,
    unpack_spans,
)

text = st.text(st.characters(codec="utf-8"), max_size=20)
int64 = st.integers(-(2**63), 2**63 - 1)
times = st.integers(0, 2**63 - 1)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | int64 | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
attributes = st.dictionaries(text, values, max_size=4)
counts = st.integers(0, 2**32 - 1)
events = st.builds(Event, name=text, time_ns=times, attributes=attributes)
links = st.builds(Link, trace_id=text, span_id=text, attributes=attributes)
span_ids = st.integers(1, 2**64 - 1).map(lambda number: f"{number:016x}")
spans = st.builds(
    Span,
    trace_id=st.just("0af7651916cd43dd8448eb211c80319c"),
    span_id=span_ids,
    parent_id=span_ids | st.just(""),
    name=text,
    kind=st.integers(0, 5),
    start_ns=times,
    end_ns=times,
    attributes=attributes,
    status=st.integers(0, 2),
    status_message=text,
    events=st.lists(events, max_size=2).map(tuple),
    links=st.lists(links, max_size=2).map(tuple),
    flags=counts,
    trace_state=text,
    scope=text,
    scope_version=text,
    scope_attributes=attributes,
    resource=attributes,
    dropped_attributes=counts,
    dropped_events=counts,
    dropped_links=counts,
)


def by_id(some: list[Span]) -> list[Span]:
    return sorted(some, key=lambda one: one.span_id)


@given(st.lists(spans, min_size=1, max_size=4, unique_by=lambda one: one.span_id))
def test_every_span_comes_out_as_it_went_in(some: list[Span]) -> None:
    assert by_id(unpack_spans(decompress(compress(pack_spans(some))))) == by_id(some)


def test_order_of_arrival_makes_no_difference() -> None:
    in_order = [span(number) for number in range(20)]
    shuffled = random.Random(1).sample(in_order, 20)
    assert shuffled != in_order
    assert pack_spans(shuffled) == pack_spans(in_order)


def test_the_sender_is_written_once_and_shared_again() -> None:
    some = two_turns()
    assert pack_spans(some).count(b"shop-agent") == 1
    assert len({id(one.resource) for one in unpack_spans(pack_spans(some))}) == 1


def test_a_format_of_the_future_is_refused() -> None:
    _, *rest = orjson.loads(pack_spans([span()]))
    with pytest.raises(ValueError, match="format 2"):
        unpack_spans(orjson.dumps([2, *rest]))


def test_rows_of_any_dictionary_and_of_none_are_read() -> None:
    data = pack_spans(two_turns())
    assert decompress(zstandard.compress(data)) == data
    assert decompress(compress(data)) == data
    assert zstandard.get_frame_parameters(compress(data)).dict_id == DICTIONARY


def test_every_dictionary_has_the_number_that_it_is_called_by() -> None:
    for path in DICTIONARIES.iterdir():
        assert zstandard.ZstdCompressionDict(path.read_bytes()).dict_id() == int(path.name)


def test_the_dictionary_pays() -> None:
    """It holds names that repeat from trace to trace, and a small trace is mostly names."""
    data = pack_spans(two_turns())
    assert len(compress(data)) < 0.7 * len(zstandard.compress(data))


def test_threads_share_no_compressor() -> None:
    data = [pack_spans(two_turns(name=f"span {number}")) for number in range(100)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda one: decompress(compress(one)), data * 5)) == data * 5
