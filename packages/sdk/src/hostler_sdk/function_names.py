"""Names of tools as functions of model services, which accept fewer characters than the host. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

MAX_NAME_CHARS = 64
"""A function's name, a limit of common services."""
_REFUSED = re.compile(r"[^A-Za-z0-9_-]")


def function_names(tools: Sequence[str]) -> dict[str, str]:
    """Return a function name for each tool, unique and of characters that services accept."""
    names: dict[str, str] = {}
    taken = {tool for tool in tools if _allowed(tool) == tool}
    for tool in tools:
        name = stem = _allowed(tool)
        number = 1
        while name != tool and name in taken:
            number += 1
            ending = f"_{number}"
            name = stem[: MAX_NAME_CHARS - len(ending)] + ending
        taken.add(name)
        names[tool] = name
    return names


def _allowed(name: str) -> str:
    cleaned = _REFUSED.sub("_", name)[:MAX_NAME_CHARS]
    return cleaned if cleaned.strip("_") else "tool"
