"""Marks of the tests that prove a rule: on which side of it they stand.

Every rule has a test with the fault, in which it fires with the right numbers; one without the
fault, in which it is silent; and, where it can lack the evidence, one in which it says so.
`test_finding.py` holds the marks against the registry.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections import defaultdict
from importlib import import_module

import pytest

from tests.core import detectors

FIRES, SILENT, UNKNOWN = "fires", "silent", "unknown"

proves = pytest.mark.proves


def proofs() -> dict[str, set[str]]:
    """The sides on which each code is proved by the tests of this package."""
    sides: defaultdict[str, set[str]] = defaultdict(set)
    for module in pkgutil.iter_modules(detectors.__path__, "tests.core.detectors."):
        for _, test in inspect.getmembers(import_module(module.name), inspect.isfunction):
            for mark in getattr(test, "pytestmark", ()):
                if mark.name == proves.name:
                    code, *on = mark.args
                    sides[code].update(on)
    return dict(sides)
