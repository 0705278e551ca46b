"""The long part of docs/findings.md, written from the code: `python -m tests.findings_doc`.

Of each rule it tells what the rule's own function holds: its docstring, the constants that it and
its helpers compare with, the evidence that it gives, why it may not be able to tell.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from inspect import getsource
from pathlib import Path
from types import FunctionType, ModuleType

import django

from tracebudget.core import diagnosis, gap, profile
from tracebudget.core.detectors import context, loop, model, tool
from tracebudget.core.finding import DETECTORS, MAX_SPAN_IDS
from tracebudget.finding_words import FINDINGS, QUALITY, Text, Words
from tracebudget.templatetags.duration import count, duration, percent
from tracebudget.wording import STEPS, WHYS

ROOT = Path(__file__).resolve().parent.parent
PATH = ROOT / "docs" / "findings.md"
CORE = ROOT / "tracebudget" / "core"

RULES = (context, loop, model, tool)
NO_EVIDENCE = {
    "turn",
    "saving_ns",
    "severity",
}  # keywords of `performance` that are sides of its own


# --- what a rule's source tells -------------------------------------------------------------------


class Source:
    """The functions and constants of one module that rules are made of."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.lines = getsource(module).splitlines()
        self.functions: dict[str, ast.FunctionDef] = {}
        self.reasons: dict[str, str] = {}  # what is written beside a constant, or above it
        for node in ast.parse("\n".join(self.lines)).body:
            if isinstance(node, ast.FunctionDef):
                self.functions[node.name] = node
            elif isinstance(node, ast.Assign):
                names = [n.id for n in ast.walk(node.targets[0]) if isinstance(n, ast.Name)]
                self.reasons |= dict.fromkeys(names, self._comment(node))

    def _comment(self, node: ast.Assign) -> str:
        beside = self.lines[(node.end_lineno or node.lineno) - 1].partition("  # ")[2]
        above = self.lines[node.lineno - 2]
        return beside or (above.removeprefix("# ") if above.startswith("# ") else "")


SOURCES = {module.__name__: Source(module) for module in (*RULES, gap, profile)}


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule's function, and those that it calls, wherever they stand."""

    functions: tuple[tuple[Source, ast.FunctionDef], ...]

    @property
    def documented(self) -> str:
        return " ".join((ast.get_docstring(self.functions[0][1]) or "").split())

    def constants(self) -> Iterator[tuple[str, float, str]]:
        """Names, values and reasons of the numbers that a rule compares with."""
        names = {
            node.id: source.module
            for source, function in self.functions
            for node in ast.walk(function)
            if isinstance(node, ast.Name) and node.id.isupper() and node.id not in {"MS", "SECOND"}
        }
        for name, module in sorted(names.items()):
            value = getattr(module, name)
            if isinstance(value, int | float):
                yield name, value, _reason(name, SOURCES[module.__name__])

    def evidence(self) -> list[str]:
        keys = {k.arg for call in self._calls("performance") for k in call.keywords if k.arg}
        return sorted(keys - NO_EVIDENCE)

    def unknowns(self) -> list[str]:
        """The codes of `Unknown` that a rule may give."""
        return sorted({_text(call.args[0]) for call in self._calls("Unknown")})

    def _calls(self, called: str) -> Iterator[ast.Call]:
        for _, function in self.functions:
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == called:
                    yield node


def _rule_of(function: FunctionType) -> Rule:
    found: dict[str, tuple[Source, ast.FunctionDef]] = {}
    waiting = [function]
    while waiting:
        at = waiting.pop(0)
        source = SOURCES.get(at.__module__)
        if source is None or at.__qualname__ in found or at.__name__ not in source.functions:
            continue
        node = source.functions[at.__name__]
        found[at.__qualname__] = (source, node)
        called = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
        called += [n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)]
        known = [getattr(source.module, name, None) for name in called]
        waiting += [each for each in known if isinstance(each, FunctionType)]
    return Rule(tuple(found.values()))


