"""Bodies are read under a cap, before and after inflating."""

from __future__ import annotations

import gzip
import io
import random
import tracemalloc
import zlib
from typing import Any

import pytest
from django.http import HttpRequest
from django.test import RequestFactory
from pytest_django import Settings

from ingest.body import GZIP, PIECE_BYTES, inflate, read_body
from ingest.errors import OtlpError

MIB = 1024 * 1024


def post(body: bytes, encoding: str = "", **environ: Any) -> HttpRequest:
    headers = {"content-encoding": encoding} if encoding else {}
    return RequestFactory().post(
        "/v1/traces", body, content_type="application/json", headers=headers, **environ
    )


def refusal(request: HttpRequest) -> OtlpError:
    with pytest.raises(OtlpError) as caught:
        read_body(request)
    return caught.value


RAW_DEFLATE = zlib.compressobj(wbits=-15)


@pytest.mark.parametrize(
    ("encoding", "wire"),
    [
        ("", b"spans"),
        ("identity", b"spans"),
        ("identity, gzip", gzip.compress(b"spans")),
        ("gzip", gzip.compress(b"spans")),
        ("GZIP ", gzip.compress(b"spans")),
        ("x-gzip", gzip.compress(b"spans")),
        ("deflate", zlib.compress(b"spans")),
        ("deflate", RAW_DEFLATE.compress(b"spans") + RAW_DEFLATE.flush()),
        ("gzip", gzip.compress(b"spa") + gzip.compress(b"ns")),
    ],
    ids=[
        "none",
        "identity",
        "both",
        "gzip",
        "spelling",
        "x-gzip",
        "zlib",
        "raw deflate",
        "two members",
    ],
)
def test_body_is_read_and_inflated(encoding: str, wire: bytes) -> None:
    assert read_body(post(wire, encoding)) == b"spans"


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip,gzip"])
def test_unknown_encoding_is_415(encoding: str) -> None:
    error = refusal(post(b"x", encoding))
    assert error.status == 415
    assert encoding in error.message


@pytest.mark.parametrize(
    "wire",
    [
        b'{"resourceSpans": []}',
        b"",
        gzip.compress(b"spans")[:-3],
        gzip.compress(b"spans")[:-8] + b"\0" * 8,
        gzip.compress(b"spans") + b"garbage",
    ],
    ids=["plain text", "empty", "cut short", "wrong checksum", "garbage behind"],
)
def test_broken_gzip_is_400(wire: bytes) -> None:
    assert refusal(post(wire, "gzip")).status == 400


def test_broken_deflate_is_400() -> None:
    assert refusal(post(b"plain text", "deflate")).status == 400


def test_body_above_the_cap_is_413_and_names_the_setting(settings: Settings) -> None:
    settings.MAX_BODY_BYTES = 10
    assert read_body(post(b"0123456789")) == b"0123456789"
    error = refusal(post(b"0123456789a"))
    assert error.status == 413
    assert "MAX_BODY_BYTES" in error.message


def test_declared_length_is_refused_before_anything_is_read(settings: Settings) -> None:
    settings.MAX_BODY_BYTES = 10
    request = post(b"")
    request.META["CONTENT_LENGTH"] = "11"
    request.META["wsgi.input"] = None
    assert refusal(request).status == 413


class Endless(io.RawIOBase):
    """A chunked body that never ends; counts what was taken from it."""

    taken = 0

    def read(self, size: int = -1, /) -> bytes:
        self.taken += size
        return b" " * size


def chunked(stream: Any) -> HttpRequest:
    """A body without a length, whose end the server marks."""
    request = post(b"")
    request.META.pop("CONTENT_LENGTH", None)
    request.META |= {"wsgi.input": stream, "wsgi.input_terminated": True}
    return request


def test_chunked_body_is_read_to_its_end() -> None:
    assert read_body(chunked(io.BytesIO(b"spans"))) == b"spans"


def test_endless_body_is_refused_while_reading(settings: Settings) -> None:
    settings.MAX_BODY_BYTES = MIB
    stream = Endless()
    assert refusal(chunked(stream)).status == 413
    assert stream.taken < 2 * MIB


def test_body_shorter_than_declared_is_400() -> None:
    request = chunked(io.BytesIO(b"span"))
    request.META["CONTENT_LENGTH"] = "5"
    assert refusal(request).status == 400


def test_broken_connection_is_400() -> None:
    class Broken(io.RawIOBase):
        def read(self, size: int = -1, /) -> bytes:
            raise ConnectionResetError("peer is gone")

    error = refusal(chunked(Broken()))
    assert error.status == 400
    assert "peer is gone" in error.message


def test_bomb_is_refused_with_flat_memory(settings: Settings) -> None:
    bomb = gzip.compress(b" " * 256 * MIB)
    settings.MAX_INFLATED_BYTES = MIB
    tracemalloc.start()
    error = refusal(post(bomb, "gzip"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert error.status == 413
    assert "MAX_INFLATED_BYTES" in error.message
    assert peak < 8 * MIB


@pytest.mark.parametrize("size", [PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES])
def test_bodies_of_several_pieces_are_whole(size: int) -> None:
    content = random.Random(1).randbytes(size)
    for wire in (gzip.compress(content, 0), gzip.compress(content)):
        assert inflate(wire, window=GZIP, cap=size) == content


def test_a_million_members_end_quickly() -> None:
    error = refusal(post(gzip.compress(b"") * 1000, "gzip"))
    assert error.status == 400
    assert "members" in error.message


def test_cap_counts_all_members_together() -> None:
    members = gzip.compress(b"12345") * 2
    assert inflate(members, window=GZIP, cap=10) == b"1234512345"
    with pytest.raises(OtlpError):
        inflate(members, window=GZIP, cap=9)
