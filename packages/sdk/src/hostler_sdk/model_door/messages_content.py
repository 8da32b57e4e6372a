"""Blocks of Anthropic's messages, as the protocol's elements. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hostler_protocol.content import (
    ContentElement,
    FileBase64Element,
    FileUrlElement,
    ImageUrl,
    ImageUrlElement,
    TextElement,
)
from hostler_sdk.model_door.problems import unsupported
from hostler_sdk.model_door.reading import Json, check_known, object_in, objects_in, text_in

BLOCK_FIELDS = frozenset({"type", "cache_control"})
"""Known in every block. `cache_control` marks what a service may keep, and changes no answer."""
_BILLING = "x-anthropic-billing-header:"
"""Begins a block of the system prompt that names a program's version to Anthropic; it is no instruction."""
_OF_SOURCES = frozenset({"type", "media_type", "data", "url", "content"})


def blocks_in(value: Any, place: str) -> Iterator[tuple[str, Json]]:
    """Yield the blocks of a content, each with its place; a text is one block."""
    if isinstance(value, str):
        value = [{"type": "text", "text": value}]
    for number, block in enumerate(objects_in(value, place)):
        where = f"{place}[{number}]."
        text_in(block, "type", where)
        yield where, block


def system_text(value: Any, place: str) -> str:
    """Return instructions as one text."""
    if value is None or isinstance(value, str):
        return value or ""
    texts = []
    for where, block in blocks_in(value, place):
        if block["type"] != "text":
            raise unsupported(f"{where}type", "instructions are text")
        check_known(block, BLOCK_FIELDS | {"text", "citations"}, where)
        text = text_in(block, "text", where)
        if not text.startswith(_BILLING):
            texts.append(text)
    return "\n\n".join(texts)


def elements_of(block: Json, place: str) -> list[ContentElement]:
    """Return what a block of the user, or of a tool's result, says."""
    match block["type"]:
        case "text":
            check_known(block, BLOCK_FIELDS | {"text", "citations"}, place)
            return [TextElement(text=text_in(block, "text", place))]
        case "image":
            check_known(block, BLOCK_FIELDS | {"source"}, place)
            return [_image(object_in(block, "source", place), f"{place}source.")]
        case "document":
            return _document(block, place)
        case "search_result":
            check_known(block, BLOCK_FIELDS | {"source", "title", "content", "citations"}, place)
            inner = [
                one
                for where, part in blocks_in(block.get("content"), f"{place}content")
                for one in elements_of(part, where)
            ]
            return [
                TextElement(text=f"{text_in(block, 'title', place)} ({text_in(block, 'source', place)})"),
                *inner,
            ]
        case "tool_reference":
            return [TextElement(text=text_in(block, "tool_name", place))]
        case kind:
            raise unsupported(f"{place}type", f"blocks of the type {kind!r:.60} are not known here")


def _image(source: Json, place: str) -> ImageUrlElement:
    check_known(source, _OF_SOURCES, place)
    match text_in(source, "type", place):
        case "base64":
            kind, data = text_in(source, "media_type", place), text_in(source, "data", place)
            return ImageUrlElement(image_url=ImageUrl(url=f"data:{kind};base64,{data}"))
        case "url":
            return ImageUrlElement(image_url=ImageUrl(url=text_in(source, "url", place)))
        case kind:
            raise unsupported(f"{place}type", f"it is {kind!r:.40}; base64 and url are known")


def _document(block: Json, place: str) -> list[ContentElement]:
    """Return a document. `citations` are not known: an answer could not carry them."""
    citations = block.get("citations")
    if isinstance(citations, dict) and citations.get("enabled"):
        raise unsupported(f"{place}citations", "answers of host calls carry no citations")
    check_known(block, BLOCK_FIELDS | {"source", "title", "context", "citations"}, place)
    name = text_in(block, "title", place) if block.get("title") is not None else None
    context = block.get("context")
    found: list[ContentElement] = [TextElement(text=context)] if isinstance(context, str) and context else []
    source, where = object_in(block, "source", place), f"{place}source."
    check_known(source, _OF_SOURCES, where)
    match text_in(source, "type", where):
        case "base64":
            kind, data = text_in(source, "media_type", where), text_in(source, "data", where)
            return [*found, FileBase64Element(file_base64=data, mime_type=kind, file_name=name)]
        case "url":
            return [*found, FileUrlElement(file_url=text_in(source, "url", where), file_name=name)]
        case "text":
            return [*found, TextElement(text=text_in(source, "data", where))]
        case "content":
            parts = blocks_in(source.get("content"), f"{where}content")
            return [*found, *(one for at, part in parts for one in elements_of(part, at))]
        case kind:
            raise unsupported(f"{where}type", f"it is {kind!r:.40}; base64, url, text and content are known")
