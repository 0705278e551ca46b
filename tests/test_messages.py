"""The catalogue of translations holds what the code says, with the same places for figures."""

from __future__ import annotations

import re

import pytest
from babel.messages import Message
from django.utils.translation import override

from tests import messages
from tracebudget.finding_words import ALL
from tracebudget.wording import explain

PLACE = re.compile(r"%\(\w+\)[a-z]|%%|\{\w+\}")
CATALOGUE = [message for message in messages.translated() if message.id]


def key(message: Message) -> tuple[str | None, tuple[str, ...]]:
    return message.context, messages.texts(message)


def test_every_text_is_in_the_catalogue_and_no_other() -> None:
    """`make messages` brings it up to date."""
    said = {key(message) for message in messages.said() if message.id}
    kept = {key(message) for message in CATALOGUE}
    assert (said - kept, kept - said) == (set(), set())


def test_every_text_is_translated_by_a_person() -> None:
    wanting = [m.id for m in CATALOGUE if m.fuzzy or not all(messages.translations(m) or [""])]
    assert wanting == []


@pytest.mark.parametrize("message", CATALOGUE, ids=lambda m: messages.texts(m)[0][:40])
def test_translations_have_places_for_the_same_figures(message: Message) -> None:
    many = messages.texts(message)[-1]
    for translation in messages.translations(message):
        assert set(PLACE.findall(translation)) == set(PLACE.findall(many))


def test_the_compiled_catalogue_is_that_of_the_text() -> None:
    assert messages.MO.read_bytes() == messages.compiled(messages.translated())


@pytest.mark.parametrize("code", sorted(ALL))
def test_every_finding_is_said_in_chinese(code: str) -> None:
    with override("zh-hans"):
        said = explain({"code": code, "evidence": {}})
    for text in (said.title, said.text, said.cause, said.check, said.remedy):
        assert re.search(r"[\u4e00-\u9fff]", text)


def test_evidence_stands_in_the_chinese_sentence() -> None:
    evidence = {"tool": "search", "duration_ns": 3_000_000_000, "limit_ns": None}
    with override("zh-hans"):
        assert explain({"code": "tool_timeout", "evidence": evidence}).text == (
            "search 在 3 s 后超时。"
        )
