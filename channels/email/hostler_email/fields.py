"""The header fields of a mail, of which nothing can be trusted: read within bounds, and never raising."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.utils import getaddresses
from typing import Any

MAX_FIELDS = 1_000
MAX_FIELD_CHARS = 20_000
MAX_NAME_CHARS = 200
MAX_ADDRESSES = 100
MAX_ID_CHARS = 400
MAX_REFERENCES = 100
NO_CHARSETS = {"punycode", "idna", "unicode_escape", "raw_unicode_escape", "undefined", "mbcs", "oem"}
"""Codecs of Python that are no charsets of mails; some of them take time that grows with the square."""
ADDRESS = re.compile(r"[^\s@<>()\[\]\\,;:\"\x00-\x1f\x7f]{1,64}@[^\s@<>()\[\]\\,;:\"\x00-\x1f\x7f]{1,253}")
MESSAGE_ID = re.compile(rf"<[!-;=?-~]{{1,{MAX_ID_CHARS}}}>")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_BREAKS = re.compile(r"[\s\x00-\x1f\x7f\u2028\u2029]+")


@dataclass(frozen=True, slots=True)
class Address:
    """Somebody in a field. `address` is in lower case."""

    address: str
    name: str | None = None

    @property
    def domain(self) -> str:
        """What is behind the `@`."""
        return self.address.rpartition("@")[2]


def decoded(content: bytes, charset: str | None) -> str:
    """Return a text in some charset; what cannot be read becomes replacement characters."""
    for name in (charset, "utf-8"):
        if name is None:
            continue
        try:
            codec = codecs.lookup(name)
        except (LookupError, ValueError):  # ValueError: of a NUL in the name
            continue
        if codec.name in NO_CHARSETS or not getattr(codec, "_is_text_encoding", True):
            continue
        try:
            return content.decode(codec.name, "replace")
        except (ValueError, LookupError):  # as UTF-16 with a broken end
            continue
    return content.decode("utf-8", "replace")


def visible(text: str) -> str:
    """Return a text without control characters, and such as turn the direction of others."""
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str, most: int) -> str:
    """Return a text as one line of at most so many characters."""
    return visible(_BREAKS.sub(" ", text)).strip()[:most]


class Fields:
    """The header fields of a message, by their names in lower case; only the first `MAX_FIELDS` are read."""

    def __init__(self, message: Message) -> None:
        self._raw: dict[str, list[str]] = {}
        for name, value in list(message.raw_items())[:MAX_FIELDS]:
            self._raw.setdefault(name.lower(), []).append(_unescaped(value))

    def all(self, name: str) -> list[str]:
        """Return the raw values of a field."""
        return self._raw.get(name, [])

    def raw(self, name: str) -> str:
        """Return the raw value of the first field of a name, or an empty text."""
        return next(iter(self.all(name)), "")

    def text(self, name: str, most: int = 1_000) -> str:
        """Return a field as people read it, in one line."""
        return one_line(decoded_words(self.raw(name)), most)

    def addresses(self, name: str) -> list[Address]:
        """Return who is named in all fields of a name."""
        found = []
        for value in self.all(name):
            found += list(_addresses(value))
            if len(found) >= MAX_ADDRESSES:
                break
        return found[:MAX_ADDRESSES]

    def ids(self, name: str) -> list[str]:
        """Return the Message-IDs in a field: the first, and the last ones."""
        found = MESSAGE_ID.findall(" ".join(self.all(name))[: MAX_FIELD_CHARS * 2])
        return found if len(found) <= MAX_REFERENCES else [found[0], *found[1 - MAX_REFERENCES :]]


def _unescaped(value: Any) -> str:
    """Return a raw value: bytes that are no ASCII are UTF-8, or unreadable."""
    text = str(value)[:MAX_FIELD_CHARS]
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def decoded_words(raw: str) -> str:
    """Return a raw value with its encoded words read."""
    try:
        pieces = decode_header(raw)
    except (HeaderParseError, ValueError):
        return raw
    return "".join(piece if isinstance(piece, str) else _word(piece, charset) for piece, charset in pieces)


def _word(piece: bytes, charset: str | None) -> str:
    # without a charset it is what stood around the words, in the escapes of `decode_header`
    if charset is None:
        try:
            return piece.decode("raw-unicode-escape")
        except ValueError:
            return piece.decode("latin-1")
    return decoded(piece, charset)


def _addresses(value: str) -> Iterator[Address]:
    for name, address in getaddresses([value]):
        if ADDRESS.fullmatch(address):
            yield Address(address.lower(), one_line(decoded_words(name), MAX_NAME_CHARS) or None)
