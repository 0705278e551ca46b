"""`manage.py demo` in the whole product: a first start fills it, one command empties it."""

from __future__ import annotations

import re
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from html import unescape
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

from tests.demo.conftest import Seen
from tests.running import RunningUp
from tracebudget.demo import coding, nightly, support
from tracebudget.web.forms import parse_duration
from tracebudget.wording import finding_title

FULL_WITHIN_SECONDS = 120  # what we promise of a first start on two cores
LEARNT_WITHIN_SECONDS = 120  # what is usual in an app, and what its requests are by that


class Reader:
    """Somebody who came by the sign-in link."""

    def __init__(self, up: RunningUp) -> None:
        self.up = up
        cookies = urllib.request.HTTPCookieProcessor(CookieJar())
        self.opener = urllib.request.build_opener(cookies, urllib.request.ProxyHandler({}))
        self.read(up.credentials["sign_in_url"])

    def read(self, address: str) -> str:
        url = address if address.startswith("http") else self.up.url + address
        with self.opener.open(url, timeout=20) as answer:
            text: str = answer.read().decode()
        return text


@pytest.fixture(scope="module")
def up() -> Iterator[RunningUp]:
    """A first start as `make run` does it, its demo analysed."""
    with tempfile.TemporaryDirectory(prefix="tb-demo-") as directory:
        running = RunningUp(Path(directory))
        try:
            running.start()
            running.wait_for("Look at ", seconds=FULL_WITHIN_SECONDS)
            yield running
        finally:
            running.stop()


@pytest.fixture(scope="module")
def reader(up: RunningUp) -> Reader:
    return Reader(up)


def test_its_progress_is_shown(up: RunningUp, day: list[Seen]) -> None:
    total = f"{len(day):,}"
    assert any(f"[####################] {total} of {total} sent" in line for line in up.lines)
    assert any(f"[####################] {total} of {total} analysed" in line for line in up.lines)


@pytest.mark.parametrize("app", [support.APP, coding.APP, nightly.APP])
def test_an_apps_page_names_its_faults_and_no_other(
    app: str, reader: Reader, day: list[Seen]
) -> None:
    """In the order of the time that they cost; those that only point onwards come last."""
    planted = frozenset().union(*(s.request.codes for s in day if s.request.app == app))
    until, said = time.monotonic() + LEARNT_WITHIN_SECONDS, first_things(reader, app)
    while {code for code, _ in said} != planted and time.monotonic() < until:
        time.sleep(2)
        said = first_things(reader, app)
    assert {code for code, _ in said} == planted
    assert len(said) == len(planted)
    lost = [ns for _, ns in said]
    assert lost == sorted(lost, reverse=True)


def first_things(reader: Reader, app: str) -> list[tuple[str, int]]:
    """The findings of an app's page, with the time lost, in ns, that their row shows."""
    page = unescape(reader.read(f"/p/demo/apps/{app}/?range=all"))
    card = re.search("What to do first.*?</section>", page, re.DOTALL)
    assert card is not None
    rows = re.findall("<tr>.*?</tr>", card[0], re.DOTALL)[1:]
    return [(code_of(row), lost_in(row)) for row in rows]


def code_of(row: str) -> str:
    found = re.search(r"finding=(\w+)&", row)
    assert found is not None
    assert finding_title(found[1]) in row
    return found[1]


def lost_in(row: str) -> int:
    """0 for a dash: a finding that saves nothing by itself."""
    said = re.search(r'data-label="time lost">([^<]*)<', row)
    assert said is not None
    return 0 if said[1] == "—" else parse_duration(said[1])


def test_the_gate_stops_the_release_that_lost_its_parallel_tools(reader: Reader) -> None:
    page = unescape(reader.read(f"/p/demo/apps/{support.APP}/release/"))
    assert f"against release {support.OLD_RELEASE} and the budgets" in page
    assert "would fail" in page
    grown = re.findall(r"finding=(\w+)\">([^<]+)</a></li>", page)
    assert [code for code, _ in grown][:3] == ["serial_tools"] * 3  # what cost the most comes first


def test_what_is_declared_is_held_against_the_day(reader: Reader) -> None:
    page = unescape(reader.read(f"/p/demo/apps/{support.APP}/declared/"))
    states = {
        setting[1]: state[1]
        for row in page.split("<tr>")
        if (setting := re.search(r"<code>\w+\.(\w+)</code>", row))
        and (state := re.search(r"(confirmed|contradicted|unseen)</span>", row))
    }
    assert states["parallel"] == "contradicted"
    assert states["prefix_cache"] == "confirmed"
    assert states["temperature"] == "unseen"


def test_a_second_day_needs_the_first_one_gone(up: RunningUp) -> None:
    refused = up.manage("demo")
    assert refused.returncode != 0
    assert "manage.py demo --remove" in refused.stderr


def test_removing_leaves_nothing_behind(up: RunningUp, reader: Reader, day: list[Seen]) -> None:
    assert f"Removed {len(day):,} requests." in up.manage("demo", "--remove").stdout
    with pytest.raises(urllib.error.HTTPError, match="404"):
        reader.read("/p/demo/")
    assert "There was no demo." in up.manage("demo", "--remove").stdout
    left = up.manage("shell", "--no-imports", "-c", COUNT_ROWS)
    assert left.stdout.strip() == "{}", left.stderr


COUNT_ROWS = """
from django.apps import apps
own = {m: m._default_manager.count() for m in apps.get_app_config("tracebudget").get_models()}
keep = {"Project", "Membership", "IngestKey", "ApiToken", "SignInLink"}
print({m.__name__: n for m, n in own.items() if n and m.__name__ not in keep})
"""


def test_a_demo_needs_a_running_product(tmp_path: Path) -> None:
    alone = RunningUp(tmp_path).manage("demo")
    assert alone.returncode != 0
    assert "manage.py up" in alone.stderr
