"""An exporter in the tests' hands: sends a body, reads the answer in whatever type it comes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from django.http import HttpResponse
from django.test import Client
from django.utils import timezone
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tests.otlp import JSON
from tracebudget import pipeline


@dataclass(frozen=True)
class Exporter:
    client: Client
    secret: str

    def send(
        self, body: bytes, content_type: str = JSON, *, path: str = "/v1/traces", **headers: str
    ) -> HttpResponse:
        """POST; a header is named with `_` for `-`, and one set to "" is not sent."""
        named = {"x-api-key": self.secret} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        sent = {name: value for name, value in named.items() if value}
        return cast(
            HttpResponse,
            # The client leaves the type of an empty body out, unless told as here.
            self.client.generic("POST", path, body, headers=sent, CONTENT_TYPE=content_type),
        )


def analyse_all() -> int:
    """Analyse what was stored until now, as if its quiet time were over; how many traces."""
    later = timezone.now() + timedelta(hours=1)
    return pipeline.analyze_due(lambda: later)


def rejected(response: HttpResponse) -> int:
    """`partial_success.rejected_spans` of a 200."""
    assert response.status_code == 200, response.content
    if response.headers["Content-Type"] != JSON:
        answer = ExportTraceServiceResponse.FromString(response.content)
        return int(answer.partial_success.rejected_spans)
    return int(partial_success(response).get("rejectedSpans", "0"))


def partial_success(response: HttpResponse) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(response.content).get("partialSuccess", {})
    return found


def error_message(response: HttpResponse) -> str:
    """The message of the google.rpc.Status in an error's body."""
    assert response.status_code >= 400
    if response.headers["Content-Type"] == JSON:
        return str(json.loads(response.content)["message"])
    return str(Status.FromString(response.content).message)
