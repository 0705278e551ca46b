"""Error pages: what, why, what next; and the 500 that needs nothing."""

from __future__ import annotations

import json

from django.test import Client, RequestFactory

from tracebudget.web import errors


def test_not_found_leads_back(page: Client) -> None:
    answer = page.get("/p/nothing/")
    assert answer.status_code == 404
    content = answer.content.decode()
    assert "There is nothing at this address that you may see." in content
    assert 'href="/"' in content


def test_form_without_its_token_says_what_to_do(page: Client, project: object) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = page.cookies
    answer = strict.post("/sign-out/")
    assert answer.status_code == 403


def test_stale_form_is_told_to_reload(rf: RequestFactory) -> None:
    answer = errors.csrf_failure(rf.post("/p/shop/"))
    assert answer.status_code == 403
    assert b"Go back, reload" in answer.content


def test_server_error_needs_no_database_and_no_base_template(rf: RequestFactory) -> None:
    """This test may not touch the database, and so may not the page."""
    answer = errors.server_error(rf.get("/p/shop/"))
    assert answer.status_code == 500
    assert b"The server failed" in answer.content
    assert b"<header" not in answer.content


def test_server_error_of_the_api_is_json(rf: RequestFactory) -> None:
    answer = errors.server_error(rf.get("/api/v1/projects/shop/requests"))
    assert json.loads(answer.content)["error"]["status"] == 500
