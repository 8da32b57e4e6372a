"""Emoji by the names that Slack calls them: its reactions have names only."""

from __future__ import annotations

import re

from hostler_sdk.channels import NotSent

_NAME = re.compile(r"[a-z0-9_+'-]{1,100}(::skin-tone-[2-6])?")
_VARIANT = "\ufe0f"
NAMES = {
    "👍": "+1",
    "👎": "-1",
    "❤": "heart",
    "✅": "white_check_mark",
    "❌": "x",
    "👀": "eyes",
    "🎉": "tada",
    "🙏": "pray",
    "😂": "joy",
    "😄": "smile",
    "😀": "grinning",
    "🙂": "slightly_smiling_face",
    "😢": "cry",
    "😮": "open_mouth",
    "🤔": "thinking_face",
    "🚀": "rocket",
    "🔥": "fire",
    "⏳": "hourglass_flowing_sand",
    "⚠": "warning",
    "👏": "clap",
    "👌": "ok_hand",
    "💯": "100",
    "👋": "wave",
    "🤖": "robot_face",
    "❓": "question",
    "❗": "exclamation",
    "⭐": "star",
    "✔": "heavy_check_mark",
    "💡": "bulb",
    "🛑": "octagonal_sign",
}


def name_of(emoji: str) -> str:
    """Return Slack's name of an emoji, which may be given as itself or by that name. Raises NotSent."""
    known = NAMES.get(emoji.replace(_VARIANT, ""))
    name = known or emoji.strip(":").lower()
    if not _NAME.fullmatch(name):
        raise NotSent(
            f"Slack's name of {emoji!r:.40} is needed, like thumbsup or white_check_mark", final=True
        )
    return name
