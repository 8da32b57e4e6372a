"""The bench's tool."""

from __future__ import annotations

from hostler_sdk import tool


@tool
def touch(number: int) -> int:
    """Do nothing; but the host cannot know that."""
    return number
