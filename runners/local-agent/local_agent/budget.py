"""How many tokens a request may take, and about how many each of its messages takes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hostler_sdk.types import Content, ModelMessage, TextElement
from local_agent.settings import Settings

WEIGHT_OF_A_FILE = 4_000
"""Of a picture or file, in characters: about a thousand tokens."""
WEIGHT_OF_A_MESSAGE = 16
"""Role and separators, in characters."""
CHARACTERS_PER_TOKEN = 3
"""Where nobody counts: English has four to five, other languages less; too many tokens do less harm."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens: of a whole request, of the recent messages that are kept, and of a summary."""

    request: int
    keep_recent: int
    summary: int

    def tighter(self, taken: int) -> Budget:
        """Three fifths of what was just refused, for the one retry."""
        request = max(min(self.request, taken) * 3 // 5, 1)
        return _shares(request, self.keep_recent, self.summary)


def budget_of(settings: Settings, known_window: int | None) -> Budget:
    """The budget for a model.

    The reserve takes a quarter of the window at most, recent messages a third of the rest and a summary a
    sixth of it, so that settings made for large windows leave room in small ones.
    """
    window = settings.window if known_window is None else min(settings.window, known_window)
    reserve = min(settings.reserve, window // 4)
    return _shares(window - reserve, settings.keep_recent, settings.summary)


def _shares(request: int, keep_recent: int, summary: int) -> Budget:
    return Budget(request, min(keep_recent, request // 3), max(min(summary, request // 6), 1))


def shares(messages: Sequence[ModelMessage], tokens: int) -> list[int]:
    """The tokens that were counted of all messages, shared out by their sizes."""
    weights = [weight(message) for message in messages]
    total = sum(weights) or 1
    return [max(tokens * one // total, 1) for one in weights]


def estimated(messages: Sequence[ModelMessage]) -> int:
    """About how many tokens messages take, where the model cannot be asked."""
    return sum(weight(message) for message in messages) // CHARACTERS_PER_TOKEN


def weight(message: ModelMessage) -> int:
    """The size of a message in characters, or what comes near it."""
    calls = sum(len(call.function.name) + len(call.function.arguments) for call in message.tool_calls)
    return WEIGHT_OF_A_MESSAGE + calls + _weight_of(message.content)


def _weight_of(content: Content | None) -> int:
    if content is None or isinstance(content, str):
        return len(content or "")
    return sum(
        len(element.text) if isinstance(element, TextElement) else WEIGHT_OF_A_FILE for element in content
    )
