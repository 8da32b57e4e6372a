"""Texts of Slack as people read them: mentions and links are written out, and nothing is escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping

_MARK = re.compile(r"<([^<>\n]*)>")


def readable(text: str, names: Mapping[str, str]) -> str:
    """Return a text with the names of the people that it mentions, by their ids."""
    return html.unescape(_MARK.sub(lambda match: _written(match[1], names), text))


def _written(mark: str, names: Mapping[str, str]) -> str:
    target, _, label = mark.partition("|")
    kind, rest = target[:1], target[1:]
    match kind:
        case "@":
            return f"@{label or names.get(rest, rest)}"
        case "#":
            return f"#{label or rest}"
        case "!":
            return _special(rest, label)
    bare = target.removeprefix("mailto:").removeprefix("tel:")
    return target if not label else bare if label in {target, bare} else f"{label} ({bare})"


def _special(name: str, label: str) -> str:
    """Write `here`, `channel`, a group of people, or a date, for which Slack gives a text."""
    if label:
        return label
    return "@" + name.removeprefix("subteam^")


def mentions(text: str, person_id: str) -> bool:
    """Whether a text mentions somebody."""
    return f"<@{person_id}>" in text or f"<@{person_id}|" in text
