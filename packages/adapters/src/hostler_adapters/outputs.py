"""What an agent of a framework ends with, as text."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json


def text_of_output(output: Any) -> str:
    """Return an agent's output as text: one that is no text as JSON, none as an empty text."""
    if output is None:
        return ""
    return output if isinstance(output, str) else to_json(output).decode()
