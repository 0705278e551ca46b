"""Pages of settings: secrets are shown once, owners change things, somebody stays owner."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from tests.web.traces import AFTERWARDS, arrive, worked_example
from tracebudget import keys, models, store
from tracebudget.models import Fate, Place
from tracebudget.sign_in import redeem

KEYS, MEMBERS = "/p/shop/settings/keys/", "/p/shop/settings/members/"
PRIVACY, RECEIVED = "/p/shop/settings/privacy/", "/p/shop/settings/received/"
RETENTION, AUDIT = "/p/shop/settings/retention/", "/p/shop/settings/audit/"
PAGES = (KEYS, MEMBERS, PRIVACY, RECEIVED, RETENTION, AUDIT)


@pytest.fixture
def owner(client: Client, member: User) -> Client:
    models.Membership.objects.update(role=models.Role.OWNER)
    client.force_login(member)
    return client


def text(answer: Any) -> str:
    """The words of a page."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode()))


@pytest.mark.parametrize("address", PAGES)
def test_members_may_look_and_strangers_may_not(
    page: Client, stranger: Client, address: str
) -> None:
    assert page.get(address).status_code == 200
    assert stranger.get(address).status_code == 404


@pytest.mark.parametrize(
    ("address", "data"),
    [
        (KEYS, {"kind": "ingest", "ingest-name": "x"}),
        (MEMBERS, {"username": "eve", "role": "owner"}),
        (PRIVACY, {"privacy": "full"}),
    ],
)
def test_members_change_nothing(page: Client, address: str, data: dict[str, str]) -> None:
    assert page.post(address, data).status_code == 403


# --- keys ----------------------------------------------------------------------------------------


def make_key(owner: Client, **more: str) -> tuple[models.IngestKey, str]:
    data = {"kind": "ingest", "ingest-name": "production"} | more
    answer = owner.post(KEYS, data)
    assert answer.status_code == 200
    found = re.search(r"tbi_[0-9a-f]{12}_[\w-]+", answer.content.decode())
    assert found
    return models.IngestKey.objects.get(), found[0]


def test_secret_of_a_key_is_shown_once_and_works(owner: Client) -> None:
    row, secret = make_key(owner)
    assert keys.find_key(models.IngestKey, secret, now=timezone.now()) == row
    assert secret not in owner.get(KEYS).content.decode()
    assert f"{row.prefix}…" in owner.get(KEYS).content.decode()


def test_secret_is_kept_in_no_cache(owner: Client) -> None:
    answer = owner.post(KEYS, {"kind": "api", "api-name": "dashboard"})
    assert "tba_" in answer.content.decode()
    assert "no-store" in answer.headers["Cache-Control"]


def test_key_may_have_a_limit_of_its_own(owner: Client) -> None:
    row, _ = make_key(owner, **{"ingest-max_spans_per_second": "500"})
    assert row.max_spans_per_second == 500
    assert "≤ 500" in text(owner.get(KEYS))


def test_nameless_key_is_refused(owner: Client) -> None:
    assert owner.post(KEYS, {"kind": "ingest", "ingest-name": ""}).status_code == 400
    assert not models.IngestKey.objects.exists()


def test_revoked_key_opens_nothing_and_says_since_when(owner: Client) -> None:
    row, secret = make_key(owner)
    assert owner.post(f"{KEYS}ingest/{row.pk}/revoke/").status_code == 302
    assert keys.find_key(models.IngestKey, secret, now=timezone.now()) is None
    assert "revoked" in text(owner.get(KEYS))
    assert owner.post(f"{KEYS}ingest/{row.pk}/revoke/").status_code == 404


def test_key_of_another_project_cannot_be_revoked(owner: Client) -> None:
    other = models.Project.objects.create(slug="other", name="Other")
    row, _ = keys.create_key(other, "theirs", models.IngestKey)
    assert owner.post(f"{KEYS}ingest/{row.pk}/revoke/").status_code == 404
    assert owner.post(f"{KEYS}thing/{row.pk}/revoke/").status_code == 404


def test_last_use_is_told(owner: Client) -> None:
    make_key(owner)
    assert "never" in text(owner.get(KEYS))
    models.IngestKey.objects.update(last_used_at=AFTERWARDS)
    assert f"{AFTERWARDS:%Y-%m-%d %H:%M:%S}" in text(owner.get(KEYS))


# --- members -------------------------------------------------------------------------------------


def sign_in_link(answer: Any) -> str | None:
    found = re.search(r"/sign-in/([\w-]+)/", answer.content.decode())
    return found[1] if found else None


def test_new_member_gets_one_link_that_signs_in(owner: Client) -> None:
    token = sign_in_link(owner.post(MEMBERS, {"username": "noor", "role": "member"}))
    assert token
    user = redeem(token, now=timezone.now())
    assert user is not None
    assert user.username == "noor"
    assert user.memberships.get().role == models.Role.MEMBER


