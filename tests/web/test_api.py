"""The HTTP API: by token or session, the same object as everywhere."""

from __future__ import annotations

import json

import pytest
from django.test import Client
from django.urls import reverse

from tests.web.traces import ARRIVAL, arrive, serial_tools, worked_example
from tracebudget import models, store
from tracebudget.core.analysis import analyze
from tracebudget.document import dumps
from tracebudget.keys import create_key
from tracebudget.queries.traces import PAGE_SIZE

LIST = "/api/v1/projects/shop/requests"


@pytest.fixture
def token(project: models.Project) -> dict[str, str]:
    _row, secret = create_key(project, "tests", models.ApiToken)
    return {"Authorization": f"Bearer {secret}"}


def test_request_is_the_object_that_the_core_makes(
    client: Client, project: models.Project, token: dict[str, str]
) -> None:
    recorder = worked_example()
    arrive(project, recorder)
    answer = client.get(f"{LIST}/{recorder.trace_id}", headers=token)
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.content == dumps(analyze(recorder.spans, project="shop").document())


def test_list_has_summaries_and_an_opaque_next(
    client: Client, project: models.Project, token: dict[str, str]
) -> None:
    arrive(project, *(worked_example(n, at_ms=n) for n in range(1, PAGE_SIZE + 3)))
    first = client.get(LIST, headers=token).json()
    assert len(first["requests"]) == PAGE_SIZE
    second = client.get(LIST, {"after": first["next"]}, headers=token).json()
    assert second["next"] is None
    ids = [row["trace_id"] for row in first["requests"] + second["requests"]]
    assert ids == [f"{n:032x}" for n in range(PAGE_SIZE + 2, 0, -1)]
    assert (
        second["requests"][-1] | {"app": "shop", "end_to_end_ns": 461_000_000}
        == second["requests"][-1]
    )


def test_list_takes_the_filter_of_the_page(
    client: Client, project: models.Project, token: dict[str, str]
) -> None:
    arrive(project, worked_example(1), serial_tools(2))
    found = client.get(LIST, {"finding": "serial_tools"}, headers=token).json()["requests"]
    assert [row["trace_id"] for row in found] == [f"{2:032x}"]


@pytest.mark.parametrize("path", ["", f"/{1:032x}"])
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer tba_123456789abc_wrong"}])
def test_without_a_good_token_or_session(
    client: Client, project: models.Project, path: str, headers: dict[str, str]
) -> None:
    answer = client.get(LIST + path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert answer.json()["error"]["status"] == 401


def test_ingest_key_reads_nothing(client: Client, project: models.Project) -> None:
    _row, secret = create_key(project, "exporter", models.IngestKey)
    answer = client.get(LIST, headers={"Authorization": f"Bearer {secret}"})
    assert answer.status_code == 401


def test_token_of_one_project_opens_no_other(
    client: Client, project: models.Project, token: dict[str, str]
) -> None:
    other = models.Project.objects.create(slug="other", name="Other")
    arrive(other, worked_example())
    address = reverse("api_request", args=["other", f"{1:032x}"])
    assert client.get(address, headers=token).status_code == 404


@pytest.mark.parametrize(
    ("query", "said"), [({"longer": "4"}, "filter"), ({"after": "x"}, "not made by this server")]
)
def test_nonsense_is_answered_in_json(
    client: Client, project: models.Project, token: dict[str, str], query: dict[str, str], said: str
) -> None:
    answer = client.get(LIST, query, headers=token)
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]


def test_unknown_request_and_unknown_address_are_answered_in_json(
    client: Client, project: models.Project, token: dict[str, str]
) -> None:
    for address in (f"{LIST}/{9:032x}", "/api/v1/nothing"):
        answer = client.get(address, headers=token)
        assert answer.status_code == 404
        assert json.loads(answer.content)["error"]["status"] == 404


def test_request_that_waits_is_not_found_yet(
    client: Client, project: models.Project, token: dict[str, str]
) -> None:
    store.store_spans(project, worked_example().spans, now=ARRIVAL)
    answer = client.get(f"{LIST}/{1:032x}", headers=token)
    assert answer.status_code == 404
    assert "waits for its analysis" in answer.json()["error"]["message"]
