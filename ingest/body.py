"""Reading a request's body under a cap, before and after inflating."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, Protocol

from django.conf import settings
from django.http import HttpRequest

from ingest.errors import OtlpError

GZIP_MAGIC = b"\x1f\x8b"
CHUNK_BYTES = 64 * 1024
PIECE_BYTES = 1024 * 1024  # inflated at one time
MAX_MEMBERS = 100  # real senders write one; a million empty ones would keep a process busy
GZIP = zlib.MAX_WBITS | 16
RAW_DEFLATE = -zlib.MAX_WBITS  # what some senders mean by "deflate", against RFC 9110


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def read_body(request: HttpRequest) -> bytes:
    """The inflated body. OtlpError: 400 broken, 413 above a cap, 415 unknown encoding."""
    encoding = _encoding(request)
    if not encoding:
        return read_capped(request)
    if encoding == "deflate":
        wire = read_capped(request)
        window = zlib.MAX_WBITS if _has_zlib_header(wire) else RAW_DEFLATE
        return inflate(wire, window=window, cap=settings.MAX_INFLATED_BYTES)
    if encoding in {"gzip", "x-gzip"}:
        return inflate(read_capped(request), window=GZIP, cap=settings.MAX_INFLATED_BYTES)
    raise OtlpError(
        415, f"Content-Encoding {encoding!r} is not supported: send gzip, deflate or none."
    )


def read_capped(request: HttpRequest) -> bytes:
    """The bytes as sent; too many are refused by their declared length, else while reading."""
    cap = settings.MAX_BODY_BYTES
    declared = _declared_length(request)
    if declared is not None and declared > cap:
        raise _too_large("MAX_BODY_BYTES", cap)
    chunks, size = [], 0
    try:
        stream = _stream(request)
        while chunk := stream.read(CHUNK_BYTES):
            size += len(chunk)
            if size > cap:
                raise _too_large("MAX_BODY_BYTES", cap)
            chunks.append(chunk)
    except OSError as error:
        raise OtlpError(400, f"The body could not be read to its end: {error}") from error
    if declared is not None and size < declared:
        raise OtlpError(400, f"The body ended after {size} of {declared} bytes.")
    return b"".join(chunks)


def inflate(wire: bytes, *, window: int, cap: int) -> bytes:
    """Undo gzip (of one or more members) or deflate; stops once the result passes `cap` bytes.

    `window` is zlib's `wbits`, which also says which of the formats it is.
    """
    pieces: list[bytes] = []
    room = cap
    for piece in _inflated(wire, window):
        room -= len(piece)
        if room < 0:
            raise _too_large("MAX_INFLATED_BYTES", cap)
        pieces.append(piece)
    return b"".join(pieces)


def _inflated(wire: bytes, window: int) -> Iterator[bytes]:
    """Piece by piece: most bodies are one, and of a bomb no more is in memory than is let in."""
    for _ in range(MAX_MEMBERS):
        inflater = zlib.decompressobj(window)
        yield from _member(inflater, wire)
        wire = inflater.unused_data
        if not wire:
            return
    raise OtlpError(400, f"The compressed body has more than {MAX_MEMBERS} members.")


def _member(inflater: Any, wire: bytes) -> Iterator[bytes]:
    try:
        while not inflater.eof:
            piece = inflater.decompress(wire, PIECE_BYTES)
            wire = inflater.unconsumed_tail
            if not piece and not inflater.eof:
                raise OtlpError(400, "The compressed body is cut short.")
            yield piece
    except zlib.error as error:
        raise OtlpError(400, f"The compressed body is broken: {error}") from error


def _encoding(request: HttpRequest) -> str:
    """What the body was compressed with, "" for nothing."""
    named = request.headers.get("Content-Encoding", "").lower().split(",")
    return ",".join(name.strip() for name in named if name.strip() not in {"", "identity"})


def _has_zlib_header(wire: bytes) -> bool:
    """The method, and a checksum over both bytes."""
    head = int.from_bytes(wire[:2], "big")
    return head >> 8 & 0x0F == zlib.DEFLATED and head % 31 == 0


def _stream(request: HttpRequest) -> Readable:
    """Where to read from. Django takes a chunked body, which has no length, for an empty one.

    A server that ends the input itself says so, and can be read directly.
    """
    if request.META.get("wsgi.input_terminated"):
        stream: Readable = request.META["wsgi.input"]
        return stream
    return request


def _declared_length(request: HttpRequest) -> int | None:
    text = request.META.get("CONTENT_LENGTH") or ""
    return int(text) if text.isascii() and text.isdigit() else None


def _too_large(setting: str, cap: int) -> OtlpError:
    limit = f"TRACEBUDGET_{setting}, {cap} bytes"
    return OtlpError(413, f"The body is larger than {limit}. Send smaller batches or raise it.")
