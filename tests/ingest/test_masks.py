"""The table of masks: what each row finds, what only looks like it, and the time it takes."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.privacy.masks import MASKS, VENDORS, is_card, is_iban, masked, masks_for

# Put together here, so that no scanner takes this file for a leak.
OPENAI = "sk-" + "proj-a1B2c3D4e5F6g7H8i9J0"
JWT = "eyJ" + "hbGciOiJIUzI1NiJ9.eyJ" + "zdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nAbc=\n-----END RSA PRIVATE KEY-----"


def mask(text: str) -> str:
    return masked(text, masks_for(text))


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        # mail
        ("write to jane.doe+x@mail.example.co.uk.", "write to [mail]."),
        ("<jane@example.com>,joe@example.org", "<[mail]>,[mail]"),
        ("?to=jane%40example.com&x=1", "?to=[mail]&x=1"),
        ("j\u00f6rg@b\u00fccher.example", "[mail]"),
        # phone
        ("call +49 151 2345 6789 now", "call [phone] now"),
        ("+1 (415) 555-0132", "[phone]"),
        ("(415) 555-0132", "([phone]"),
        ("415.555.0132", "[phone]"),
        ("0151 234 567 89", "[phone]"),
        ("030/1234567-89", "[phone]"),
        # payment card: spaces, dashes, none; 15 to 19 digits
        ("card 4111 1111 1111 1111 declined", "card [card] declined"),
        ("4111-1111-1111-1111", "[card]"),
        ("378282246310005", "[card]"),
        ("5555555555554444,", "[card],"),
        # IBAN
        ("to DE89 3704 0044 0532 0130 00 please", "to [iban] please"),
        ("GB82WEST12345698765432", "[iban]"),
        ("MT84 MALT 0110 0001 2345 MTLC AST0 01S", "[iban]"),
        # addresses
        ("from 203.0.113.7:443", "from [ip]:443"),
        ("2001:db8::8a2e:370:7334 said", "[ip] said"),
        ("[fe80::1]", "[[ip]]"),
        ("at 2001:db8:0:0:0:0:0:1: refused", "at [ip]: refused"),
        # social security
        ("SSN 078-05-1120", "SSN [ssn]"),
        # homes
        ("/home/jane/app.py line 3", "/home/[user]/app.py line 3"),
        ("/Users/jane/app.py", "/Users/[user]/app.py"),
        ("C:\\Users\\jane\\app.py", "C:\\Users\\[user]\\app.py"),
        (r'"C:\\Users\\jane\\app.py"', r'"C:\\Users\\[user]\\app.py"'),
        # secrets by their form
        (f"key {OPENAI}.", "key [secret]"),
        (f"Bearer {JWT}", "Bearer [secret]"),
        (f"x{PEM}y", "x[secret]y"),
        (PEM[:50], "[secret]"),
        ("Authorization: Bearer 0123456789abcdef", "Authorization: Bearer [secret]"),
        ("Basic dXNlcjpwYXNzd29yZDE=", "Basic [secret]"),
        ("postgres://app:hunter2@db/x", "postgres://[secret]@db/x"),
        ("redis://:hunter2@cache", "redis://[secret]@cache"),
        # secrets by their name
        ("password=hunter2&user=jane", "password=[secret]&user=jane"),
        ("DB_PASSWORD: correct-horse", "DB_PASSWORD: [secret]"),
        ('{"apiKey": "abc", "n": 1}', '{"apiKey": "[secret]", "n": 1}'),
        ("{'client_secret': 'two words'}", "{'client_secret': '[secret]'}"),
        (r'"{\"token\": \"abc def\"}"', r'"{\"token\": \"[secret]\"}"'),
        ("https://x.example/?sig=a%2Bb%2Fc&y", "https://x.example/?sig=[secret]&y"),
    ],
)
def test_what_has_a_form_is_found(text: str, stored: str) -> None:
    assert mask(text) == stored


@pytest.mark.parametrize("prefix", VENDORS)
def test_every_vendors_keys_are_found(prefix: str) -> None:
    assert mask(f"my {prefix}0123456789abcdefghij here") == "my [secret] here"


@pytest.mark.parametrize(
    "text",
    [
        "4111 1111 1111 1112",  # no card: Luhn
        "1767225600000000000",  # nanoseconds
        "1767225600123",
        "GB82 WEST 1234 5698 7654 33",  # no IBAN: its sum
        "version 1.2.3",
        "300.1.2.3",
        "127.0.0.1",
        "::1",
        "at 12:30:45",
        "std::vector::size",
        "2026-01-15T10:20:30.123456Z",
        "2026-01-15 10:20",
        "01/02/2026",
        "0af7651916cd43dd8448eb211c80319c",
        "5f4dcc3b-5aa7-65d6-1d83-27deb882cf99",
        "claude-3-5-sonnet@20240620",
        "pkg@1.2.3",
        "the token limit: 4096",
        "max_tokens=4096",
        "password: ab",  # too short to be anybody's
        "a risk-free task-oriented desk-bound-worker",
        "basic understanding of internationalization",
        "secretary: Jane",
        "design: a word",
        "https://example.com/a:b@c",
        "1,234,567.89",
        "0.4111111111111111",
        "+5 %",
    ],
)
def test_what_only_looks_like_it_stays(text: str) -> None:
    assert mask(text) == text


def test_json_stays_json_where_texts_are_masked() -> None:
    document = {"to": "jane@example.com", "deep": [{"card": "4111111111111111", "token": "a b c"}]}
    assert json.loads(mask(json.dumps(document))) == {
        "to": "[mail]",
        "deep": [{"card": "[card]", "token": "[secret]"}],
    }


@pytest.mark.parametrize("number", ["4111111111111111", "378282246310005", "6011000990139424"])
def test_luhns_sum(number: str) -> None:
    assert is_card(number)
    changed = number[:-1] + str((int(number[-1]) + 1) % 10)
    assert not is_card(changed)


@pytest.mark.parametrize("iban", ["GB82 WEST 1234 5698 7654 32", "FR1420041010050500013M02606"])
def test_ibans_sum(iban: str) -> None:
    assert is_iban(iban)
    assert not is_iban(iban[:-1] + ("3" if iban[-1] != "3" else "4"))


@given(st.text(alphabet="aA1 .:@-+/\\'\"=%[]{}&0eyJsk_\n", max_size=300))
def test_masking_twice_is_masking_once(text: str) -> None:
    once = mask(text)
    assert mask(once) == once


texts = st.text(alphabet="aA1 .:@-+/\\'\"=%[]{}&0eyJsk_\n", max_size=60) | st.sampled_from(
    ["password:", "hunter22", 'token="', "jane@", "example.com", "+49", "1512345678", PEM, "4111"]
)


@given(st.lists(texts, max_size=6))
def test_what_is_found_in_a_text_is_found_in_several_joined(several: list[str]) -> None:
    masks = masks_for("\n".join(several))
    assert [masked(text, masks) for text in several] == [masked(text, MASKS) for text in several]


EVIL = [
    "a", "a.", "1", "1 ", "1.", "1-", "@a", "a@b.", "eyJ", "eyJa.", "A1", "A1B2", "DE89 ", "+1 ",
    "::", "a:", "://a:", "password", 'password="', '"password" : ', "sk-", "/home/", "(1", "0 ",
    "01 111", "bearer ", "+", "-----BEGIN PRIVATE KEY-----", "\\", '\\"', "token:\\",
]  # fmt: skip


@pytest.mark.parametrize("piece", EVIL)
def test_time_grows_with_the_text_and_no_faster(piece: str) -> None:
    def seconds(length: int) -> float:
        text = (piece * length)[:length]
        began = time.process_time()
        masked(text, MASKS)
        return time.process_time() - began

    assert seconds(80_000) < max(0.05, 5 * seconds(40_000))
