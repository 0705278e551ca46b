"""An app's gateway settings as a file. YAML, of which JSON is a part:

    inference:
      endpoint: http://gateway/v1/chat/completions
      model: groq-3-lpx
      temperature: 0.0
      max_tokens: 2048
      stream: true
    tools:
      parallel: true
      max_parallel: 4
      timeout_ms: 3000
      retry: 1
    cache:
      tool_result_ttl_seconds: 60
      prefix_cache: true

`tools` and `cache` may also stand inside `inference`, and what is in `inference` without it: people
copy the block from where its indentation is lost. Whatever else is there is an error: a setting
whose name has a typo would otherwise seem declared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import yaml
from django.utils.translation import gettext as _

from tracebudget.core.gateway import SETTINGS, Gateway, Setting, Value

MAX_CHARS = 10_000  # a hundred times what the settings need
MAX_TEXT = 200  # of a model's name or an address; names are cut there when they are stored
INFERENCE = "inference"
SECTIONS = (INFERENCE, "tools", "cache")
TAGS = {
    "tag:yaml.org,2002:bool": bool,
    "tag:yaml.org,2002:int": int,
    "tag:yaml.org,2002:float": float,
}


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong in a line of the file, and what to write instead."""

    line: int
    what: str
    write: str

    def __str__(self) -> str:
        said = {"line": self.line, "what": self.what, "write": self.write}
        return _("Line %(line)s: %(what)s %(write)s") % said


class GatewayFileError(ValueError):
    """The text is no gateway settings; each problem names its line and what to write instead."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def read_gateway(text: str) -> Gateway:
    """The declared settings. Raises GatewayFileError with all that is wrong, not only the first."""
    root = _compose(text)
    reader = _Reader()
    if root is not None:
        reader.read(root)
    if reader.problems:
        raise GatewayFileError(sorted(reader.problems, key=lambda problem: problem.line))
    return Gateway(**reader.values)


def write_gateway(gateway: Gateway) -> str:
    """The settings as a file that `read_gateway` reads back; "" for none."""
    sections: dict[str, dict[str, Value]] = {}
    for name, value in gateway.settings().items():
        sections.setdefault(SETTINGS[name].section, {})[name] = value
    return yaml.safe_dump(sections, sort_keys=False, allow_unicode=True) if sections else ""


def _compose(text: str) -> yaml.Node | None:
    """The file as nodes, which know their lines. Aliases are not followed further than we read."""
    if len(text) > MAX_CHARS:
        problem = Problem(
            1,
            _("The text is longer than %(most)s characters.") % {"most": MAX_CHARS},
            _("Keep only the sections inference, tools and cache."),
        )
        raise GatewayFileError([problem])
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise GatewayFileError([_broken(mark.line + 1 if mark else 1, error.problem)]) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise GatewayFileError([_broken(1, str(error))]) from error
    return node


def _broken(line: int, problem: str | None) -> Problem:
    return Problem(
        line,
        _("This is no YAML: %(problem)s.") % {"problem": problem or _("it cannot be read")},
        _("Write a name, a colon, a blank and a value; indent with blanks."),
    )


class _Reader:
    """Walks the nodes, and collects settings and problems."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.seen: set[str] = set()
        self.problems: list[Problem] = []

    def read(self, root: yaml.Node) -> None:
        self._read_names(root, (*SECTIONS, *_names_in(INFERENCE)))

    def _read_section(self, section: str, node: yaml.Node) -> None:
        inside = SECTIONS[1:] if section == INFERENCE else ()
        self._read_names(node, (*_names_in(section), *inside))

    def _read_names(self, node: yaml.Node, known: Sequence[str]) -> None:
        for line, name, value in self._entries(node):
            if name not in known:
                self._complain(line, *_unknown(name, known))
            elif name in SECTIONS:
                self._read_section(name, value)
            else:
                self._read_setting(line, name, value)

    def _read_setting(self, line: int, name: str, node: yaml.Node) -> None:
        if name in self.seen:
            what = _("%(name)s stands here a second time.") % {"name": name}
            self._complain(line, what, _("Keep one of the two."))
            return
        self.seen.add(name)
        try:
            self.values[name] = _value(name, SETTINGS[name], node)
        except _NotAllowedError as error:
            self._complain(line, error.what, error.write)

    def _entries(self, node: yaml.Node) -> Iterator[tuple[int, str, yaml.Node]]:
        """Line, name and value of each entry of a section."""
        if isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null":
            return
        line = node.start_mark.line + 1
        if not isinstance(node, yaml.MappingNode):
            what = _("Here must stand names with values.")
            self._complain(line, what, _("Write one `name: value` a line, indented alike."))
            return
        names: set[str] = set()
        for key, value in node.value:
            name, line = _name(key), key.start_mark.line + 1
            if name in names and name in SECTIONS:
                what = _("%(name)s stands here a second time.") % {"name": name}
                self._complain(line, what, _("Put both together."))
                continue
            names.add(name)
            yield line, name, value

    def _complain(self, line: int, what: str, write: str) -> None:
        self.problems.append(Problem(line, what, write))


