"""Stored bytes as a response: whole or one range, with headers that keep browsers from running them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from urllib.parse import quote

from hostler.domain.record import Record
from hostler.http.endpoint import Media
from hostler.http.ranges import etag_matches, parse_range
from hostler.http.request import ApiRequest
from hostler.http.responses import Empty, Headers, StreamedBody

BINARY = {"type": "string", "format": "binary"}
RANGE = Media("application/octet-stream", "The requested range", schema=BINARY)
BYTES = Media("application/octet-stream", "The content, of its own type", schema=BINARY)
_UNSAFE_IN_FILENAME = re.compile(r'[^\x20-\x7e]|["\\/%]')


class Download(Record):
    """What is stored. `stream` yields the bytes of a range: its offset and length."""

    name: str | None
    mime_type: str
    sha256: str
    size_bytes: int
    stream: Callable[[int, int], AsyncIterator[bytes]]


def download(request: ApiRequest, stored: Download) -> StreamedBody | Empty:
    """Return the content, or what the request's Range, If-Range and If-None-Match say of it."""
    etag = f'"{stored.sha256}"'
    headers: Headers = [(b"etag", etag.encode()), (b"accept-ranges", b"bytes")]
    if etag_matches(request.headers.get("if-none-match"), etag, weakly=True):
        return Empty(304, headers)
    byte_range = None
    condition = request.headers.get("if-range")
    if condition is None or etag_matches(condition, etag, weakly=False):
        byte_range = parse_range(request.headers.get("range"), stored.size_bytes)
    offset, length = byte_range or (0, stored.size_bytes)
    headers += [
        (b"content-type", stored.mime_type.encode("ascii", "replace")),
        (b"content-disposition", content_disposition(stored.name)),
        (b"content-security-policy", b"default-src 'none'; sandbox"),
    ]
    if byte_range is not None:
        content_range = b"bytes %d-%d/%d" % (offset, offset + length - 1, stored.size_bytes)
        headers.append((b"content-range", content_range))
    status = 200 if byte_range is None else 206
    return StreamedBody(stored.stream(offset, length), length, status, headers, request.while_key_is_valid)


def content_disposition(name: str | None) -> bytes:
    """Return a Content-Disposition: always an attachment, which no browser shows as a page of the host."""
    if not name:
        return b"attachment"
    ascii_name = _UNSAFE_IN_FILENAME.sub("_", name)
    encoded = quote(name.encode("utf-8", "replace"), safe="")
    return f"attachment; filename=\"{ascii_name}\"; filename*=UTF-8''{encoded}".encode("ascii")
