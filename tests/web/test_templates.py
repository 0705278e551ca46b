"""House rules of templates and styles that a reader cannot be asked to check."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from django.template.loader import get_template

from tracebudget.core.segment import SegmentKind
from tracebudget.web.waterfall import HATCHED

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = (*("apps", "budgets", "parts", "requests", "sessions", "settings", "setup", "sign_in"),)
TEMPLATES = sorted(
    [*(ROOT / "templates").glob("*.html")]
    + [path for folder in FOLDERS for path in (ROOT / "templates" / folder).glob("*.html")]
)
NAMES = {
    *("Tracebudget", "trace", "budget", "TTFT", "JSON", "OTLP", "p50", "p95", "p99", "UTC", "ms"),
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


@pytest.mark.parametrize("path", TEMPLATES, ids=name)
def test_every_table_has_its_caption(path: Path) -> None:
    text = path.read_text()
    assert text.count("<table") == text.count("<caption")


# --- contrast, by the formula of WCAG 2.2 ---------------------------------------------------------

WORDS, SHAPES = 4.5, 3.0  # AA, for text of any size and for what is no text
GROUNDS = ("paper", "card", "band")
PAIRS = [
    *((ink, ground, WORDS) for ink in ("ink", "muted", "accent") for ground in GROUNDS),
    *((ink, "accent-bg", WORDS) for ink in ("ink", "muted")),
    *((ink, ground, WORDS) for ink in ("over", "ok", "warn") for ground in (f"{ink}-bg", "card")),
    *((f"on-{name}", name, WORDS) for name in SegmentKind),
    ("card", "accent", WORDS),
    *((name, "card", SHAPES) for name in ("prefill", "decode", "tool", "framework", "field")),
]
TOLD_APART = 1.3  # of lightness between neighbours in a bar, for eyes without colour


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("ink", "ground", "least"), PAIRS)
def test_contrast_is_enough(theme: int, ink: str, ground: str, least: float) -> None:
    assert contrast(TOKENS[ink][theme], TOKENS[ground][theme]) >= least


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_segments_differ_in_lightness_too(theme: int) -> None:
    colours = [TOKENS[name][theme] for name in ("prefill", "decode", "tool")]
    assert all(contrast(a, b) >= TOLD_APART for a, b in pairwise(colours))


TOKENS = {
    match[1]: (match[2], match[3])
    for match in re.finditer(
        r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)",
        (ROOT / "static" / "css" / "tokens.css").read_text(),
    )
}


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_hatched_part_has_its_pattern() -> None:
    patterns = (ROOT / "templates" / "parts" / "_patterns.html").read_text()
    assert {f'id="hatch-{part}"' in patterns for part in HATCHED} == {True}
