"""Untrusted text on a terminal: invisible and control characters are escaped."""

from __future__ import annotations

import unicodedata

ESCAPED = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def visible(text: str, *, lines: bool = False) -> str:
    """Return text with invisible and control characters escaped. With `lines`, line breaks stay."""
    return "".join(
        char
        if (lines and char == "\n") or unicodedata.category(char) not in ESCAPED
        else f"\\u{ord(char):04x}"
        if ord(char) < 0x10000
        else f"\\U{ord(char):08x}"
        for char in text
    )
