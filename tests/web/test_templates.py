"""House rules of templates and styles that a reader cannot be asked to check."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.template.loader import get_template

from tracebudget.web.waterfall import HATCHED

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = (*("apps", "budgets", "parts", "requests", "sessions", "settings", "setup", "sign_in"),)
TEMPLATES = sorted(
    [*(ROOT / "templates").glob("*.html")]
    + [path for folder in FOLDERS for path in (ROOT / "templates" / folder).glob("*.html")]
)
NAMES = {
    *("Tracebudget", "trace", "budget", "TTFT", "JSON", "p50", "p95", "p99", "UTC", "ms"),
    *("W", "S", "A", "D", "F", "Z", "Enter", "Esc", "doctype", "html"),
    *("OpenAI", "OpenInference", "OpenTelemetry"),
    *("GenAI", "OpenLLMetry", "Pydantic", "AI", "LangChain", "Langfuse", "Google", "ADK"),
    *("Vercel", "SDK"),
}
STYLES = sorted((ROOT / "static" / "css").glob("*.css"))


def name(path: Path) -> str:
    return path.relative_to(ROOT / "templates").as_posix()


@pytest.mark.parametrize("path", TEMPLATES, ids=name)
def test_template_compiles(path: Path) -> None:
    get_template(name(path))


@pytest.mark.parametrize("path", TEMPLATES, ids=name)
def test_nothing_that_the_content_security_policy_forbids(path: Path) -> None:
    text = path.read_text()
    assert not re.findall(r"\sstyle=|<style|\son\w+=|javascript:", text)
    assert not re.findall(r"<script(?![^>]*\ssrc=)", text)


@pytest.mark.parametrize("path", TEMPLATES, ids=name)
def test_only_one_part_prints_a_ttft(path: Path) -> None:
    """A figure without its source is how lower bounds become promises."""
    if name(path) != "parts/_ttft.html":
        assert not re.findall(r"\{\{[^}]*\bttft_ns", path.read_text())


@pytest.mark.parametrize("path", TEMPLATES, ids=name)
def test_words_are_translatable(path: Path) -> None:
    """No letters outside tags, comments and translate blocks, but names and signs."""
    text = re.sub(r"\{%\s*comment.*?endcomment\s*%\}|<!--.*?-->", "", path.read_text(), flags=re.S)
    text = re.sub(r"\{%\s*blocktranslate.*?endblocktranslate\s*%\}", "", text, flags=re.S)
    text = re.sub(r"<(pre|code)\b[^>]*>.*?</\1>|<\w[^>]*>|</\w+>", " ", text, flags=re.S)
    text = re.sub(r"\{%.*?%\}|\{\{.*?\}\}|&\w+;", " ", text, flags=re.S)
    assert set(re.findall(r"[A-Za-z]\w+|\b[A-Z]\b", text)) <= NAMES


def test_colours_live_in_the_tokens() -> None:
    for path in STYLES:
        if path.name != "tokens.css":
            assert not re.findall(r"#[0-9a-fA-F]{3,8}\b(?=[;\s,)])", path.read_text()), path.name


def test_every_colour_that_is_used_is_a_token() -> None:
    text = "".join(path.read_text() for path in STYLES)
    defined = set(re.findall(r"(--[\w-]+):", text))
    assert set(re.findall(r"var\((--[\w-]+)", text)) <= defined


def test_every_hatched_part_has_its_pattern() -> None:
    patterns = (ROOT / "templates" / "parts" / "_patterns.html").read_text()
    assert {f'id="hatch-{part}"' in patterns for part in HATCHED} == {True}
