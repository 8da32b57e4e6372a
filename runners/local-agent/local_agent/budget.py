"""The token budget of a request, and estimates of the size of messages. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from hostler_sdk.types import (
    ArtifactElement,
    Content,
    ContentElement,
    FileBase64Element,
    FunctionSpec,
    ModelMessage,
    TextElement,
)
from local_agent.settings import Settings

MESSAGE_TOKENS = 16
"""Role and separators of one message: twice those of the usual chat formats."""
FILE_TOKENS = 4_000
"""A picture, or a file whose size is not known."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens of a whole request, of the recent messages kept unchanged, and of a summary."""

    request: int
    keep_recent: int
    summary: int

    @property
    def files(self) -> int:
        """Tokens of the files kept with the summary: a quarter of the request."""
        return self.request // 4

    def tighter(self, taken: int) -> Budget:
        """Return the budget of the one retry: three fifths of the refused request."""
        request = max(min(self.request, taken) * 3 // 5, 1)
        return _shares(request, self.keep_recent, self.summary)


def budget_of(settings: Settings, known_window: int | None) -> Budget:
    """Return the budget for a model.

    The reserve is at most a quarter of the window, recent messages a third of the rest and a summary a sixth
    of it, so that settings made for large windows leave room in small ones.
    """
    window = settings.window if known_window is None else min(settings.window, known_window)
    reserve = min(settings.reserve, window // 4)
    return _shares(window - reserve, settings.keep_recent, settings.summary)


def _shares(request: int, keep_recent: int, summary: int) -> Budget:
    return Budget(request, min(keep_recent, request // 3), max(min(summary, request // 6), 1))


def shares(messages: Sequence[ModelMessage], tokens: int) -> list[int]:
    """Distribute the counted tokens of all messages over them, in proportion to their sizes."""
    sizes = [most_tokens(message) for message in messages]
    total = sum(sizes) or 1
    return [math.ceil(tokens * size / total) for size in sizes]


def most_tokens(message: ModelMessage) -> int:
    """Return an upper bound of a message's tokens: no token is shorter than a byte.

    A request within its budget by this bound need not be counted by the model.
    """
    calls = sum(len(call.function.name) + _bytes(call.function.arguments) for call in message.tool_calls)
    return MESSAGE_TOKENS + calls + given_back(message) + _most_tokens_of(message.content)


def given_back(message: ModelMessage) -> int:
    """Return the bytes sent back to the model's service with an answer: its reasoning and signatures."""
    own = message.provider_data
    thought = _bytes(message.reasoning or "") if own is not None and own.reasoning_as else 0
    data = [own, *(call.provider_data for call in message.tool_calls)]
    return thought + sum(
        len(msgspec.json.encode(one.fields)) for one in data if one is not None and one.fields
    )


def most_tokens_of_tools(tools: Sequence[FunctionSpec]) -> int:
    """Return an upper bound of the tokens of the offered tools."""
    return sum(
        MESSAGE_TOKENS + _bytes(tool.name + tool.description) + len(msgspec.json.encode(tool.parameters))
        for tool in tools
    )


def _most_tokens_of(content: Content | None) -> int:
    if content is None or isinstance(content, str):
        return _bytes(content or "")
    return sum(_most_tokens_of_element(element) for element in content)


def _most_tokens_of_element(element: ContentElement) -> int:
    match element:
        case TextElement(text=text):
            return _bytes(text)
        case FileBase64Element(file_base64=inline):
            return max(len(inline), FILE_TOKENS)
        case ArtifactElement(size_bytes=size, mime_type=kind) if not (kind or "").startswith("image/"):
            return max(size or 0, FILE_TOKENS)
        case _:
            return FILE_TOKENS


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
