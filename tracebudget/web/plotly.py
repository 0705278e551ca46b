"""The browser's half of Plotly, `vendor/plotly.min.js`, from the installed `plotly` package."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage, Storage

from tracebudget.runtime.packages import package_folder

FILE_NAME = "plotly.min.js"


class PlotlyFinder(BaseFinder):
    """A static-files finder for that one file; the package holds more that nobody asks for."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.storage = FileSystemStorage(package_folder("plotly") / "package_data")
        self.storage.prefix = "vendor"  # type: ignore[attr-defined]  # collectstatic and find() read it

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        found = self.storage.path(FILE_NAME) if path == f"vendor/{FILE_NAME}" else None
        return [found] * bool(found) if find_all else found

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterable[tuple[str, Storage]]:
        yield FILE_NAME, self.storage
