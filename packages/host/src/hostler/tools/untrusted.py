"""Decode responses of other servers: media type, text, errors. Pure."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from http import HTTPStatus

from hostler_protocol.errors import (
    ConflictError,
    HostlerError,
    InvalidArgumentError,
    NotFoundError,
    PayloadTooLargeError,
    RateLimitedError,
)

_TEXT_KINDS = frozenset(
    {
        "application/ecmascript",
        "application/javascript",
        "application/json",
        "application/sql",
        "application/toml",
        "application/x-javascript",
        "application/x-ndjson",
        "application/x-sh",
        "application/x-www-form-urlencoded",
        "application/x-yaml",
        "application/xml",
        "application/yaml",
    }
)
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_HEAD_BYTES = 1024
"""Where a page may declare its charset, as in browsers."""
_UNLIKE_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
DEFAULT_RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 86_400.0


def kind_of(headers: Mapping[str, str]) -> str:
    """Return the media type in lower case, without parameters; empty if there is none."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()[:100]


def is_text(kind: str, body: bytes) -> bool:
    """Whether a body is text, by its type or else by its first bytes."""
    if kind.startswith("text/") or kind in _TEXT_KINDS or kind.endswith(("+json", "+xml", "+yaml")):
        return True
    return kind == "" and _UNLIKE_TEXT.search(body[:_HEAD_BYTES]) is None


def decoded(headers: Mapping[str, str], body: bytes) -> str:
    """Decode a body by its byte order mark, else its declared charset, else the one declared in a page, else
    as UTF-8, else as Windows-1252, like browsers. Invalid bytes are replaced.
    """
    for mark, charset in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(charset, "replace")
    stated = _codec(headers.get("content-type", ""))
    if stated is None and kind_of(headers) in ("text/html", "application/xhtml+xml", ""):
        stated = _codec(body[:_HEAD_BYTES].decode("latin-1"))
    if stated is not None:
        return body.decode(stated, "replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        cut_at_end = error.start > len(body) - 4
        return body.decode("utf-8" if cut_at_end else "cp1252", "replace")


def _codec(text: str) -> str | None:
    found = _CHARSET.search(text)
    if found is None:
        return None
    try:
        codec = codecs.lookup(found[1])
    except (LookupError, ValueError):
        return None
    if not codec._is_text_encoding:  # such as hex and zlib, which are no characters
        return None
    return "cp1252" if codec.name in ("iso8859-1", "ascii") else codec.name


def status_text(status: int) -> str:
    """Format a status, like `404 Not Found`."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a Retry-After header; None if it is absent or a date."""
    asked = headers.get("retry-after", "").strip()
    if not asked.isascii() or not asked.isdecimal() or len(asked) > 9:
        return None
    return min(float(asked), MAX_RETRY_SECONDS)


def error_of(status: int, headers: Mapping[str, str], message: str) -> HostlerError:
    """Return the error for a status."""
    match status:
        case 400 | 422:
            return InvalidArgumentError(message)
        case 404 | 410:
            return NotFoundError(message)
        case 409 | 412:
            return ConflictError(message)
        case 413:
            return PayloadTooLargeError(message)
        case 429:
            return RateLimitedError(message, retry_after=retry_after(headers) or DEFAULT_RETRY_SECONDS)
        case _:
            return HostlerError(message)
