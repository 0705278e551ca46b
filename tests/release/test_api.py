"""The gate over HTTP: for CI that has a token and no shell."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from tests.release.requests import send
from tracebudget import models
from tracebudget.keys import create_key

GATE = "/api/v1/projects/default/apps/shop/gate"


@pytest.fixture
def token(project: models.Project) -> dict[str, str]:
    _row, secret = create_key(project, "tests", models.ApiToken)
    return {"Authorization": f"Bearer {secret}"}


@pytest.fixture
def two_releases(shop: models.App) -> models.App:
    send(shop, "1.0")
    call_command("baseline", "shop")
    send(shop, "2.0", ms=1500)
    return shop


def asked(client: Client, token: dict[str, str], **query: str) -> dict[str, Any]:
    answer = client.get(GATE, query, headers=token)
    assert answer.status_code == 200
    document: dict[str, Any] = answer.json()
    return document


@pytest.mark.usefixtures("two_releases")
def test_it_is_what_the_command_says(client: Client, token: dict[str, str]) -> None:
    document = asked(client, token)
    assert (document["verdict"], document["release"]) == ("fail", "2.0")
    assert document["baseline"]["release"] == "1.0"
    assert asked(client, token, tolerance="60")["verdict"] == "pass"
    assert asked(client, token, release="1.0")["baseline"] is None
    assert asked(client, token, release="1.0", unknown="pass")["verdict"] == "pass"
    assert asked(client, token, release="1.0", baseline="1.0")["verdict"] == "pass"


@pytest.mark.usefixtures("two_releases")
@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"release": "9"}, 404),
        ({"baseline": "9"}, 404),
        ({"environment": "nowhere"}, 404),
        ({"release": "a\x00"}, 400),
        ({"tolerance": "much"}, 400),
        ({"tolerance": "nan"}, 400),
        ({"tolerance": "101"}, 400),
        ({"unknown": "maybe"}, 400),
    ],
)
def test_what_makes_no_sense(
    client: Client, token: dict[str, str], query: dict[str, str], status: int
) -> None:
    answer = client.get(GATE, query, headers=token)
    assert answer.status_code == status
    assert answer.headers["Content-Type"] == "application/json"


def test_who_may_ask(client: Client, token: dict[str, str], shop: models.App) -> None:
    assert client.get(GATE).status_code == 401
    theirs = models.Project.objects.create(slug="theirs", name="Theirs")
    models.App.objects.create(project=theirs, name="secret", slug="secret")
    for address in (
        GATE.replace("/default/", "/theirs/").replace("shop", "secret"),
        GATE.replace("shop", "secret"),
    ):
        assert client.get(address, headers=token).status_code == 404
    assert client.post(GATE, headers=token).status_code == 405
