"""Secrets planted anywhere reach no table, answer, log, figure or page.

Everything the database holds is searched, inflated, after the export was analysed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db.models import BinaryField
from django.http import HttpResponse
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest import receipts
from tests.ingest import planting
from tests.ingest.exporter import Exporter, analyse_all
from tests.ingest.planting import SHAPES, Place
from tests.otlp import JSON, TRACE_ID
from tracebudget import keys, models
from tracebudget import settings as web_settings
from tracebudget.core.dialects import FACT_KEYS
from tracebudget.core.dialects.facts import LIFTED
from tracebudget.models import Privacy
from tracebudget.packing import decompress, unpack_spans

FREE = "Quagga Zanzibar"  # as a person says it: no form gives it away
# What has a form, and of each the part that must not survive.
FORMED = {
    "mail": ("quagga.zanzibar@example.com", "quagga.zanzibar"),
    "OpenAI key": ("sk-proj-quagga4711zanzibar0815x", "quagga4711"),
    "AWS key": ("AKIAQUAGGA4711ZANZIB", "QUAGGA4711"),
    "GitHub token": ("ghp_quagga4711zanzibar0815quagga4711", "quagga4711"),
    "JSON web token": (
        "eyJxdWFnZ2EiOiJ6YW56aWJhciJ9.eyJxdWFnZ2EiOjF9.c2lnbmF0dXJl",
        "eyJxdWFnZ2Ei",
    ),
    "credentials in a URL": ("https://quagga:zanzibar4711@shop.example/x", "zanzibar4711"),
    "bearer": ("Bearer quagga4711.zanzibar0815", "quagga4711"),
    "password in a query": ("/login?password=zanzibar4711", "zanzibar4711"),
}
# These are found in texts, but not in facts: ids are full of such numbers.
NUMBERED = {
    "card": ("4111 1111 1111 1111", "1111 1111"),
    "IBAN": ("DE89 3704 0044 0532 0130 00", "0532 0130"),
    "phone": ("+49 170 1234567", "1234567"),
    "address": ("203.0.113.77", "113.77"),
    "home": ("/home/quagga/app.py", "quagga"),
    "SSN": ("536-90-4399", "90-4399"),
}

planted = settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

# --- where it is planted ---

shapes = st.sampled_from(sorted(SHAPES))


@st.composite
def carried(draw: st.DrawFn, secret: str, names: list[str], shape: str = "") -> Place:
    """The secret as a value, in some shape, in any part that has attributes."""
    value = SHAPES[shape or draw(shapes)](secret)
    key = draw(st.sampled_from(names))
    return draw(
        st.sampled_from(
            [
                planting.attribute(key, value, draw(st.integers(0, 4))),
                planting.event("exception", key, value),
                planting.event("gen_ai.choice", key, value),
                planting.link(key, value),
                planting.of_sender("scope", key, value),
            ]
        )
    )


def named_places(secret: str) -> list[Place]:
    """The secret as a name, or as a text that belongs to the span itself."""
    return [
        planting.attribute(f"note of {secret}", {"intValue": 1}),
        planting.event(f"told {secret}", "n", {"intValue": 1}),
        planting.field("traceState", f"v={secret}"),
        planting.field("status", {"code": 2, "message": f"no such {secret}"}),
        planting.field("name", f"GET /find?q={secret.replace(' ', '+')}"),
        planting.field("name", f"two\nlines: {secret}"),
        planting.scope_name(f"two\nlines: {secret}"),
    ]


def named(secret: str) -> st.SearchStrategy[Place]:
    return st.sampled_from(named_places(secret))


def of_sender(secret: str) -> st.SearchStrategy[Place]:
    return st.builds(
        planting.of_sender,
        st.just("resource"),
        st.sampled_from([*planting.SENDERS, *planting.PERSONS]),
        shapes.map(lambda shape: SHAPES[shape](secret)),
    )


free_places = st.lists(
    carried(FREE, planting.CONTENT_KEYS)
    | carried(FREE, planting.PERSONS)
    | carried(FREE, sorted(FACT_KEYS), "long text")
    | named(FREE)
    | of_sender(FREE),
    min_size=1,
    max_size=4,
)


@st.composite
def formed_places(draw: st.DrawFn, kinds: dict[str, tuple[str, str]]) -> tuple[bytes, str]:
    """An export with a secret of some kind, and the part of it to look for."""
    secret, part = kinds[draw(st.sampled_from(sorted(kinds)))]
    names = [*planting.CONTENT_KEYS, *planting.PERSONS]
    if kinds is FORMED:
        names += sorted(FACT_KEYS)
    places = [draw(carried(secret, names) | named(secret) | of_sender(secret))]
    places.append(planting.field("name", f"call {secret}"))
    if kinds is FORMED:
        places.append(planting.of_sender("resource", "service.owner", {"stringValue": secret}))
    return planting.export_with(*places), part


# --- where it must not be ---


def rows() -> Iterator[str]:
    """Every field of every row, with what is packed in it unpacked."""
    for model in apps.get_models():
        for row in model._default_manager.all():
            for column in row._meta.concrete_fields:
                value = getattr(row, column.attname)
                if isinstance(column, BinaryField):
                    value = bytes(value)
                yield repr(value)
            if isinstance(row, models.SpanBatch):
                yield decompress(row.payload).decode()
            if isinstance(row, models.Analysis):
                yield decompress(bytes(row.document)).decode()


def send_and_analyse(exporter: Exporter, body: bytes, privacy: Privacy) -> HttpResponse:
    for model in (models.Analysis, models.SpanBatch, models.Trace, models.App, models.Receipt):
        model._default_manager.all().delete()
    models.Project.objects.update(privacy=privacy)
    keys.forget_all()
    response = exporter.send(body, JSON)
    assert response.status_code == 200
    assert analyse_all() == 1
    assert models.Analysis.objects.count() == 1
    assert models.Receipt.objects.exists()
    return response


def assert_gone(parts: Iterable[str], texts: Iterable[str]) -> None:
    found = [text for text in texts for part in parts if part.lower() in text.lower()]
    assert found == []


@pytest.fixture(autouse=True)
def _receipts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts, "EVERY", timedelta(0))


@given(free_places)
@planted
def test_no_free_text_survives_timings_only(
    exporter: Exporter, caplog: pytest.LogCaptureFixture, places: list[Place]
) -> None:
    body = planting.export_with(*places)
    response = send_and_analyse(exporter, body, Privacy.TIMINGS_ONLY)
    assert_gone(["quagga", "zanzibar"], [*rows(), response.content.decode(), caplog.text])


def test_no_name_survives_timings_only(
    exporter: Exporter, caplog: pytest.LogCaptureFixture
) -> None:
    for place in named_places(FREE):
        response = send_and_analyse(exporter, planting.export_with(place), Privacy.TIMINGS_ONLY)
        assert_gone(["quagga", "zanzibar"], [*rows(), response.content.decode(), caplog.text])


@given(formed_places(FORMED))
@planted
def test_no_secret_survives_timings_only(
    exporter: Exporter, caplog: pytest.LogCaptureFixture, planted_one: tuple[bytes, str]
) -> None:
    body, part = planted_one
    response = send_and_analyse(exporter, body, Privacy.TIMINGS_ONLY)
    assert_gone([part], [*rows(), response.content.decode(), caplog.text])


@given(formed_places(FORMED) | formed_places(NUMBERED))
@planted
def test_nothing_in_the_table_of_masks_survives_masked(
    exporter: Exporter, caplog: pytest.LogCaptureFixture, planted_one: tuple[bytes, str]
) -> None:
    body, part = planted_one
    response = send_and_analyse(exporter, body, Privacy.MASKED)
    assert_gone([part], [*rows(), response.content.decode(), caplog.text])


# --- what people and programs see of it ---

EVERYWHERE = [
    *(
        planting.attribute(key, SHAPES[shape](FREE))
        for key in (*planting.CONTENT_KEYS, *planting.PERSONS)
        for shape in ("messages", "tool call")
    ),
    planting.event("exception", "exception.message", {"stringValue": FREE}),
    planting.event("gen_ai.choice", "message", SHAPES["tool call"](FREE)),
    planting.link("note", {"stringValue": FREE}),
    planting.of_sender("resource", "process.owner", {"stringValue": FREE}),
    planting.of_sender("scope", "owner", {"stringValue": FREE}),
    planting.field("status", {"code": 2, "message": FREE}),
    planting.field("traceState", f"v={FREE}"),
]
PAGES = [
    *("", "requests/", f"requests/{TRACE_ID}/", f"requests/{TRACE_ID}/rows/"),
    *(f"requests/{TRACE_ID}/spans/", "status/", "settings/received/"),
]


@pytest.fixture
def seen(
    exporter: Exporter, settings: Any, static_files: None, project: models.Project
) -> dict[str, str]:
    """What each page, the API and the figures show of a request that is full of a secret."""
    send_and_analyse(exporter, planting.export_with(*EVERYWHERE), Privacy.TIMINGS_ONLY)
    settings.ROOT_URLCONF = web_settings.ROOT_URLCONF  # from here on the web port
    settings.MIDDLEWARE = web_settings.MIDDLEWARE
    user = User.objects.create_user("jo")
    models.Membership.objects.create(project=project, user=user, role=models.Role.OWNER)
    client = Client()
    client.force_login(user)
    addresses = [f"/p/shop/{page}" for page in PAGES]
    addresses += ["/metrics", f"/api/v1/projects/shop/requests/{TRACE_ID}"]
    answers = {address: client.get(address, follow=True) for address in addresses}
    assert {answer.status_code for answer in answers.values()} == {200}
    return {address: answer.content.decode() for address, answer in answers.items()}


def digests() -> set[str]:
    """All that are stored beside values that are not."""
    spans = unpack_spans(decompress(models.SpanBatch.objects.get().payload))
    lifted = [span.attributes.get(LIFTED, {}) for span in spans]
    found = {digest for facts in lifted for digest in facts.get("prompt", ())}
    for span in spans:
        for value in [*span.attributes.values(), *span.resource.values()]:
            if isinstance(value, dict) and "digest" in value:
                found.add(value["digest"])
    return found


def test_pages_api_and_figures_show_no_secret_and_no_digest(seen: dict[str, str]) -> None:
    assert len(digests()) >= 3
    for address, text in seen.items():
        assert "quagga" not in text.lower(), address
        assert not [digest for digest in digests() if digest in text], address


def test_errors_do_not_repeat_what_was_sent(
    exporter: Exporter, caplog: pytest.LogCaptureFixture
) -> None:
    span = {"traceId": FREE, "spanId": FREE, "name": {FREE: FREE}, "kind": FREE}
    frames = [{"scopeSpans": FREE}, {"resource": FREE, "scopeSpans": [{"scope": FREE}]}, FREE]
    bodies = [
        json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span, FREE]}]}, *frames]}),
        json.dumps({"resourceSpans": FREE}),
        f'{{"resourceSpans": [{FREE}]}}',
        f'"{FREE}"',
        FREE,
    ]
    answers = [exporter.send(body.encode(), JSON).content.decode() for body in bodies]
    assert_gone(["quagga"], [*answers, *rows(), caplog.text])
