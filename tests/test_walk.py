"""The walk: bytes of the real OpenTelemetry SDK, through the running product, to the waterfall."""

from __future__ import annotations

import http.cookiejar
import json
import re
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests import otlp
from tests.running import RunningUp

EXPECTED = Path(__file__).parent / "fixtures" / "worked_example.expected.json"
CALLS = ("model_call", "tool_call")
ANALYSIS_SECONDS = 30  # the quiet period is 2 s, a tick 1 s; CI machines are busy


@pytest.fixture(scope="module")
def trace_id(product: RunningUp) -> str:
    """The worked example, taken in by the product."""
    body = otlp.recorded(otlp.two_turns, service="walk-agent")
    request = urllib.request.Request(
        f"{product.otlp_url}/v1/traces",
        data=body,
        headers={
            "Content-Type": otlp.PROTOBUF,
            "Authorization": f"Bearer {product.credentials['ingest_key']}",
        },
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200
    export = ExportTraceServiceRequest.FromString(body)
    return export.resource_spans[0].scope_spans[0].spans[0].trace_id.hex()


@pytest.fixture(scope="module")
def document(product: RunningUp, trace_id: str) -> dict[str, Any]:
    """Its analysis object, as soon as a worker has made it."""
    request = urllib.request.Request(
        f"{product.url}/api/v1/projects/default/requests/{trace_id}",
        headers={"Authorization": f"Bearer {product.credentials['api_token']}"},
    )
    deadline = time.monotonic() + ANALYSIS_SECONDS
    while True:
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                found: dict[str, Any] = json.load(answer)
            return found
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 404:  # 404: not analysed yet
                raise
        assert time.monotonic() < deadline, f"{trace_id} was not analysed"
        time.sleep(0.2)


def test_the_worker_says_of_it_what_the_core_says(document: dict[str, Any]) -> None:
    expected = json.loads(EXPECTED.read_text())
    assert document["segments"] == expected["segments"]
    assert document["end_to_end_ns"] == expected["end_to_end_ns"]
    turns = [(turn["duration_ns"], turn["segments"]) for turn in document["turns"]]
    assert turns == [(turn["duration_ns"], turn["segments"]) for turn in expected["turns"]]


def test_each_call_has_its_row(product: RunningUp, trace_id: str, document: dict[str, Any]) -> None:
    browser = urllib.request.build_opener(
        urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    )
    browser.open(product.manage("sign_in_link").stdout.strip(), timeout=30).close()
    with browser.open(f"{product.url}/p/default/requests/{trace_id}/", timeout=30) as page:
        html = page.read().decode()
    drawn = re.findall(r'data-span="([0-9a-f]{16})"', html)
    calls = [step["span_id"] for step in document["steps"] if step["kind"] in CALLS]
    assert len(calls) == 4
    assert {*calls} <= {*drawn}
