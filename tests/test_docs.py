"""The documentation names what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.db import connection

from tests import findings_doc
from tracebudget.alerts.words import CHANGES

ROOT = Path(__file__).resolve().parent.parent
NESTS = ("", "tracebudget")  # where a short name in a row of the architecture's table may lie


def test_every_setting_is_described_and_no_other() -> None:
    code = (ROOT / "tracebudget" / "settings.py").read_text()
    text = (ROOT / "docs" / "settings.md").read_text()
    read = set(re.findall(r'env_\w+\(\s*"([A-Z_]+)"', code))
    described = set(re.findall(r"^\| `([A-Z_]+)` \|", text, flags=re.MULTILINE))
    assert described == read


def test_findings_are_described_as_the_code_has_them() -> None:
    """`make docs` writes them."""
    assert findings_doc.PATH.read_text("utf-8") == findings_doc.whole()


def test_every_kind_of_message_is_described() -> None:
    text = (ROOT / "docs" / "alerts.md").read_text()
    assert {change for change in CHANGES if f"`alert.{change}`" not in text} == set()


@pytest.mark.django_db
def test_statements_for_stuck_rows_are_good_sql() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    statements = re.findall(r"```sql\n(.*?)```", text, flags=re.DOTALL)
    assert statements
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def test_every_dependency_has_its_reason() -> None:
    reasons = (ROOT / "docs" / "decisions" / "0001-libraries.md").read_text()
    required = {
        name
        for file in ("requirements.txt", "requirements-dev.txt")
        for name in re.findall(r"^([A-Za-z][\w-]*)", (ROOT / file).read_text(), flags=re.MULTILINE)
    }
    assert {name for name in required if f"| {name} |" not in reasons} == set()


def test_every_link_leads_somewhere() -> None:
    missing = {
        f"{page.relative_to(ROOT)}: {target}"
        for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / target).exists()
    }
    assert missing == set()


def test_every_place_of_the_architecture_exists() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    table = text.partition("## Where things live")[2].partition("##")[0]
    places = re.findall(r"`([\w/]+(?:\.py|/))`", table)
    assert "tracebudget/core/" in places
    assert [name for name in places if not any((ROOT / at / name).exists() for at in NESTS)] == []
