"""Text of strangers on a terminal: what one does not see, or a terminal obeys, is spelled out."""

from __future__ import annotations

import unicodedata

ESCAPED = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def visible(text: str, *, lines: bool = False) -> str:
    """A text whose every character can be seen. `lines`: line breaks stay."""
    return "".join(
        char
        if (lines and char == "\n") or unicodedata.category(char) not in ESCAPED
        else f"\\u{ord(char):04x}"
        if ord(char) < 0x10000
        else f"\\U{ord(char):08x}"
        for char in text
    )


__all__ = ["ESCAPED", "visible"]
