"""What *masked* looks for: secrets, and what names or finds a person.

A table, each row with a test. Patterns find what has a form; names, addresses and diagnoses have
none, and for these there is *timings only*.

Whatever is sent, a search takes linear time: a run of characters is taken whole (`++`), and begins
only where none ran before it (`(?<!...)`, behind the first character, to which `re` skips ahead).
What form alone cannot tell is checked: cards and IBANs by their sums, addresses by parsing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import NamedTuple

# Asked of a text in lower case: can it hold such a thing? Cheaper than the pattern, or `bool`.
Hint = Callable[[str], object]


class Mask(NamedTuple):
    """A kind of thing and its form. What the first group that took part matched, or all where the
    pattern has none, becomes `[name]`.
    """

    name: str
    hint: Hint
    pattern: re.Pattern[str]
    check: Callable[[str], object] = bool

    def replace(self, text: str) -> str:
        return self.pattern.sub(self._replaced, text)

    def _replaced(self, match: re.Match[str]) -> str:
        group = match.lastindex or 0
        if not self.check(match[group]):
            return match[0]
        start, end = match.start(group) - match.start(), match.end(group) - match.start()
        return f"{match[0][:start]}[{self.name}]{match[0][end:]}"


def masks_for(text: str) -> list[Mask]:
    """The masks that may find something in the text. Most texts need none, and this is cheap."""
    lowered = text.lower()
    return [mask for mask in MASKS if mask.hint(lowered) and mask.pattern.search(text)]


def masked(text: str, masks: Iterable[Mask]) -> str:
    """The text with `[name]` in place of what the masks find."""
    for mask in masks:
        text = mask.replace(text)
    return text


def is_clean(text: str) -> bool:
    return masked(text, masks_for(text)) == text


def holds(*words: str) -> Hint:
    def hint(lowered: str) -> bool:
        for word in words:  # noqa: SIM110 (any() costs more than the searches)
            if word in lowered:
                return True
        return False

    return hint


def is_card(found: str) -> bool:
    """Luhn's sum: of every second digit from the right the double counts, less 9 from ten on."""
    digits = [int(digit) for digit in reversed(found) if digit.isdigit()]
    doubled = [digit * 2 % 9 or digit for digit in digits[1::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


def is_iban(found: str) -> bool:
    """ISO 13616: the first four characters behind the others, letters from 10 on, 1 modulo 97."""
    text = found.replace(" ", "")
    return int("".join(str(int(char, 36)) for char in text[4:] + text[:4])) % 97 == 1


def is_foreign_address(found: str) -> bool:
    """An IP address, but that of the machine itself."""
    try:
        return not ip_address(found).is_loopback
    except ValueError:
        return False


def is_phone(found: str) -> bool:
    return sum(map(str.isdigit, found)) in PHONE_DIGITS


def is_no_word(found: str) -> bool:
    return any(map(str.isdigit, found))


PHONE_DIGITS = range(8, 16)  # E.164 ends at 15

# How keys and tokens of well-known vendors begin. Others imitate them.
VENDORS = (
    *("sk-", "pk-lf-", "lsv2_", "gsk_", "xai-", "pplx-", "hf_", "r8_", "tvly-"),  # models
    *("AKIA", "ASIA", "AIza", "ya29.", "GOCSPX-", "dapi", "hvs."),  # clouds
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "npm_", "pypi-"),  # code
    *("xoxb-", "xoxp-", "xoxa-", "xoxe-", "xapp-", "hooks.slack.com/services/", "SG."),  # chat
    *("sk_live_", "sk_test_", "rk_live_", "whsec_", "shpat_"),  # shops
    *("tbi_", "tba_"),  # ours
)
# How programs call a secret. Its value follows in JSON, perhaps inside a text of JSON, in a URL, a
# form, a header or a line of a log.
CALLED = (
    *("password", "passwd", "passphrase", "pwd", "secret", "token", "authorization", "cookie"),
    *("credential", "credentials", "signature", "sig"),
    *(f"{what}{gap}key" for what in ("api", "access", "private", "account") for gap in "_- "),
    *("apikey", "accesskey", "privatekey", "accountkey"),
)
SIGN = r"\\*[\"']?\s?[:=]"
VALUE = r'\\*"([^"\\]{3,}+)|\\*\'([^\'\\]{3,}+)|(?!bearer |basic )([^\s"\'\\&,;<>(){}\[\]]{6,}+)'
# Read backwards: the sign is rare, and the words before it may differ in length.
CALLED_BACKWARDS = re.compile(rf"[:=]\s?[\"']?\\*(?:{'|'.join(word[::-1] for word in CALLED)})")

JWT = Mask("secret", holds("eyj"), re.compile(r"\beyJ[\w-]{10,}+(?:\.[\w-]*+){2,4}+"))
VENDOR_KEY = Mask(
    "secret",
    holds(*map(str.lower, VENDORS)),
    re.compile(rf"\b(?:{'|'.join(map(re.escape, VENDORS))})[\w./+=-]{{12,}}+"),
    is_no_word,
)
MAIL = Mask(
    "mail",
    holds("@", "%40"),
    re.compile(r"[\w+](?<![\w.+-].)[\w.+-]*+(?:@|%40)(?:[\w-]++\.)+[A-Za-z]{2,}"),
)
MASKS = (
    Mask(
        "secret",
        holds("private key-----"),
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*-----|\Z)", re.DOTALL),
    ),
    JWT,
    VENDOR_KEY,
    Mask(
        "secret",
        holds("bearer ", "basic "),
        re.compile(r"\b(?:bearer|basic) ([\w.~+/=-]{12,}+)", re.IGNORECASE),
        is_no_word,
    ),
    Mask("secret", holds("://"), re.compile(r"://([^\s/:@\"']{0,100}:[^\s/@\"']{1,100})@")),
    Mask(
        "secret",
        lambda lowered: CALLED_BACKWARDS.search(lowered[::-1]),
        re.compile(rf"(?:{'|'.join(CALLED)}){SIGN}\s?(?:{VALUE})", re.IGNORECASE),
    ),
    MAIL,
    Mask(
        "user",
        holds("/home/", "/users/", "\\users\\"),
        re.compile(r"(?:/home/|[/\\]users[/\\]+)([^/\\\s\"':]+)", re.IGNORECASE),
    ),
    Mask(
        "ip",
        holds("."),
        re.compile(r"\d(?<![\d.].)\d{0,2}(?:\.\d{1,3}){3}(?![\d.])"),
        is_foreign_address,
    ),
    Mask(
        "ip",
        re.compile(r":[\da-f]{0,4}:").search,
        re.compile(
            r"[\dA-Fa-f:](?<![\w:].)[\dA-Fa-f]{0,3}:[\dA-Fa-f]{0,4}:[\dA-Fa-f:]*(?:[\dA-Fa-f]|::)"
        ),
        is_foreign_address,
    ),
    Mask(
        "iban",
        bool,
        re.compile(
            r"[A-Z](?<![A-Za-z\d].)[A-Z]\d\d(?: ?[A-Z\d]{4}){2,7}(?: ?[A-Z\d]{1,3})?(?![A-Za-z\d])"
        ),
        is_iban,
    ),
    Mask(
        "card",
        bool,
        re.compile(r"[2-6](?<!\w.)(?<!\d\..)(?:[ -]?+\d){12,18}+(?!\w)"),
        is_card,
    ),
    Mask("phone", holds("+"), re.compile(r"\+(?<![\w+].)\d[\d ()./-]{6,18}\d"), is_phone),
    Mask(
        "phone",
        bool,
        re.compile(r"\d(?<![\w.-].)\d\d\)?[ .-]\d{3}[ .-]\d{4}(?![\w-])"),
    ),
    Mask(
        "phone",
        bool,
        re.compile(r"0(?<![\w.-].)\d{1,4}[ /-]\d{3,}[ \d/-]{2,10}\d(?![\w-])"),
        is_phone,
    ),
    Mask("ssn", bool, re.compile(r"\d(?<![\w-].)\d\d-\d\d-\d{4}(?![\w-])")),
)