def _reason(name: str, source: Source) -> str:
    """From where the constant is made, its own module or the one that it is imported from."""
    return next((r for each in (source, *SOURCES.values()) if (r := each.reasons.get(name))), "")


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _note_evidence() -> dict[str, list[str]]:
    """The evidence of each data-quality code, wherever in the core its note is written."""
    found: dict[str, list[str]] = {}
    for path in sorted(CORE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Note" and node.args:
                keys = [
                    _text(key)
                    for part in node.args[2:3]
                    if isinstance(part, ast.Dict)
                    for key in part.keys
                    if key is not None
                ]
                found.setdefault(_text(node.args[0]), []).extend(keys)
    return found


# --- the text -------------------------------------------------------------------------------------

MARK = "<!-- Below: written from the code by `make docs`. -->\n"

DOUBTS = """
## Data quality

Doubts about the traces, not about the agent: never a fault, no step, no saving. One finding a code
and request, with up to {most} span ids, and the `count` of all.
"""

MANY = """
## Over many requests

What decides the two questions that only an app's requests together answer:
"""


def text() -> str:
    """What is written from the code."""
    parts: list[str] = []
    for step, title in STEPS.items():
        parts.append(f"\n## Step {step}: {title}\n")
        parts += [_rule(code) for code, rule in DETECTORS.items() if rule.step == step]
    parts.append(MANY)
    parts += [_constant(*each) for each in _of_diagnosis()]
    parts.append("\n" + DOUBTS.format(most=MAX_SPAN_IDS))
    evidence = _note_evidence()
    parts += [_doubt(code, words, evidence.get(code, [])) for code, words in QUALITY.items()]
    return "".join(parts)


def whole() -> str:
    """The file: its head as it stands, and the rest as the code has it."""
    head, mark, _ = PATH.read_text("utf-8").partition(MARK)
    return head + mark + text()


def _of_diagnosis() -> Iterator[tuple[str, float, str]]:
    source = Source(diagnosis)
    for name, reason in source.reasons.items():
        value = getattr(diagnosis, name)
        if reason and isinstance(value, int | float):
            yield name, value, reason


def _rule(code: str) -> str:
    function = DETECTORS[code].detector
    assert isinstance(function, FunctionType)
    rule = _rule_of(function)
    return _section(
        code,
        FINDINGS[code],
        [
            ("rule", rule.documented),
            ("compares with", "".join(_constant(*each) for each in rule.constants())),
            ("evidence", _names(rule.evidence())),
            ("unknown", " ".join(str(WHYS[why]) for why in rule.unknowns())),
        ],
    )


def _constant(name: str, value: float, reason: str) -> str:
    return f"\n  - `{name}` {_number(name, value)}" + (f": {reason}" if reason else "")


def _doubt(code: str, words: Words, evidence: Sequence[str]) -> str:
    said = re.findall(r"\{(\w+)\}", " ".join(map(str, words.forms)))
    return _section(code, words, [("evidence", _names(sorted({*evidence, *said, "count"})))])


def _names(keys: Sequence[str]) -> str:
    return ", ".join(f"`{key}`" for key in keys)


def _section(code: str, words: Words, facts: Sequence[tuple[str, str]]) -> str:
    rows = [
        ("says", _plain(words.forms[0])),
        ("cause", str(words.cause)),
        ("how to check", str(words.check)),
        ("remedy", str(words.remedy)),
        *facts,
    ]
    lines = "".join(f"- **{label}**:{_after_label(value)}\n" for label, value in rows if value)
    return f"\n### `{code}`\n\n{words.title}.\n\n{lines}"


def _after_label(value: str) -> str:
    return value if value.startswith("\n") else f" {value}"


def _plain(form: Text) -> str:
    return re.sub(r"\{(\w+)\}", r"`\1`", str(form))


def _number(name: str, value: float) -> str:
    """A constant in its unit, which the end of its name tells."""
    if name.endswith("_NS"):
        return duration(int(value))
    if "SHARE" in name or name == "AT_LIMIT":
        return percent(value)
    return count(value) if isinstance(value, int) else f"{value:g}"


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tracebudget.settings")
    django.setup()
    PATH.write_text(whole(), "utf-8")
