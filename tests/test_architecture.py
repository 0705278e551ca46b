"""The house rules that no reader should have to check: who imports whom, how long things get.

The pipeline's imports point towards the core (docs/architecture.md):

    edges: ingest  web  commands  alerts        shell: tasks, beat, runtime
                \\    \\     |       /             /
                 pipeline, queries, store, keys, ...
                            |
                       core (standard library only)
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("tracebudget", "ingest")
MAX_FUNCTION_LINES = 60

# The schema, and how its rows are made of the core's values.
ROWS = ("models", "partition", "conclusions", "packing")

# What each part may import of ours, named without the leading "tracebudget.". A part may always
# import itself. The longest name that fits a module is its part.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "core": (),
    # storage
    "models": ("core",),
    "partition": ("models",),
    "packing": ("core",),
    "document": (),
    "conclusions": ("models", "core", "packing", "document"),
    "keys": ("models",),
    "metrics": (),
    "sign_in": ("models",),
    "sketch": (),
    "series": ("core", "sketch"),
    "store": (*ROWS, "core", "series", "sketch"),
    "answers": ("models",),
    "queries": (
        *ROWS, "core", "series", "sketch", "document", "answers", "wording",
        "templatetags.duration",
    ),
    # words
    "finding_words": (),
    "wording": ("core", "finding_words", "templatetags.duration"),
    "templatetags": ("core", "wording"),
    "templatetags.charts": ("templatetags.duration",),
    "templatetags.fates": ("models", "queries.receipts"),
    "templatetags.alerts": ("core", "models", "alerts.words", "templatetags.duration"),
    "templatetags.release": ("core", "models", "answers", "release", "templatetags.duration"),
    "summary": ("core", "wording", "templatetags.duration"),
    "budget_file": ("core",),
    # use cases, and the shell around them
    "pipeline": ("store", "conclusions", "core", "metrics"),
    "release": (
        "models", "core", "store", "queries", "series", "finding_words", "wording",
        "templatetags.duration",
    ),
    "learning": ("store", "core"),
    "tasks": ("pipeline", "learning", "store", "partition", "alerts.dispatch", "alerts.watch"),
    "alerts": (
        "models", "core", "finding_words", "wording", "templatetags.duration", "packing", "keys",
        "partition", "metrics", "answers",
    ),
    "runtime": ("models", "keys", "partition", "sign_in", "celery"),
    # made-up traffic
    "demo": ("core.span", "core.budget", "core.gateway"),
    "demo.project": ("demo", "models", "keys"),
    # made-up load, measured
    "bench": ("runtime", "store.arrival", "ingest.otlp"),
    # edges
    "ingest": ("core.span", "core.dialects", "core.content", "store", "models", "keys", "metrics"),
    "web": (
        "queries", "series", "store", "core", "finding_words", "wording", "templatetags",
        "alerts.channel", "alerts.rule", "alerts.telling", "alerts.words", "models", "keys",
        "sign_in", "runtime.packages", "answers", "release", "budget_file",
    ),
    "management": (
        "alerts.vault", "core", "ingest.otlp", "ingest.errors", "ingest.intake", "ingest.receipts",
        "pipeline", "store", "models", "keys", "partition", "sign_in", "runtime", "budget_file",
        "summary", "demo", "document", "queries", "bench", "release", "collector",
    ),
    # what Django and Celery load by name
    "migrations": ("models", "partition"),
    "settings": ("runtime",),
    "otlp_settings": ("settings",),
    "urls": ("probes", "ingest.urls", "web"),
    "otlp_urls": ("probes", "ingest.urls"),
    "apps": ("celery",),
    "beat": (), "celery": ("collector", "runtime.niceness"), "probes": (), "collector": (),
    "wsgi": ("runtime.tether",), "otlp_wsgi": ("runtime.tether", "runtime.spread"),
    "otlp_grpc": ("ingest.rpc", "runtime.addresses"),
}  # fmt: skip

# Libraries that belong to one side. Others are free, but for the core, which has none.
ONLY_FOR = {
    "aiohttp": ("alerts",),
    "celery": ("tasks", "beat", "celery"),
    "cryptography": ("alerts",),
    "kombu": ("beat", "runtime"),
    "google": ("ingest",),
    "grpc": ("ingest",),
    "opentelemetry": ("ingest", "bench", "management", "demo"),
    "standardwebhooks": ("alerts",),
    "granian": (),  # started, never imported
    "plotly": (),  # its file is served, its Python is for tests
}


def modules() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def module_name(path: Path) -> str:
    """`ingest.views`, and `core.span` for tracebudget/core/span.py."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    name = ".".join(part for part in parts if part != "__init__")
    return name.removeprefix("tracebudget").removeprefix(".")


