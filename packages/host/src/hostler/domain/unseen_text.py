"""Text of others as a reader sees it: without characters that are invisible."""

from __future__ import annotations

import re

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Control characters, and invisible ones that hide words from a reader or reverse them. The joiners U+200C
and U+200D stay: some scripts and emoji need them.
"""


def seen_text(text: str) -> str:
    """Return the text with a space for each invisible or control character but tabs and line ends."""
    return _UNSEEN.sub(" ", text)
