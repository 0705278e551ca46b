"""Which headers carry a key, and which keys open the door."""

from __future__ import annotations

import pytest
from django.test import RequestFactory

from ingest.auth import sent_key


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
