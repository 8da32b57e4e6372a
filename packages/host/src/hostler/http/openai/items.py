"""Items of the input and of conversations, and pages of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec

from hostler.http.openai.responses_types import ItemList
from hostler.storage.stores.transcripts import StoredItem
from hostler_protocol._base import Strict
from hostler_protocol.content import (
    ArtifactElement,
    Content,
    ContentElement,
    FileBase64Element,
    FileUrlElement,
    ImageBase64Element,
    ImageUrlElement,
    Message,
    TextElement,
)

MAX_PAGE = 100
_ROLES = frozenset({"user", "assistant", "system", "developer", "tool"})


class ItemsQuery(Strict):
    """A page of items. `after`: the id of the last item of the page before."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGE)] = 20
    after: str | None = None
    order: Literal["asc", "desc"] = "desc"
    include: list[str] = []
    include_list: list[str] = msgspec.field(default=[], name="include[]")


def page_of(items: list[dict[str, Any]], query: ItemsQuery) -> ItemList:
    """Return a page of a few items, given oldest first. An unknown `after` gives an empty one."""
    ordered = items if query.order == "asc" else items[::-1]
    if query.after is not None:
        ids = [item["id"] for item in ordered]
        ordered = ordered[ids.index(query.after) + 1 :] if query.after in ids else []
    return listed(ordered[: query.limit], more=len(ordered) > query.limit)


def listed(items: list[dict[str, Any]], *, more: bool) -> ItemList:
    """Return items as a page."""
    first, last = (items[0]["id"], items[-1]["id"]) if items else ("", "")
    return ItemList(data=items, has_more=more, first_id=first, last_id=last)


def message_item(item_id: str, role: str, content: Content) -> dict[str, Any]:
    """Return a message as an item."""
    elements: Iterable[ContentElement] = [TextElement(text=content)] if isinstance(content, str) else content
    return {
        "type": "message",
        "id": item_id,
        "status": "completed",
        "role": role if role in _ROLES else "unknown",
        "content": [_part(element, spoken=role == "assistant") for element in elements],
    }


def transcript_item(stored: StoredItem) -> dict[str, Any]:
    """Return a message of a conversation as an item; its id has its place in the conversation."""
    try:
        content = msgspec.convert(stored.content_json, Message).content
    except msgspec.ValidationError:
        content = stored.content
    item = message_item(item_id_of(stored.seq), stored.role, content)
    elements = [] if isinstance(content, str) else content
    named = {element.artifact_id for element in elements if isinstance(element, ArtifactElement)}
    item["content"] += [
        {"type": "input_file", "file_id": ref.artifact_id, "filename": ref.name}
        for ref in stored.artifact_refs
        if ref.artifact_id not in named
    ]
    return item


def item_id_of(seq: int) -> str:
    """Return the id of the message of a conversation with a sequence."""
    return f"item_{seq}"


def read_item_id(text: str) -> int | None:
    """Return the sequence of a message of a conversation; None for any other text."""
    head, _, number = text.partition("_")
    if head == "item" and 0 < len(number) <= 16 and number.isascii() and number.isdecimal():
        return int(number)
    return None


def _part(element: ContentElement, *, spoken: bool) -> dict[str, Any]:
    match element:
        case TextElement(text=text) if spoken:
            return {"type": "output_text", "text": text, "annotations": []}
        case TextElement(text=text):
            return {"type": "input_text", "text": text}
        case ImageUrlElement(image_url=image):
            return {"type": "input_image", "image_url": image.url, "detail": image.detail or "auto"}
        case ImageBase64Element(image_base64=data, mime_type=kind):
            address = data if data.startswith("data:") else f"data:{kind or 'image/png'};base64,{data}"
            return {"type": "input_image", "image_url": address, "detail": "auto"}
        case _:
            return _file_part(element)


def _file_part(element: ContentElement) -> dict[str, Any]:
    match element:
        case FileUrlElement(file_url=url, file_name=name):
            return {"type": "input_file", "file_url": url, "filename": name}
        case FileBase64Element(file_base64=data, file_name=name):
            return {"type": "input_file", "file_data": data, "filename": name}
        case ArtifactElement(artifact_id=file_id, mime_type=kind) if (kind or "").startswith("image/"):
            return {"type": "input_image", "file_id": file_id, "detail": "auto"}
        case ArtifactElement(artifact_id=file_id, file_name=name):
            return {"type": "input_file", "file_id": file_id, "filename": name}
        case _:
            return {"type": "input_text", "text": ""}