def test_somebody_who_is_here_already_is_added_without_a_link(owner: Client) -> None:
    """A link would sign the owner in as somebody else."""
    User.objects.create_user("sam", password="sesame open 1")
    answer = owner.post(MEMBERS, {"username": "sam", "role": "member"}, follow=True)
    assert sign_in_link(answer) is None
    assert "sam is a member now" in text(answer)


@pytest.mark.parametrize("reason", ["came", "belongs elsewhere", "has a password", "is staff"])
def test_no_link_is_made_to_an_account_in_use(
    owner: Client, project: models.Project, reason: str
) -> None:
    user = User.objects.create_user("sam")
    mine = models.Membership.objects.create(project=project, user=user)
    link = f"{MEMBERS}{mine.pk}/link/"
    assert owner.post(link).status_code == 200
    if reason == "came":
        User.objects.filter(pk=user.pk).update(last_login=timezone.now())
    elif reason == "belongs elsewhere":
        other = models.Project.objects.create(slug="other", name="Other")
        models.Membership.objects.create(project=other, user=user)
    elif reason == "has a password":
        user.set_password("sesame open 1")
        user.save()
    else:
        User.objects.filter(pk=user.pk).update(is_staff=True)
    assert owner.post(link).status_code == 404


def test_member_twice_is_refused(owner: Client) -> None:
    answer = owner.post(MEMBERS, {"username": "mia", "role": "member"})
    assert answer.status_code == 400
    assert "mia is a member already" in text(answer)


def test_last_owner_stays(owner: Client, member: User) -> None:
    mine = member.memberships.get()
    for action, data in (("role", {"role": "member"}), ("remove", {})):
        answer = owner.post(f"{MEMBERS}{mine.pk}/{action}/", data, follow=True)
        assert "the only owner" in text(answer)
    mine.refresh_from_db()
    assert mine.role == models.Role.OWNER


def test_owner_hands_over_and_leaves(owner: Client, member: User, project: models.Project) -> None:
    noor = models.Membership.objects.create(project=project, user=User.objects.create_user("noor"))
    owner.post(f"{MEMBERS}{noor.pk}/role/", {"role": "owner"})
    mine = member.memberships.get()
    assert owner.post(f"{MEMBERS}{mine.pk}/remove/").headers["Location"] == "/"
    assert models.Membership.objects.get().role == models.Role.OWNER
    assert owner.get(MEMBERS).status_code == 404


def test_member_of_another_project_is_out_of_reach(owner: Client) -> None:
    other = models.Project.objects.create(slug="other", name="Other")
    theirs = models.Membership.objects.create(project=other, user=User.objects.create_user("sam"))
    assert owner.post(f"{MEMBERS}{theirs.pk}/remove/").status_code == 404


# --- privacy, receipts, retention ----------------------------------------------------------------


def test_privacy_mode_is_changed(owner: Client, project: models.Project) -> None:
    answer = owner.post(PRIVACY, {"privacy": "masked"}, follow=True)
    assert "It holds for what arrives from now on" in text(answer)
    project.refresh_from_db()
    assert project.privacy == models.Privacy.MASKED


def test_unknown_privacy_mode_changes_nothing(owner: Client, project: models.Project) -> None:
    answer = owner.post(PRIVACY, {"privacy": "none"}, follow=True)
    assert "There is no such mode" in text(answer)
    project.refresh_from_db()
    assert project.privacy == models.Privacy.FULL


def test_receipts_tell_names_and_what_became_of_them(page: Client, project: models.Project) -> None:
    models.Receipt.objects.create(
        project=project, at=timezone.now(), way=models.Way.GRPC, signal=models.Signal.TRACES,
        privacy=project.privacy, export_count=2, span_count=7, refused={"no trace id": 1},
        repaired={"NUL characters": 3}, errors={},
        fates=[
            [Place.SPAN, "gen_ai.prompt", Fate.WITHHELD, 5], [Place.SPAN, "", Fate.LEFT_OUT, 1],
            [Place.SPAN, "gen_ai.request.model", Fate.KEPT, 7], [Place.NAME, "", Fate.KEPT, 7],
        ],
    )  # fmt: skip
    said = text(page.get(RECEIVED))
    for line in (
        "gRPC Traces Full 2 7 1 span no trace id 3 × NUL characters",
        "name Kept Withheld Left out",
        "Span name 7 Span attribute 7 5 1",
        "names that were not stored 1 gen_ai.prompt 5 gen_ai.request.model 7",
    ):
        assert line in said


def test_dry_run_tells_what_the_run_would_delete(page: Client, project: models.Project) -> None:
    old = timezone.now() - timedelta(days=400)
    store.store_spans(project, worked_example().spans, now=old)
    said = text(page.get(RETENTION))
    assert "requests 1 their spans 5 days of tables 1" in said
    assert models.Trace.objects.exists()