def _names_in(section: str) -> list[str]:
    return [name for name, setting in SETTINGS.items() if setting.section == section]


def _name(key: yaml.Node) -> str:
    return str(key.value) if isinstance(key, yaml.ScalarNode) else "?"


def _unknown(name: str, known: Sequence[str]) -> tuple[str, str]:
    return (
        _("There is no setting “%(name)s” here.") % {"name": name[:MAX_TEXT]},
        _("Here may stand: %(known)s.") % {"known": ", ".join(known)},
    )


class _NotAllowedError(Exception):
    """A value that may not stand at its place."""

    def __init__(self, what: str, write: str) -> None:
        super().__init__(what)
        self.what, self.write = what, write


def _value(name: str, setting: Setting, node: yaml.Node) -> Value:
    if not isinstance(node, yaml.ScalarNode) or not node.value:
        raise _NotAllowedError(_("%(name)s has no value.") % {"name": name}, _expected(setting))
    if setting.kind is str:
        return _text(name, node.value)
    kind = TAGS.get(node.tag)
    if kind is not setting.kind and not (setting.kind is float and kind is int):
        raise _NotAllowedError(
            _("%(name)s is %(value)s.") % {"name": name, "value": node.value[:MAX_TEXT]},
            _expected(setting),
        )
    if setting.kind is bool:
        return node.value.lower() in {"true", "yes", "on"}
    return _number(name, setting, node)


def _number(name: str, setting: Setting, node: yaml.ScalarNode) -> float:
    try:
        number = setting.kind(node.value)
    except ValueError:  # YAML knows more ways to write a number (0x10, 1:30) than anybody reads
        number = None
    if number is None or not setting.least <= number <= setting.most:
        raise _NotAllowedError(
            _("%(name)s is %(value)s.") % {"name": name, "value": node.value[:MAX_TEXT]},
            _expected(setting),
        )
    return float(number) if setting.kind is float else int(number)


def _expected(setting: Setting) -> str:
    if setting.kind is bool:
        return _("Write true or false.")
    if setting.kind is str:
        return _("Write a text.")
    bounds = {"least": f"{setting.least:g}", "most": f"{setting.most:,.0f}"}
    if setting.kind is int:
        return _("Write a whole number from %(least)s to %(most)s.") % bounds
    return _("Write a number from %(least)s to %(most)s.") % bounds


def _text(name: str, value: str) -> str:
    if len(value) > MAX_TEXT or not value.isprintable():
        raise _NotAllowedError(
            _("%(name)s is no name.") % {"name": name},
            _("Write up to %(most)s printable characters.") % {"most": MAX_TEXT},
        )
    if name == "endpoint":
        _check_endpoint(value)
    return value


def _check_endpoint(value: str) -> None:
    """An address without secrets: everybody in the project may read it."""
    write = _("Write an address like http://gateway/v1/chat/completions.")
    try:
        parts = urlsplit(value)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname)
        is_open = parts.username is None and parts.password is None and not parts.query
        parts.port  # noqa: B018  (raises for a port that is none)
    except ValueError:
        is_address, is_open = False, True
    if not is_address:
        raise _NotAllowedError(_("endpoint is no address of a gateway."), write)
    if not is_open:
        raise _NotAllowedError(
            _("endpoint has a name, a password or a query in it."),
            _("Leave them out: settings are no place for secrets."),
        )
