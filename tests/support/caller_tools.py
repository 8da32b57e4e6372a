"""Tools that the sender of an event carries out itself, for tests that bring some."""

from __future__ import annotations

import json
from typing import Any

from support.shop import calling

SCREEN: dict[str, Any] = {
    "name": "screen_size",
    "description": "The size of the window",
    "parameters": {
        "type": "object",
        "properties": {"unit": {"enum": ["px", "em"]}},
        "required": ["unit"],
        "additionalProperties": False,
    },
}
PLAIN = {"name": "pick-file"}
CALL = calling("screen_size", unit="px")


def given(steps: Any, *tools: dict[str, Any]) -> dict[str, Any]:
    """An input whose run takes these steps, with tools of its sender."""
    return {"text": json.dumps(steps), "tools": list(tools)}
