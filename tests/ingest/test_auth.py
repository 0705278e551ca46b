"""Which headers carry a key, and which keys open the door."""

from __future__ import annotations

import time

import pytest
from django.test import RequestFactory
from pytest_django import Settings

from ingest.auth import Caller, is_local, sent_key
from ingest.rpc import address_of
from tests import otlp
from tests.ingest.exporter import Exporter
from tests.otlp import PROTOBUF
from tracebudget import models


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({"Authorization": "Bearer tbi_x"}, "tbi_x"),
        ({"Authorization": "bearer  tbi_x "}, "tbi_x"),
        ({"x-api-key": " tbi_x"}, "tbi_x"),
        ({"Authorization": "Bearer tbi_x", "x-api-key": "tbi_y"}, "tbi_x"),
        ({"Authorization": "Basic dXNlcg==", "x-api-key": "tbi_y"}, "tbi_y"),
        ({"Authorization": "Bearer"}, ""),
        ({}, ""),
    ],
)
def test_a_key_comes_as_bearer_or_x_api_key(headers: dict[str, str], key: str) -> None:
    assert sent_key(RequestFactory().post("/v1/traces", headers=headers).headers) == key


def test_a_revoked_key_ends_within_the_time_that_the_setting_says(
    exporter: Exporter, settings: Settings
) -> None:
    settings.KEY_CACHE_SECONDS = 0.3
    assert exporter.send(b"", PROTOBUF).status_code == 200
    models.IngestKey.objects.update(revoked_at="2026-01-01T00:00:00Z")
    deadline = time.monotonic() + 0.3
    while exporter.send(b"", PROTOBUF).status_code == 200:
        assert time.monotonic() < deadline
    assert exporter.send(b"", PROTOBUF).status_code == 401


def test_only_the_whole_secret_counts_as_use(exporter: Exporter, settings: Settings) -> None:
    settings.KEY_CACHE_SECONDS = 0
    key = models.IngestKey.objects.get()
    assert exporter.send(b"", PROTOBUF, x_api_key=f"{exporter.secret}x").status_code == 401
    key.refresh_from_db()
    assert key.last_used_at is None
    assert exporter.send(b"", PROTOBUF).status_code == 200
    key.refresh_from_db()
    assert key.last_used_at is not None


# --- without a key ---


def send_without_key(exporter: Exporter, **headers: str) -> int:
    body = otlp.recorded(otlp.two_turns)
    return exporter.send(body, PROTOBUF, x_api_key="", **headers).status_code


def test_without_a_key_only_where_the_setting_names_a_project(
    exporter: Exporter, settings: Settings
) -> None:
    assert send_without_key(exporter) == 401
    settings.KEYLESS_PROJECT = "shop"
    assert send_without_key(exporter) == 200
    assert models.Trace.objects.get().project.slug == "shop"
    settings.KEYLESS_PROJECT = "gone"
    assert send_without_key(exporter) == 401


def test_a_wrong_key_is_no_missing_key(exporter: Exporter, settings: Settings) -> None:
    settings.KEYLESS_PROJECT = "shop"
    assert exporter.send(b"", PROTOBUF, x_api_key="tbi_000000000000_x").status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"x_forwarded_for": "203.0.113.7"},
        {"forwarded": "for=203.0.113.7"},
        {"origin": "https://evil.example"},
        {"sec_fetch_site": "cross-site"},
    ],
)
def test_without_a_key_not_through_a_proxy_and_not_from_a_page(
    exporter: Exporter, settings: Settings, headers: dict[str, str]
) -> None:
    settings.KEYLESS_PROJECT = "shop"
    assert send_without_key(exporter, **headers) == 401


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("192.168.0.7", False),
        ("2001:db8::1", False),
        ("", False),
        ("localhost", False),
    ],
)
def test_this_machine_is_known_by_its_address(address: str, expected: bool) -> None:
    assert is_local(Caller({}, address, models.Way.HTTP)) is expected


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:127.0.0.1:50000", "127.0.0.1"),
        ("ipv6:%5B::1%5D:50000", "::1"),
        ("ipv6:[2001:db8::1]:50000", "2001:db8::1"),
        ("unix:", ""),
    ],
)
def test_the_address_of_a_grpc_peer(peer: str, address: str) -> None:
    assert address_of(peer) == address
