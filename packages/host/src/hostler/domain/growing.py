"""Answers that grow by edits: how often, how far, and which completed message is the one that grew. Pure."""

from __future__ import annotations

MAX_GROWING_CHARS = 16_384
"""Text of an answer that grows; what is longer comes once it is complete."""
CHARS_PER_SLOWER = 2_000
"""Each of these adds one shortest time to the wait: platforms limit how much is edited, and readers read."""
SLOWEST_SECONDS = 15.0
UNFINISHED = "[This answer was not finished.]"
_SAME_CHARS = 16
"""So many characters at the beginning tell that a message is the one that grew."""


def wait_seconds(edit_seconds: float, chars: int) -> float:
    """Return the seconds between two edits of a text of this length."""
    slower = edit_seconds * (1 + chars // CHARS_PER_SLOWER)
    return max(edit_seconds, min(slower, SLOWEST_SECONDS))


def is_the_grown(key: str, grown: str, message_id: str | None, text: str) -> bool:
    """Whether a completed message is the one that grew under `key`, the id of its pieces, "" without one."""
    if key and key == message_id:
        return True
    beginning = grown.strip()[:_SAME_CHARS]
    return bool(beginning) and text.strip().startswith(beginning)
