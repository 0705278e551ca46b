"""Declared against observed: what confirms a setting, contradicts it, and does neither."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Branch, agent, chat, http, make_trace, retrieval, tool, wait
from tracebudget.core.analysis import analyze
from tracebudget.core.app import App
from tracebudget.core.declaration import OBSERVERS, Observed, Request, observe
from tracebudget.core.declared import Declared
from tracebudget.core.gateway import SETTINGS, Gateway, declared_by

ASKS = {"c1": "search", "c2": "fetch", "c3": "count"}


def request(*steps: Branch, end: float = 2000, declared: Declared | None = None) -> Request:
    spans = make_trace(agent(0, end, *steps, id="a"))
    apps = {"shop": App(declared=declared)} if declared is not None else {}
    return Request(analyze(spans, apps=apps).document(), tuple(spans))


def observed(setting: str, value: Any, *requests: Request, **marks: Any) -> Observed:
    (only,) = observe(Gateway(**{setting: value}), requests, Declared(**marks))
    return only


def said(setting: str, value: Any, *requests: Request, **marks: Any) -> tuple[str, str]:
    found = observed(setting, value, *requests, **marks)
    return found.state.value, found.why


def test_every_setting_is_looked_for() -> None:
    assert OBSERVERS.keys() == SETTINGS.keys() == set(Gateway.__dataclass_fields__)


def test_settings_come_in_the_order_of_the_file() -> None:
    gateway = Gateway(prefix_cache=True, model="m", retry=1)
    assert [item.setting for item in observe(gateway, [])] == ["model", "retry", "prefix_cache"]


@pytest.mark.parametrize("setting", SETTINGS)
def test_without_requests_nothing_is_seen(setting: str) -> None:
    value = {str: "http://gateway/", bool: True}.get(SETTINGS[setting].kind, 1)
    assert observed(setting, value).state == "unseen"


# --- what each call was asked with ----------------------------------------------------------------


def call(**attributes: Any) -> Request:
    return request(chat(0, 500, id="c", attributes=attributes))


@pytest.mark.parametrize(
    ("setting", "value", "attributes"),
    [
        ("temperature", 0.0, {"gen_ai.request.temperature": 0}),
        ("temperature", 0.2, {"llm.invocation_parameters": '{"temperature": 0.2}'}),
        ("max_tokens", 2048, {"gen_ai.request.max_tokens": 2048}),
        ("max_tokens", 2048, {"llm.invocation_parameters": '{"max_completion_tokens": 2048}'}),
        ("endpoint", "http://gw/v1", {"server.address": "GW", "server.port": 80}),
        ("endpoint", "https://gw/v1", {"server.address": "gw"}),
        ("endpoint", "http://gw:8080/v1", {"url.full": "http://gw:8080/v1/chat"}),
    ],
)
def test_a_call_that_tells_confirms(setting: str, value: Any, attributes: dict[str, Any]) -> None:
    assert said(setting, value, call(**attributes)) == ("confirmed", "calls_agree")


@pytest.mark.parametrize(
    ("setting", "value", "attributes"),
    [
        ("temperature", 0.0, {"gen_ai.request.temperature": 0.7}),
        ("max_tokens", 2048, {"gen_ai.request.max_tokens": 4096}),
        ("endpoint", "http://gw/v1", {"server.address": "api.example.com"}),
        ("endpoint", "https://gw/v1", {"server.address": "gw", "server.port": 8443}),
    ],
)
def test_one_call_that_differs_contradicts(
    setting: str, value: Any, attributes: dict[str, Any]
) -> None:
    agrees = {"temperature": {"gen_ai.request.temperature": 0}}.get(setting, {})
    found = observed(setting, value, call(**agrees), call(**attributes))
    assert (found.state, found.why) == ("contradicted", "call_differs")
    assert found.evidence["others"] == 1
    assert [example.span_id for example in found.examples] == ["c"]


def test_what_no_call_tells_is_unseen() -> None:
    for setting, value in (("temperature", 0.0), ("max_tokens", 9), ("endpoint", "http://g/")):
        assert said(setting, value, call()) == ("unseen", "calls_do_not_tell")


def test_the_http_span_below_a_call_tells_where_it_went() -> None:
    below = http(10, 490, attributes={"server.address": "gw"})
    assert said("endpoint", "http://gw/v1", request(chat(0, 500, below))) == (
        "confirmed",
        "calls_agree",
    )


def test_nonsense_for_parameters_tells_nothing() -> None:
    for text in ("{", "[]", '{"temperature": "hot"}', '{"temperature": true}'):
        assert said("temperature", 0.0, call(**{"llm.invocation_parameters": text})) == (
            "unseen",
            "calls_do_not_tell",
        )


@pytest.mark.parametrize(
    ("model", "state"),
    [
        ("gpt-5", "confirmed"),
        ("gpt-5-2026-03-01", "confirmed"),
        ("gpt-5@20260301", "confirmed"),
        ("gpt-5:latest", "confirmed"),
        ("gpt-5-mini", "contradicted"),
        ("gpt-5-mini-2026-03-01", "contradicted"),
        ("gpt-55", "contradicted"),
    ],
)
def test_a_dated_release_is_the_same_model(model: str, state: str) -> None:
    assert said("model", "gpt-5", request(chat(0, 500, model=model)))[0] == state


def test_streaming_is_told_by_the_flag_or_the_first_chunk() -> None:
    streamed = request(chat(0, 500, ttft=100))
    whole = request(chat(0, 500, stream=False))
    assert said("stream", True, streamed) == ("confirmed", "calls_agree")
    assert said("stream", True, streamed, whole) == ("contradicted", "call_differs")
    assert said("stream", False, whole) == ("confirmed", "calls_agree")
    assert said("stream", True, request(chat(0, 500))) == ("unseen", "calls_do_not_tell")


@pytest.mark.parametrize(
    ("output", "finish", "state"),
    [
        (2048, "length", "confirmed"),
        (2048, "stop", "unseen"),
        (900, "length", "unseen"),  # the context was full
        (2049, "stop", "contradicted"),
    ],
)
def test_the_length_of_an_answer_tells_its_cap(output: int, finish: str, state: str) -> None:
    answer = request(chat(0, 500, output=output, finish=finish))
    assert said("max_tokens", 2048, answer)[0] == state


def test_calls_in_the_background_are_nobodys_setting() -> None:
    late = request(chat(0, 400), retrieval(600, 700, chat(610, 690, model="embedder")), end=500)
    assert observed("model", "m", late).evidence["calls"] == 1


# --- how tools ran --------------------------------------------------------------------------------


def tools(*pairs: tuple[float, float], **fields: Any) -> Request:
    """Tools of one answer, each from and until."""
    names = list(ASKS.values())
    runs = [
        tool(start, end, name=names[i % 3], call_id=f"c{i + 1}", id=f"t{i + 1}", **fields)
        for i, (start, end) in enumerate(pairs)
    ]
    asks = {f"c{i + 1}": names[i % 3] for i in range(len(pairs))}
    last = max(end for _, end in pairs) + 10
    return request(chat(0, 100, asks=asks), *runs, chat(last, last + 50), end=last + 60)


SIDE_BY_SIDE = ((100, 300), (101, 400))
IN_A_ROW = ((100, 300), (310, 600))


def test_tools_side_by_side_and_in_a_row() -> None:
    together, in_a_row = tools(*SIDE_BY_SIDE), tools(*IN_A_ROW)
    assert said("parallel", True, together) == ("confirmed", "tools_together")
    assert said("parallel", True, together, in_a_row) == ("contradicted", "tools_in_a_row")
    assert said("parallel", False, in_a_row) == ("confirmed", "tools_in_a_row")
    assert said("parallel", False, together, in_a_row) == ("contradicted", "tools_together")
    assert said("parallel", True, tools((100, 300))) == ("unseen", "no_several_tools")


def test_dependent_tools_in_a_row_contradict_nothing() -> None:
    """
    chat |-search-|-fetch-| chat        fetch needs what search found
    """
    marked = Declared(dependent=frozenset({"fetch"}))
    steps = (
        chat(0, 100, asks={"c1": "search", "c2": "fetch"}),
        tool(100, 300, name="search", call_id="c1"),
        tool(310, 600, name="fetch", call_id="c2"),
        chat(610, 700),
    )
    assert said("parallel", True, request(*steps, declared=marked))[0] == "unseen"
    assert said("parallel", True, request(*steps, declared=Declared()))[0] == "contradicted"


def test_tools_that_touch_ran_one_after_another() -> None:
    assert said("max_parallel", 1, tools((100, 300), (299.5, 500)))[0] != "contradicted"


@pytest.mark.parametrize(
    ("limit", "pairs", "said_"),
    [
        (1, SIDE_BY_SIDE, ("contradicted", "more_at_once")),
        (2, (*SIDE_BY_SIDE, (302, 500)), ("confirmed", "waited_for_a_place")),
        (2, SIDE_BY_SIDE, ("unseen", "never_so_many")),
        (4, SIDE_BY_SIDE, ("unseen", "never_so_many")),
    ],
)
def test_how_many_tools_at_once(
    limit: int, pairs: tuple[tuple[float, float], ...], said_: tuple[str, str]
) -> None:
    assert said("max_parallel", limit, tools(*pairs)) == said_


@pytest.mark.parametrize(
    ("end", "error", "said_"),
    [
        (3100, "TimeoutError", ("confirmed", "ended_at_limit")),
        (3120, "TimeoutError", ("confirmed", "ended_at_limit")),  # cancelling takes a moment
        (4000, None, ("contradicted", "ran_longer")),
        (4000, "TimeoutError", ("contradicted", "ran_longer")),  # another limit ended it
        (3100, None, ("unseen", "never_so_long")),
        (900, "ValueError", ("unseen", "never_so_long")),
    ],
)
def test_time_limit_of_tools(end: float, error: str | None, said_: tuple[str, str]) -> None:
    assert said("timeout_ms", 3000, tools((100, end), error=error)) == said_


def test_a_tool_that_asked_a_person_breaks_no_time_limit() -> None:
    asked = tool(100, 60_000, wait(200, 59_000), name="delete")
    waited = request(chat(0, 100, asks={"c1": "delete"}), asked, chat(60_010, 60_100), end=60_200)
    assert said("timeout_ms", 3000, waited) == ("unseen", "no_tools")


def retried(times: int, *, length: float = 200, then: str | None = None) -> Request:
    """A tool that fails at first, and is called again at once."""
    at, steps = 100.0, []
    for number in range(times + 1):
        error = "ConnectionError" if number < times else then
        steps.append(tool(at, at + length, name="search", call_id="c1", error=error))
        at += length + 20
    return request(chat(0, 100, asks={"c1": "search"}), *steps, chat(at, at + 100), end=at + 100)


def test_tries_of_a_failed_tool() -> None:
    once, twice, given_up = retried(1), retried(2), retried(0, then="ConnectionError")
    assert said("retry", 1, once, given_up) == ("confirmed", "tried_again")
    assert said("retry", 1, once, twice) == ("contradicted", "tried_more")
    assert said("retry", 2, twice) == ("confirmed", "tried_again")
    assert said("retry", 1, given_up) == ("contradicted", "never_tried_again")
    assert said("retry", 0, given_up) == ("confirmed", "not_tried_again")
    assert said("retry", 0, once) == ("contradicted", "tried_more")
    assert said("retry", 1, retried(0)) == ("unseen", "no_failed_tools")


def test_arguments_that_were_refused_are_not_worth_a_retry() -> None:
    refused = retried(0, length=5, then="ValidationError")
    assert said("retry", 1, refused) == ("unseen", "no_failed_tools")


def test_a_second_call_of_the_same_tool_is_no_retry() -> None:
    """One answer asked for the tool twice: the call ids differ."""
    both = request(
        chat(0, 100, asks={"c1": "search", "c2": "search"}),
        tool(100, 300, name="search", call_id="c1", error="ConnectionError"),
        tool(310, 500, name="search", call_id="c2"),
        chat(510, 600),
    )
    assert said("retry", 1, both) == ("contradicted", "never_tried_again")


# --- what is cached -------------------------------------------------------------------------------


def asked_twice(name: str = "search") -> Request:
    return request(
        chat(0, 100, asks={"c1": name}, arguments='{"q": 1}'),
        tool(100, 300, name=name, call_id="c1", arguments={"q": 1}),
        chat(310, 400, asks={"c2": name}, arguments='{"q": 1}'),
        tool(400, 600, name=name, call_id="c2", arguments={"q": 1}),
        chat(610, 700),
    )


def test_results_that_were_to_be_kept() -> None:
    name, twice = "tool_result_ttl_seconds", asked_twice()
    only_reads = {"read_only": frozenset({"search"})}
    assert said(name, 60, twice, **only_reads) == ("contradicted", "asked_anew")
    assert said(name, 60, twice) == ("unseen", "repeats_unmarked")
    assert said(name, 60, retried(0), **only_reads) == ("unseen", "no_repeats")
    assert said(name, 0, twice, **only_reads) == ("unseen", "no_repeats")


def test_a_repeat_later_than_declared_contradicts_nothing() -> None:
    late = request(
        chat(0, 100, asks={"c1": "search"}, arguments='{"q": 1}'),
        tool(100, 300, name="search", call_id="c1", arguments={"q": 1}),
        chat(5310, 5400, asks={"c2": "search"}, arguments='{"q": 1}'),
        tool(5400, 5600, name="search", call_id="c2", arguments={"q": 1}),
        chat(5610, 5700),
        end=5800,
        declared=declared_by(Gateway(tool_result_ttl_seconds=2)),
    )
    marks = {"read_only": frozenset({"search"})}
    assert said("tool_result_ttl_seconds", 2, late, **marks) == ("unseen", "no_repeats")


def cached(tokens: int | None) -> Request:
    return request(
        chat(0, 300, input=2000, cached=tokens, asks={"c1": "search"}),
        tool(300, 400, name="search", call_id="c1"),
        chat(410, 700, input=2600, cached=tokens),
    )


def test_prefix_cache() -> None:
    assert said("prefix_cache", True, cached(1920)) == ("confirmed", "prefix_reused")
    assert said("prefix_cache", True, cached(0)) == ("contradicted", "prefix_not_reused")
    assert said("prefix_cache", False, cached(0)) == ("confirmed", "prefix_not_reused")
    assert said("prefix_cache", False, cached(1920)) == ("contradicted", "prefix_reused")
    assert said("prefix_cache", True, cached(None)) == ("unseen", "no_cached_tokens_told")
    assert said("prefix_cache", True, cached(1920), cached(0))[0] == "confirmed"  # a miss or two


# --- what detectors read of it --------------------------------------------------------------------


def test_declared_settings_reach_the_detectors() -> None:
    gateway = Gateway(parallel=False, max_parallel=4, timeout_ms=3000, tool_result_ttl_seconds=0)
    assert declared_by(gateway, read_only=["search"], dependent=["fetch"]) == Declared(
        max_parallel=4,
        tool_timeout_ns=3_000_000_000,
        result_ttl_ns=0,
        read_only=frozenset({"search"}),
        dependent=frozenset({"fetch"}),
    )


def test_tools_that_run_in_a_row_because_it_is_declared_still_cost_what_they_cost() -> None:
    declared = declared_by(Gateway(parallel=False))
    steps = (
        chat(0, 100, asks={"c1": "search", "c2": "fetch"}),
        tool(100, 400, name="search", call_id="c1"),
        tool(400, 700, name="fetch", call_id="c2"),
        chat(710, 800),
    )
    found = [f["code"] for f in request(*steps, declared=declared).document["findings"]]
    assert "serial_tools" in found
