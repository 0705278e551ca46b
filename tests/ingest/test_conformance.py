"""What the documents promise of ingest and privacy, and the tests that hold it, are the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
DOCS = TESTS.parents[1] / "docs"

NAME = re.compile(r"`(test_\w+)`")
ROW = re.compile(r"^\| (?!topic|status)(?!---)(.+) \|$", re.MULTILINE)
# Each of their tests holds a row; tests of the privacy door and of keys stand in other documents.
OF_THE_TABLE = ("body", "otlp", "otlp_json", "otlp_protobuf", "wire", "rpc", "fuzz")


def names_in(pattern: str) -> set[str]:
    files = TESTS.glob(f"test_{pattern}.py")
    return {
        name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text(), re.M)
    }


def rows() -> list[str]:
    return ROW.findall((DOCS / "ingest.md").read_text())


def test_table_and_tests_agree() -> None:
    told = {name for row in rows() for name in NAME.findall(row)}
    assert len(rows()) > 40
    assert [row for row in rows() if not NAME.search(row)] == []
    assert set().union(*map(names_in, OF_THE_TABLE)) - told == set()


@pytest.mark.parametrize("document", ["ingest.md", "privacy.md"])
def test_documents_name_tests_that_exist(document: str) -> None:
    named = set(NAME.findall((DOCS / document).read_text()))
    assert named - names_in("*") == set()
    assert named
