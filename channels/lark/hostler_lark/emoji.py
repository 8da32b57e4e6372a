"""Emoji by the names that Lark has for its reactions."""

from __future__ import annotations

import re

from hostler_sdk.channels import NotSent

_NAMES = {
    "👍": "THUMBSUP",
    "👎": "ThumbsDown",
    "👌": "OK",
    "✅": "DONE",
    "☑": "CheckMark",
    "❌": "CrossMark",
    "❤": "HEART",
    "🎉": "PARTY",
    "🔥": "Fire",
    "👏": "APPLAUSE",
    "🙏": "THANKS",
    "💪": "MUSCLE",
    "👀": "GLANCE",
    "😊": "SMILE",
    "😄": "SMILE",
    "😂": "LOL",
    "🤔": "THINKING",
    "😭": "SOB",
    "😮": "WOW",
    "💯": "Hundred",
    "📌": "Pin",
    "👋": "WAVE",
    "🌹": "ROSE",
    "+1": "THUMBSUP",
    "-1": "ThumbsDown",
}
_NAME = re.compile(r"\w{1,60}", re.ASCII)


def name_of(emoji: str) -> str:
    """Return the name of an emoji; names are taken as they are. Raises NotSent."""
    known = emoji.strip().strip(":").replace("\ufe0f", "")
    found = _NAMES.get(known, known)
    if not _NAME.fullmatch(found):
        text = f"{emoji!r:.40} is no reaction of Lark: name one of its own, like THUMBSUP or HEART"
        raise NotSent(text, final=True)
    return found
