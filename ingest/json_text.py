"""The text of a JSON body -> Python objects, whatever it holds: huge numbers, half characters,
bottomless nesting and names with underscores cost nothing that stands beside them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

from ingest.bounds import require_few_objects
from ingest.decode import Export
from ingest.errors import OtlpError

Object = Mapping[str, Any]

MAX_DIGITS = 4000  # Python reads 4,300
# The names of OTLP's files, which the Collector takes too though the specification does not.
SNAKE_NAMES = re.compile(r'"(?:resource|scope)_spans"')
UNDERSCORE = re.compile("_([a-z])")

# Lists and objects inside one another; Python reads about 900. MAX_DEPTH values take four each.
MAX_NESTING = 200
NESTING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]', re.DOTALL)

# Half of a surrogate pair is no character. The pattern eats every escape, so that an escaped
# backslash is not mistaken for the start of the next one; group 1 is a half without its other half.
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)", re.DOTALL)


def load(body: bytes, export: Export) -> Object:
    """The JSON object in the body, fractions as Decimal so that 1.79e18 nanoseconds stay exact."""
    text = _text(body, export)
    require_few_objects(text)
    try:
        document = _document(text)
    except RecursionError:
        export.repaired[f"value nested deeper than {MAX_NESTING} lists and objects, now null"] += 1
        document = _document(_flattened(text))
    if not isinstance(document, dict):
        raise OtlpError(400, "The body must be a JSON object with resourceSpans.")
    return document


def _document(text: str) -> Any:
    try:
        return json.loads(
            text,
            parse_int=_whole,
            parse_float=_fraction,
            parse_constant=_refuse_constant,
            object_hook=_in_camel_case if SNAKE_NAMES.search(text) else None,
        )
    except json.JSONDecodeError as error:
        raise OtlpError(400, f"The body is not JSON: {_told(error)}.") from error
    except ValueError as error:
        raise OtlpError(400, f"The body is not JSON: {error}.") from error


def _told(error: json.JSONDecodeError) -> str:
    """What is wrong and where; in a text of one line its number would mislead readers of files."""
    if "\n" not in error.doc.rstrip():
        return f"{error.msg} at character {error.pos + 1}"
    hint = ". One request a body: send JSON lines line by line" if error.msg == "Extra data" else ""
    return f"{error.msg} at line {error.lineno}{hint}"


def _text(body: bytes, export: Export) -> str:
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = body.decode("utf-8-sig", "replace")
        export.repaired["request with text that is not UTF-8, its broken bytes now U+FFFD"] += 1
    return ESCAPE.sub(_whole_escape, text) if SURROGATE.search(text) else text


def _whole_escape(match: re.Match[str]) -> str:
    return r"\ufffd" if match[1] else match[0]


def _whole(digits: str) -> int | str:
    """Too many digits stay text, which is refused where a number belongs."""
    return int(digits) if len(digits) <= MAX_DIGITS else digits


def _fraction(digits: str) -> Decimal | str:
    """Text too where the exponent is beyond what Decimal holds."""
    try:
        return Decimal(digits)
    except InvalidOperation:
        return digits


def _in_camel_case(raw: Object) -> Object:
    return {UNDERSCORE.sub(lambda match: match[1].upper(), name): raw[name] for name in raw}


def _flattened(text: str) -> str:
    """The text with null in place of whatever is nested too deeply."""
    return "".join(_shallow_parts(text))


def _shallow_parts(text: str) -> Iterator[str]:
    depth = start = 0
    for match in NESTING.finditer(text):
        if match[0] in "[{":
            depth += 1
            if depth == MAX_NESTING + 1:
                yield text[start : match.start()]
                yield "null"
        elif match[0] in "]}":
            if depth == MAX_NESTING + 1:
                start = match.end()
            depth -= 1
    yield text[start:]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f'{name} is not JSON (OTLP/JSON writes it as text: "{name}")')
