"""Untrusted text on a terminal: characters that command a terminal, or hide what it shows, are escaped."""

from __future__ import annotations

import re
import unicodedata

ESCAPED = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str, *, lines: bool = False) -> str:
    """Return text with invisible and control characters escaped. With `lines`, line breaks stay.

    For what people decide about: they see each character.
    """
    return "".join(
        char if (lines and char == "\n") or unicodedata.category(char) not in ESCAPED else _escape(char)
        for char in text
    )


def harmless(text: str) -> str:
    """Return text that commands nothing: control characters and changes of direction are escaped.

    For what people read: line breaks, tabs and the parts of joined characters (emoji) stay.
    """
    return _COMMANDS.sub(lambda found: _escape(found[0]), text.replace("\r\n", "\n"))


def _escape(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
