"""The documentation names what there is."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_every_setting_is_described_and_no_other() -> None:
    code = (ROOT / "tracebudget" / "settings.py").read_text()
    text = (ROOT / "docs" / "settings.md").read_text()
    read = set(re.findall(r'env_\w+\(\s*"([A-Z_]+)"', code))
    described = set(re.findall(r"^\| `([A-Z_]+)` \|", text, flags=re.MULTILINE))
    assert described == read


def test_every_dependency_has_its_reason() -> None:
    reasons = (ROOT / "docs" / "decisions" / "0001-libraries.md").read_text()
    required = {
        name
        for file in ("requirements.txt", "requirements-dev.txt")
        for name in re.findall(r"^([A-Za-z][\w-]*)", (ROOT / file).read_text(), flags=re.MULTILINE)
    }
    assert {name for name in required if f"| {name} |" not in reasons} == set()
