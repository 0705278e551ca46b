"""Members see their projects; strangers learn nothing, not even that there is something."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import reverse

from tests.web.traces import arrive, worked_example
from tracebudget import models

TRACE, SPAN = f"{1:032x}", f"{1:016x}"
PAGES = {
    "apps": ["shop"],
    "app": ["shop", "shop"],
    "budgets": ["shop", "shop"],
    "declared": ["shop", "shop"],
    "findings": ["shop", "shop"],
    "release": ["shop", "shop"],
    "requests": ["shop"],
    "request": ["shop", TRACE],
    "request_rows": ["shop", TRACE],
    "request_spans": ["shop", TRACE],
    "request_span": ["shop", TRACE, SPAN],
    "api_requests": ["shop"],
    "api_request": ["shop", TRACE],
}


@pytest.fixture(autouse=True)
def _a_request(project: models.Project) -> None:
    arrive(project, worked_example())


@pytest.mark.parametrize("name", PAGES)
def test_member_sees_it(page: Client, name: str) -> None:
    assert page.get(reverse(name, args=PAGES[name])).status_code == 200


@pytest.mark.parametrize("name", PAGES)
def test_stranger_gets_404(stranger: Client, name: str) -> None:
    assert stranger.get(reverse(name, args=PAGES[name])).status_code == 404


@pytest.mark.parametrize("name", [name for name in PAGES if not name.startswith("api")])
def test_whoever_is_not_signed_in_is_asked_to(client: Client, name: str) -> None:
    address = reverse(name, args=PAGES[name])
    answer = client.get(address)
    assert answer.status_code == 302
    assert answer.headers["Location"] == f"{reverse('sign_in')}?next={address}"


def test_a_request_of_another_project_is_not_found(
    page: Client, member: object, project: models.Project
) -> None:
    """Two projects may hold the same trace id."""
    theirs = models.Project.objects.create(slug="theirs", name="Theirs")
    arrive(theirs, worked_example(2))
    assert page.get(reverse("request", args=["shop", f"{2:032x}"])).status_code == 404
    assert page.get(reverse("request", args=["theirs", f"{2:032x}"])).status_code == 404


def test_home_leads_the_member_of_one_project_there(page: Client) -> None:
    assert page.get("/").headers["Location"] == reverse("apps", args=["shop"])


def test_home_lists_several_projects(page: Client, member: object) -> None:
    second = models.Project.objects.create(slug="second", name="Second")
    models.Membership.objects.create(
        project=second, user_id=models.Membership.objects.get().user_id
    )
    assert b"/p/second/" in page.get("/", follow=True).content


@pytest.mark.parametrize(
    ("name", "said"),
    [("apps", "Apps"), ("app", "Apps"), ("request", "Requests"), ("request_spans", "Requests")],
)
def test_one_section_is_marked_as_where_we_are(page: Client, name: str, said: str) -> None:
    html = page.get(reverse(name, args=PAGES[name])).content.decode()
    assert re.findall(r'aria-current="page">([^<]+)<', html) == [said]
