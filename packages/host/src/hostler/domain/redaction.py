"""Redaction: text without known secrets, and without what has the shape of a key or token."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

MARK = "***"
MIN_SECRET_CHARS = 6
"""Shorter values are not redacted: they occur in ordinary text, which would be garbled, and tell what they
are by where they are missing."""
_SHAPES = re.compile(
    r"""
    \bhostler_(?:run_)?[A-Za-z0-9_-]{40,200}              # keys and run tokens of Hostler
    | \b(?:sk|pk|rk)-(?:[a-z]{1,20}-)?[A-Za-z0-9_-]{16,500}    # model services
    | \b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}
    | \bgh[pousr]_[A-Za-z0-9]{30,} | \bgithub_pat_[A-Za-z0-9_]{30,}
    | \bglpat-[A-Za-z0-9_-]{16,}
    | \bxox[abeoprs]-[A-Za-z0-9-]{10,}
    | \bA(?:KIA|SIA)[A-Z0-9]{16}\b
    | \bAIza[A-Za-z0-9_-]{35}
    | \bey[A-Za-z0-9_-]{8,500}\.ey[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,1000}   # JSON web tokens
    | (?<=://)[^\s/:@]{1,200}:[^\s/@]{1,500}(?=@)          # user and password of an address
    | (?i:(?<=\bbearer\ )|(?<=\bbasic\ ))[A-Za-z0-9._~+/=-]{16,}
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----[^-]{0,20000}(?:-----END\ [A-Z ]*PRIVATE\ KEY-----)?
    """,
    re.VERBOSE,
)


def forms_of(secret: str) -> Iterator[str]:
    """Yield the forms in which a secret is found in text: as it is, escaped, and encoded."""
    raw = secret.encode("utf-8", "surrogatepass")
    yield quote(secret, safe="")
    yield quote(secret)
    yield quote_plus(secret)
    yield repr(secret)[1:-1]
    yield from plain_forms(secret)
    yield raw.hex()
    for shift in range(3):  # a part of a longer text in base64 begins at any of three places
        encoded = base64.b64encode(b"\0" * shift + raw).decode()
        inner = encoded[(0, 2, 3)[shift] : len(encoded) - (0, 3, 2)[(len(raw) + shift) % 3]]
        yield inner
        yield inner.replace("+", "-").replace("/", "_")


def plain_forms(secret: str) -> tuple[str, ...]:
    """Return the forms in which a program prints a secret: as it is, and escaped as in JSON.

    JSON may leave characters that are not ASCII as they are.
    """
    escaped = "".join(_escaped(char) for char in secret)
    as_is = "".join(_escaped(char) if char.isascii() else char for char in secret)
    return tuple({secret, escaped, as_is})


class KnownSecrets:
    """Finds known secrets in texts, in all their forms. The time does not grow with their number, but with
    that of their different lengths where they begin alike."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets if len(secret) >= MIN_SECRET_CHARS for form in forms_of(secret)}
        self._forms = frozenset(form for form in forms if len(form) >= MIN_SECRET_CHARS)
        self._lengths: dict[str, list[int]] = {}
        """First characters -> the lengths of the forms that begin with them, the longest first. Many secrets
        begin alike and few have lengths of their own, so a place in a text takes few looks."""
        for form in self._forms:
            self._lengths.setdefault(form[:MIN_SECRET_CHARS], []).append(len(form))
        for begin, lengths in self._lengths.items():
            self._lengths[begin] = sorted(set(lengths), reverse=True)

    def replaced(self, text: str) -> str:
        """Return a text with a mark in the place of each secret; of two at one place the longer one."""
        if not self._forms:
            return text
        kept: list[str] = []
        begin = at = 0
        forms, lengths, end = self._forms, self._lengths, len(text) - MIN_SECRET_CHARS
        while at <= end:
            likely = lengths.get(text[at : at + MIN_SECRET_CHARS], ())
            length = next((one for one in likely if text[at : at + one] in forms), None)
            if length is None:
                at += 1
                continue
            kept += (text[begin:at], MARK)
            begin = at = at + length
        return "".join([*kept, text[begin:]]) if kept else text


def without_tokens(text: str) -> str:
    """Return a text with a mark in the place of what looks like a key or token."""
    return _SHAPES.sub(MARK, text)


def _escaped(char: str) -> str:
    """Return a character as in a JSON text."""
    if char in '"\\':
        return f"\\{char}"
    if " " <= char <= "~":
        return char
    short = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return short.get(char) or "".join(f"\\u{unit:04x}" for unit in _units(char))


def _units(char: str) -> Iterator[int]:
    raw = char.encode("utf-16-be", "surrogatepass")
    return (int.from_bytes(raw[at : at + 2]) for at in range(0, len(raw), 2))
