"""Redaction: text without known secrets, and without what has the shape of a key or token."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote

MARK = "***"
MIN_SECRET_CHARS = 6
"""Shorter values are not redacted: they occur in ordinary text, which would be garbled, and tell what they
are by where they are missing."""
_SHAPES = re.compile(
    r"""
    \bhostler_[A-Za-z0-9_-]{40,}                          # keys of Hostler
    | \b(?:sk|pk|rk)-(?:[a-z]+-)?[A-Za-z0-9_-]{16,}       # model services, payment services
    | \b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}
    | \bgh[pousr]_[A-Za-z0-9]{30,} | \bgithub_pat_[A-Za-z0-9_]{30,}
    | \bglpat-[A-Za-z0-9_-]{16,}
    | \bxox[abeoprs]-[A-Za-z0-9-]{10,}
    | \bA(?:KIA|SIA)[A-Z0-9]{16}\b
    | \bAIza[A-Za-z0-9_-]{35}
    | \bey[A-Za-z0-9_-]{8,}\.ey[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}   # JSON web tokens
    | (?<=://)[^\s/:@]{1,200}:[^\s/@]{1,500}(?=@)          # user and password of an address
    | (?i:(?<=\bbearer\ )|(?<=\bbasic\ ))[A-Za-z0-9._~+/=-]{16,}
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----[^-]{0,20000}(?:-----END\ [A-Z ]*PRIVATE\ KEY-----)?
    """,
    re.VERBOSE,
)


def forms_of(secret: str) -> Iterator[str]:
    """Yield the forms in which a secret is found in text: as it is, escaped, and encoded."""
    raw = secret.encode("utf-8", "surrogatepass")
    yield secret
    yield quote(secret, safe="")
    yield quote(secret)
    yield repr(secret)[1:-1]
    yield "".join(_escaped(char) for char in secret)
    yield raw.hex()
    for shift in range(3):  # a part of a longer text in base64 begins at any of three places
        encoded = base64.b64encode(b"\0" * shift + raw).decode()
        inner = encoded[(0, 2, 3)[shift] : len(encoded) - (0, 3, 2)[(len(raw) + shift) % 3]]
        yield inner
        yield inner.replace("+", "-").replace("/", "_")


def pattern_of(secrets: Iterable[str]) -> re.Pattern[str] | None:
    """Return a pattern that finds these secrets in all their forms; None for none.

    A secret that contains another one is found as a whole.
    """
    forms = {
        form
        for secret in secrets
        if len(secret) >= MIN_SECRET_CHARS
        for form in forms_of(secret)
        if len(form) >= MIN_SECRET_CHARS
    }
    if not forms:
        return None
    return re.compile("|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True)))


def redacted(text: str, known: re.Pattern[str] | None) -> str:
    """Return a text without the known secrets, and without what looks like a key or token."""
    if known is not None:
        text = known.sub(MARK, text)
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
