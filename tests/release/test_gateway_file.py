"""Declared settings as a file: read strictly, and back again."""

from __future__ import annotations

import pytest

from tracebudget.core.gateway import NO_GATEWAY, SETTINGS, Gateway
from tracebudget.release.gateway_file import (
    MAX_CHARS,
    GatewayFileError,
    read_gateway,
    write_gateway,
)

ARTICLE = """\
inference:
  endpoint: http://your-gateway/v1/chat/completions
  model: groq-3-lpx
  temperature: 0.0
  max_tokens: 2048
  stream: true
tools:
  parallel: true
  max_parallel: 4
  timeout_ms: 3000
  retry: 1
cache:
  tool_result_ttl_seconds: 60
  prefix_cache: true
"""
WHOLE = Gateway(
    endpoint="http://your-gateway/v1/chat/completions",
    model="groq-3-lpx",
    temperature=0.0,
    max_tokens=2048,
    stream=True,
    parallel=True,
    max_parallel=4,
    timeout_ms=3000,
    retry=1,
    tool_result_ttl_seconds=60,
    prefix_cache=True,
)


def problems(text: str) -> list[str]:
    with pytest.raises(GatewayFileError) as caught:
        read_gateway(text)
    return [str(problem) for problem in caught.value.problems]


def test_the_articles_file() -> None:
    assert read_gateway(ARTICLE) == WHOLE
    assert WHOLE.settings().keys() == SETTINGS.keys()


def test_what_is_written_is_read_back() -> None:
    assert write_gateway(WHOLE) == ARTICLE
    for gateway in (NO_GATEWAY, Gateway(stream=False), Gateway(model="a: b", retry=0)):
        assert read_gateway(write_gateway(gateway)) == gateway


def test_nothing_is_nothing() -> None:
    for text in ("", "\n", "# only a comment", "{}", "inference:\ntools: {}"):
        assert read_gateway(text) == NO_GATEWAY


def test_tools_and_cache_may_stand_inside_inference() -> None:
    first, *others = ARTICLE.splitlines()
    depth = {"tools:": "  ", "cache:": "  "}
    inside, indent = [first], ""
    for line in others:
        indent = depth.get(line, indent)
        inside.append(indent + line)
    assert read_gateway("\n".join(inside)) == WHOLE


@pytest.mark.parametrize(
    "text",
    [
        "model: m\ntools: {retry: 1}",
        "inference: {model: m, tools: {retry: 1}}",
        '{"inference": {"model": "m"}, "tools": {"retry": 1}}',
    ],
    ids=["without inference", "inside inference", "JSON"],
)
def test_other_ways_to_write_it(text: str) -> None:
    assert read_gateway(text) == Gateway(model="m", retry=1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tols:\n  retry: 1", "Line 1: There is no setting “tols” here. Here may stand: infer"),
        ("tools:\n  retries: 1", "Line 2: There is no setting “retries” here. Here may stand: pa"),
        ("tools:\n  stream: true", "Line 2: There is no setting “stream” here."),
        ("tools:\n  retry: one", "Line 2: retry is one. Write a whole number from 0 to 100."),
        ("tools:\n  retry: -1", "Line 2: retry is -1. Write a whole number from 0 to 100."),
        ("tools:\n  retry: 1.5", "Line 2: retry is 1.5. Write a whole number"),
        ("tools:\n  retry: true", "Line 2: retry is true. Write a whole number"),
        ("tools:\n  timeout_ms: 0", "timeout_ms is 0. Write a whole number from 1 to 86,400,000."),
        ("tools:\n  timeout_ms: 0x10", "Line 2: timeout_ms is 0x10."),
        ("tools:\n  timeout_ms: 1:30", "Line 2: timeout_ms is 1:30."),
        ("tools:\n  timeout_ms: 3 s", "Line 2: timeout_ms is 3 s."),
        ("tools:\n  timeout_ms:", "Line 2: timeout_ms has no value. Write a whole number"),
        ("tools:\n  timeout_ms: [1]", "Line 2: timeout_ms has no value."),
        ("inference:\n  temperature: .nan", "Line 2: temperature is .nan. Write a number from 0"),
        ("inference:\n  temperature: 3", "Line 2: temperature is 3."),
        ("inference:\n  stream: maybe", "Line 2: stream is maybe. Write true or false."),
        ("inference:\n  stream: 1", "Line 2: stream is 1. Write true or false."),
        ("inference:\n  model: ''", "Line 2: model has no value. Write a text."),
        ("inference:\n  model: [a, b]", "Line 2: model has no value. Write a text."),
        ('inference:\n  model: "a\\nb"', "Line 2: model is no name."),
        ("inference:\n  endpoint: gateway", "Line 2: endpoint is no address of a gateway."),
        ("inference:\n  endpoint: http://g:99999/", "Line 2: endpoint is no address"),
        ("inference:\n  endpoint: http://me:secret@g/", "Leave them out: settings are no place"),
        ("inference:\n  endpoint: http://g/?key=secret", "Leave them out: settings are no place"),
        ("tools:\n  retry: 1\n  retry: 2", "Line 3: retry stands here a second time."),
        ("tools: {retry: 1}\ntools: {retry: 2}", "Line 2: tools stands here a second time."),
        ("- a", "Line 1: Here must stand names with values."),
        ("tools: 3", "Line 1: Here must stand names with values."),
        ("tools:\n\tretry: 1", "Line 2: This is no YAML: found character '\\t'"),
        ("? [a]\n: 1", "Line 1: There is no setting “?” here."),
        ("inference: &a\n  <<: *a", "Line 2: There is no setting “<<” here."),
        ("[" * 9_000, "Line 1: This is no YAML"),
        ("#" * (MAX_CHARS + 1), "Line 1: The text is longer than 10000 characters."),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, said: str) -> None:
    (problem,) = problems(text)
    assert said in problem


def test_a_secret_is_not_repeated_in_the_error() -> None:
    (problem,) = problems("endpoint: http://me:hunter2@gateway/")
    assert "hunter2" not in problem


def test_all_that_is_wrong_is_said_at_once() -> None:
    said = problems("tools:\n  retry: -1\ninference:\n  stream: maybe\n  speed: high")
    assert [problem.split(":")[0] for problem in said] == ["Line 2", "Line 4", "Line 5"]
