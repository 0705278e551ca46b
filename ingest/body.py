"""Reading a request's body under a cap, before and after inflating."""

from __future__ import annotations

import zlib
from typing import Protocol

from django.conf import settings
from django.http import HttpRequest

from ingest.errors import OtlpError

GZIP_MAGIC = b"\x1f\x8b"
CHUNK_BYTES = 64 * 1024
GZIP_OR_ZLIB = zlib.MAX_WBITS | 32  # zlib looks at the header and takes either
RAW_DEFLATE = -zlib.MAX_WBITS  # what some senders mean by "deflate", against RFC 9110


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def read_body(request: HttpRequest) -> bytes:
    """The inflated body. OtlpError: 400 broken, 413 above a cap, 415 unknown encoding."""
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in {"", "identity", "gzip", "x-gzip", "deflate"}:
        raise OtlpError(
            415, f"Content-Encoding {encoding!r} is not supported: send gzip, deflate or none."
        )
    wire = read_capped(request)
    return wire if encoding in {"", "identity"} else inflate(wire, cap=settings.MAX_INFLATED_BYTES)


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


def inflate(wire: bytes, *, cap: int) -> bytes:
    """Undo gzip (of one or more members) or deflate; stops once the result passes `cap` bytes."""
    whole = b""
    while True:
        inflater = zlib.decompressobj(GZIP_OR_ZLIB if _has_header(wire) else RAW_DEFLATE)
        try:
            whole += inflater.decompress(wire, cap + 1 - len(whole))
        except zlib.error as error:
            raise OtlpError(400, f"The compressed body is broken: {error}") from error
        if len(whole) > cap:
            raise _too_large("MAX_INFLATED_BYTES", cap)
        if not inflater.eof:
            raise OtlpError(400, "The compressed body is cut short.")
        wire = inflater.unused_data
        if not wire:
            return whole


def _has_header(wire: bytes) -> bool:
    """gzip's magic, or a zlib header: the method, and a checksum over both bytes."""
    is_zlib = wire[:1] != b"" and wire[0] & 0x0F == zlib.DEFLATED
    return wire[:2] == GZIP_MAGIC or (is_zlib and int.from_bytes(wire[:2], "big") % 31 == 0)


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
    return OtlpError(
        413,
        f"The body is larger than {setting}, {cap} bytes. Send smaller batches or raise it.",
    )
