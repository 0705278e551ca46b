"""Finds files that lie in installed packages, without importing the package."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def package_folder(name: str) -> Path:
    """The folder of the installed package. ModuleNotFoundError when it is not installed."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"The package {name} is not installed: run `make setup`")
    return Path(spec.origin).parent
