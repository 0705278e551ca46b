"""One log of many processes."""

from __future__ import annotations

import io
import json
import logging
import sys

from tracebudget.runtime.log import JsonFormatter, MergedLog


def test_text_lines_tell_their_process() -> None:
    stream = io.StringIO()
    MergedLog(stream, as_json=False).write("web", "hello")
    assert stream.getvalue().endswith(" web      | hello\n")


def test_json_lines_keep_their_keys_and_gain_the_process() -> None:
    stream = io.StringIO()
    log = MergedLog(stream, as_json=True)
    log.write("worker", '{"level": "info", "message": "hello"}')
    log.write("postgres", "LOG:  hello")
    log.write("postgres", "{not json")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["process"], line["message"]) for line in lines] == [
        ("worker", "hello"),
        ("postgres", "LOG:  hello"),
        ("postgres", "{not json"),
    ]
    assert lines[0]["level"] == "info"
    assert all(line["time"] for line in lines)


def test_reader_that_went_away_does_not_stop_us() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    MergedLog(Gone(), as_json=False).write("web", "hello")


def test_formatter_puts_a_traceback_into_its_line() -> None:
    try:
        raise ValueError("no")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "%s", ("oh",), sys.exc_info())
    line = json.loads(JsonFormatter().format(record))
    assert line["message"] == "oh"
    assert line["level"] == "error"
    assert line["traceback"].endswith("ValueError: no")
