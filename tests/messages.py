"""The catalogue of translations: what the code says, against what locale/ has for it.

`python -m tests.messages` brings the catalogue up to date and compiles it; it names what still
wants a translation. No GNU gettext is needed. Django reads the compiled file, which is committed,
so that a fresh clone speaks Chinese.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from babel.messages import Catalog, Message
from babel.messages.extract import extract
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from django.utils.translation.template import templatize

ROOT = Path(__file__).resolve().parent.parent
PO = ROOT / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po"
MO = PO.with_suffix(".mo")

KEYWORDS = {
    "_": None,
    "gettext": None,
    "gettext_lazy": None,
    "gettext_noop": None,
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
    "pgettext": ((1, "c"), 2),
    "npgettext": ((1, "c"), 2, 3),
}


def said() -> Catalog:
    """Every text that code and templates hand to gettext, with the files that do."""
    catalogue = Catalog(locale="zh_Hans", project="Tracebudget", charset="utf-8")
    for path in sorted(_sources()):
        source = path.read_text("utf-8")
        python = source if path.suffix == ".py" else _as_python(source)
        for _line, text, comments, context in extract("python", BytesIO(python.encode()), KEYWORDS):
            name = path.relative_to(ROOT).as_posix()
            catalogue.add(text, locations=[(name, 0)], context=context, auto_comments=comments)
    return catalogue


def _as_python(template: str) -> str:
    """What Django's own makemessages has xgettext read, without its indentation."""
    return "\n".join(line.lstrip() for line in templatize(template).split("\n"))


def _sources() -> Iterator[Path]:
    for folder in ("tracebudget", "ingest"):
        yield from (ROOT / folder).rglob("*.py")
    for suffix in ("html", "txt"):
        yield from (ROOT / "templates").rglob(f"*.{suffix}")


def translated() -> Catalog:
    """The catalogue as it is kept."""
    with PO.open("rb") as file:
        return read_po(file, locale="zh_Hans", charset="utf-8")


def texts(message: Message) -> tuple[str, ...]:
    """A message's text, in one form or two."""
    return (message.id,) if isinstance(message.id, str) else tuple(message.id)


def translations(message: Message) -> tuple[str, ...]:
    """Its translation; Chinese has one form for all numbers."""
    string = message.string
    return (string,) if isinstance(string, str) else tuple(string or ())


def compiled(catalogue: Catalog) -> bytes:
    file = BytesIO()
    write_mo(file, catalogue)
    return file.getvalue()


def update() -> list[str]:
    """Take in what is new, drop what is no longer said, compile; returns what has no
    translation.
    """
    catalogue = translated()
    made = catalogue.creation_date
    catalogue.update(said(), no_fuzzy_matching=True)
    catalogue.creation_date = made  # a run that changes nothing leaves no difference
    catalogue.obsolete.clear()
    with PO.open("wb") as file:
        write_po(file, catalogue, width=100, sort_output=True, omit_header=False)
    MO.write_bytes(compiled(catalogue))
    return [texts(message)[0] for message in catalogue if message.id and not all(_of(message))]


def _of(message: Message) -> tuple[str, ...]:
    return translations(message) or ("",)


if __name__ == "__main__":
    wanting = update()
    print("\n".join(wanting))
    sys.exit(f"{len(wanting)} texts want a translation" if wanting else 0)
