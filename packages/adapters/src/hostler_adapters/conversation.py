"""Turns of a conversation: what people and agents said, without a framework's form."""

from __future__ import annotations

import base64
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hostler_sdk import RunContext
from hostler_sdk.types import (
    MAX_PAGE_ITEMS,
    ArtifactElement,
    Content,
    ImageBase64Element,
    ImageUrlElement,
    Input,
    TextElement,
    TranscriptItem,
    text_of,
)

MAX_IMAGE_BYTES = 8 * 1024 * 1024
"""Size of an image that is read from an artifact: the most that a request to the model door may have."""
DEFAULT_IMAGE_TYPE = "image/png"
"""Type of an inline image whose sender names none."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message. `images` are URLs: of the web, or `data:` URLs that hold the image."""

    role: Literal["user", "assistant"]
    text: str
    images: Sequence[str] = ()

    @property
    def openai(self) -> dict[str, Any]:
        """The message in the form of OpenAI's chat completions."""
        if not self.images:
            return {"role": self.role, "content": self.text}
        parts: list[dict[str, Any]] = [{"type": "text", "text": self.text}] if self.text else []
        parts += [{"type": "image_url", "image_url": {"url": url}} for url in self.images]
        return {"role": self.role, "content": parts}


async def turn_of_input(ctx: RunContext, given: Input) -> Turn:
    """Return a message of the user: that of the run's event, or one that arrived while it runs."""
    text = given.text or text_of(given.contents)
    return Turn("user", text, await _images(ctx, given.contents))


def in_conversation(ctx: RunContext) -> bool:
    """Whether the run's event belongs to a conversation."""
    return ctx.conversation is not None and ctx.conversation.conversation_id is not None


async def earlier_turns(ctx: RunContext, *, known: Collection[str], limit: int) -> list[Turn]:
    """Return up to `limit` messages before the run's own, oldest first.

    `known` are ids of events that a stored session has seen: the message of the newest of them, and all that
    is older, is left out; so are the answers that follow it, which are the session's own.
    """
    if not limit or not ctx.context.available_apis.history_page or not in_conversation(ctx):
        return []
    found: list[TranscriptItem] = []
    cursor: str | None = None
    while len(found) < limit:
        page = await ctx.history.page(before_cursor=cursor, limit=min(limit - len(found), MAX_PAGE_ITEMS))
        for item in page.items:
            if item.event_id is not None and item.event_id in known:
                return await _turns(ctx, _without_leading_answers(found))
            found.append(item)
        if not page.has_more or page.next_cursor is None:
            break
        cursor = page.next_cursor
    return await _turns(ctx, found)


def _without_leading_answers(newest_first: list[TranscriptItem]) -> list[TranscriptItem]:
    kept = list(newest_first)
    while kept and kept[-1].role == "assistant":
        kept.pop()
    return kept


async def _turns(ctx: RunContext, newest_first: list[TranscriptItem]) -> list[Turn]:
    turns = []
    for item in reversed(newest_first):
        message = item.message
        text = text_of(message.content)
        if item.role == "user":
            turns.append(Turn("user", text, await _images(ctx, message.content)))
        elif item.role == "assistant":
            turns.append(Turn("assistant", text))
    return [turn for turn in turns if turn.text or turn.images]


async def _images(ctx: RunContext, content: Content | None) -> list[str]:
    """Return the images of a message. Files of other kinds are reported in the run's journal."""
    urls = []
    for element in content if isinstance(content, list) else ():
        match element:
            case ImageUrlElement(image_url=image):
                urls.append(image.url)
            case ImageBase64Element(image_base64=data, mime_type=kind):
                urls.append(f"data:{kind or DEFAULT_IMAGE_TYPE};base64,{data}")
            case ArtifactElement(mime_type=str(kind)) if kind.startswith("image/"):
                if (url := await _stored_image(ctx, element, kind)) is not None:
                    urls.append(url)
            case TextElement():
                pass
            case _:
                await ctx.log(
                    f"a {type(element).__name__} was left out: adapters pass text and images on", "warning"
                )
    return urls


async def _stored_image(ctx: RunContext, element: ArtifactElement, kind: str) -> str | None:
    content = bytearray()
    async for part in ctx.artifacts.stream(element.artifact_id):
        content += part
        if len(content) > MAX_IMAGE_BYTES:
            name = element.file_name or element.artifact_id
            await ctx.log(f"image {name} was left out: it has over {MAX_IMAGE_BYTES:,} bytes", "warning")
            return None
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