def test_pinned_request_is_kept_and_listed(page: Client, project: models.Project) -> None:
    (trace,) = arrive(project, worked_example())
    address = f"/p/shop/requests/{trace.trace_id.hex}/"
    answer = page.post(f"{address}pin/", follow=True)
    assert "retention passes this request by" in text(answer)
    assert address in page.get(RETENTION).content.decode()
    models.Trace.objects.update(day=timezone.now().date() - timedelta(days=400))
    assert store.prune(now=timezone.now(), dry_run=True).traces == 0
    page.post(f"{address}pin/")
    assert store.prune(now=timezone.now(), dry_run=True).traces == 1


def test_stranger_pins_nothing(stranger: Client, project: models.Project) -> None:
    (trace,) = arrive(project, worked_example())
    assert stranger.post(f"/p/shop/requests/{trace.trace_id.hex}/pin/").status_code == 404
    trace.refresh_from_db()
    assert trace.pinned_at is None


def test_audit_log_tells_who_changed_what(owner: Client) -> None:
    row, _ = make_key(owner)
    owner.post(f"{KEYS}ingest/{row.pk}/revoke/")
    owner.post(MEMBERS, {"username": "noor", "role": "member"})
    noor = models.Membership.objects.get(user__username="noor")
    owner.post(f"{MEMBERS}{noor.pk}/role/", {"role": "owner"})
    owner.post(f"{MEMBERS}{noor.pk}/remove/")
    owner.post(PRIVACY, {"privacy": "masked"})
    said = text(owner.get(AUDIT))
    lines = [
        "mia Privacy mode Full Masked",
        "mia Member noor Owner none",
        "mia Member noor Member Owner",
        "mia Member noor none Member",
        f"mia Ingest key production {row.prefix}… none",
        f"mia Ingest key production none {row.prefix}…",
    ]
    places = [said.find(line) for line in lines]
    assert -1 not in places
    assert places == sorted(places)  # the latest first


def test_what_was_refused_is_not_in_the_audit_log(owner: Client, member: User) -> None:
    mine = models.Membership.objects.get(user=member)
    owner.post(f"{MEMBERS}{mine.pk}/remove/")
    owner.post(PRIVACY, {"privacy": "full"})  # as it is
    assert not models.ProjectChange.objects.exists()


# --- one's own -----------------------------------------------------------------------------------


def test_password_is_set_and_later_needs_the_old_one(page: Client, member: User) -> None:
    first = {"new_password1": "sesame open 1", "new_password2": "sesame open 1"}
    assert page.post("/account/", first).status_code == 302
    second = {"new_password1": "sesame open 2", "new_password2": "sesame open 2"}
    assert page.post("/account/", second).status_code == 400
    assert page.post("/account/", second | {"old_password": "sesame open 1"}).status_code == 302
    assert page.get("/p/shop/").status_code == 200  # this session stays
    member.refresh_from_db()
    assert member.check_password("sesame open 2")


def test_projects_page_tells_which_one_burns(page: Client, project: models.Project) -> None:
    quiet = models.Project.objects.create(slug="quiet", name="Quiet")
    models.Membership.objects.create(project=quiet, user=User.objects.get(username="mia"))
    arrive(project, worked_example())
    models.Alert.objects.create(
        project=project, app_name="shop", metric="turn", limit=1, objective=95,
        opened_at=AFTERWARDS, judged_at=AFTERWARDS, judged=1, over=1, worst=2, evidence=[],
    )  # fmt: skip
    assert page.get("/").headers["Location"] == "/projects/"
    said = text(page.get("/projects/"))
    assert "Quiet waits for its first trace 0 —" in said
    assert "Shop 1 alert fires 1 2026-01-01 12:00:00" in said


def test_owner_makes_a_project_of_her_own(owner: Client, member: User) -> None:
    answer = owner.post("/projects/", {"name": "Søk & Finn"})
    assert answer.headers["Location"] == "/p/sk-finn/setup/"
    made = models.Project.objects.get(slug="sk-finn")
    assert made.privacy == models.Privacy.TIMINGS_ONLY
    assert made.memberships.get().user == member
    assert owner.get("/p/sk-finn/settings/members/").status_code == 200


@pytest.mark.parametrize("name", ["Shop", "shop!", "商店", "x" * 100])
def test_address_of_a_new_project_is_free(owner: Client, name: str) -> None:
    for _ in range(2):
        assert owner.post("/projects/", {"name": name}).status_code == 302
    assert models.Project.objects.count() == 3
    assert all(len(project.slug) <= 50 for project in models.Project.objects.all())


def test_member_makes_no_project(page: Client) -> None:
    assert page.post("/projects/", {"name": "Mine"}).status_code == 403
    assert "Make a new project" not in page.get("/projects/").content.decode()