def part_of(name: str) -> str:
    return max((part for part in MAY_IMPORT if is_within(name, part)), key=len, default="")


def is_within(name: str, part: str) -> bool:
    return name == part or name.startswith(part + ".")


def imports(path: Path) -> Iterator[str]:
    """Full names of what a file imports; `from a import b` counts as `a.b`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where a name comes from"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def breaks_the_law(name: str, imported: str) -> bool:
    part, library = part_of(name), imported.partition(".")[0]
    if library == "__future__":
        return False
    if library in PACKAGES:
        ours = imported.removeprefix("tracebudget.")
        allowed = (part, *MAY_IMPORT[part])
        return not any(is_within(ours, other) for other in allowed)
    if part == "core":
        return library not in sys.stdlib_module_names
    return part not in ONLY_FOR.get(library, (part,))


@pytest.mark.parametrize("path", modules(), ids=module_name)
def test_imports_point_towards_the_core(path: Path) -> None:
    name = module_name(path)
    if not name:
        return  # tracebudget/__init__.py, which has a test of its own
    assert part_of(name), f"{name} has no place in MAY_IMPORT"
    assert [imported for imported in imports(path) if breaks_the_law(name, imported)] == []


@pytest.mark.parametrize(
    ("name", "imported"),
    [
        ("core.span", "django.db.models"),
        ("core.span", "tracebudget.models.Trace"),
        ("ingest.views", "tracebudget.tasks.analyze_due"),
        ("ingest.views", "celery.shared_task"),
        ("web.views", "ingest.otlp"),
        ("pipeline", "celery.shared_task"),
        ("store", "google.protobuf.message"),
    ],
)
def test_the_law_has_teeth(name: str, imported: str) -> None:
    assert breaks_the_law(name, imported)


def test_package_is_empty_so_that_the_core_can_be_imported_alone() -> None:
    assert (ROOT / "tracebudget" / "__init__.py").read_text() == ""


def test_core_runs_in_a_bare_interpreter() -> None:
    """Without site-packages: whatever the core imports must be in the standard library."""
    names = [module_name(path) for path in modules() if module_name(path).startswith("core")]
    code = f"""
import importlib, sys
sys.path.insert(0, {str(ROOT)!r})
for name in {names!r}:
    importlib.import_module("tracebudget." + name)
assert not {{"django", "celery"}} & set(sys.modules)
print("imported", len({names!r}))
"""
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False
    )
    assert result.stdout == f"imported {len(names)}\n", result.stderr


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", modules(), ids=module_name)
def test_functions_fit_on_a_screen(path: Path) -> None:
    lengths = {
        function.name: (function.end_lineno or 0) - function.lineno + 1
        for function in functions(path)
    }
    assert {name for name, length in lengths.items() if length > MAX_FUNCTION_LINES} == set()


@pytest.mark.parametrize("path", modules(), ids=module_name)
def test_no_import_hides_in_a_function(path: Path) -> None:
    """But in AppConfig.ready(), which Django wants there."""
    hidden = {
        function.name
        for function in functions(path)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert hidden <= ({"ready"} if path.name == "apps.py" else set())
