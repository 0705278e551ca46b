"""The log, as text for people or JSON for machines, and the one log that `up` makes of many."""

from __future__ import annotations

import json
import logging
import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import IO, Any


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class MergedLog:
    """Many processes' lines in one stream, each with time and process. Safe between threads."""

    def __init__(self, stream: IO[str], *, as_json: bool) -> None:
        self._stream = stream
        self._as_json = as_json
        self._line = _json_line if as_json else _text_line
        self._lock = threading.Lock()

    def write(self, process: str, message: str) -> None:
        self._write(self._line(datetime.now(UTC), process, message))

    def announce(self, text: str) -> None:
        """Say something of our own. In a log for people it stands out: without time and name."""
        self._write(_json_line(datetime.now(UTC), "up", text) if self._as_json else text)

    def _write(self, text: str) -> None:
        with self._lock, suppress(OSError):  # nobody listens any more: no reason to stop working
            self._stream.write(text + "\n")
            self._stream.flush()


def _text_line(now: datetime, process: str, message: str) -> str:
    return f"{now.astimezone():%H:%M:%S} {process:<8} | {message}"


def _json_line(now: datetime, process: str, message: str) -> str:
    """A line that is a JSON object already keeps its keys and gains the process."""
    line = {"time": now.isoformat(timespec="milliseconds"), "process": process}
    return json.dumps(line | (_json_object(message) or {"message": message}), ensure_ascii=False)


def _json_object(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        value: dict[str, Any] = json.loads(text)
    except ValueError:
        return None
    return value
