"""Make a new dictionary for `tracebudget.packing` from the recorded fixtures:

    python -m tests.train_dictionary NUMBER

Old dictionaries stay as long as anything that was packed with them, so a new one gets a new number.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import django
import zstandard

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tracebudget.settings")
django.setup()

from ingest.privacy import pass_door  # noqa: E402
from tests.core.reading import FIXTURES, fixture_traces  # noqa: E402
from tracebudget import document, models, packing  # noqa: E402
from tracebudget.core.analysis import analyze  # noqa: E402

BYTES = 24 * 1024  # 16 KiB cost ten bytes a span more; 32 win nothing, and lose it on unlike traces
FOLDERS = ("recorded", "critical_path")


def samples() -> Iterator[bytes]:
    """What is packed of each recorded trace: its spans in both kinds of privacy, its analysis."""
    projects = [models.Project(pk=1, privacy=privacy) for privacy in models.Privacy]
    for path in sorted(path for folder in FOLDERS for path in (FIXTURES / folder).glob("*.json")):
        if path.name == "truth.json":
            continue
        for spans in fixture_traces(str(path.relative_to(FIXTURES))):
            for project in projects:
                yield packing.pack_spans(pass_door(spans, project, bytes(32)))
            yield document.dumps(analyze(spans).document())


def main(number: str) -> None:
    trained = zstandard.train_dictionary(BYTES, list(samples()), level=3, dict_id=int(number))
    (packing.DICTIONARIES / number).write_bytes(trained.as_bytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
