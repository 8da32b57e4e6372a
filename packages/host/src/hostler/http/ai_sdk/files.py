"""Files of a user's messages as the AI SDK has them."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

from hostler.http.dialects.files import UNKNOWN_TYPE, read_data_url, web_address
from hostler_protocol.content import (
    ArtifactElement,
    ContentElement,
    FileBase64Element,
    FileUrlElement,
    ImageBase64Element,
    ImageUrl,
    ImageUrlElement,
    TextElement,
)
from hostler_protocol.errors import InvalidArgumentError

_OUR_FILE = re.compile(r"(?:https?://[^/]+)?/v1/artifacts/([^/?#]+)/content")


def element_of(part: dict[str, Any], place: str) -> ContentElement:
    """Return a text or file part of a user's message as content. InvalidArgumentError for any other."""
    if part.get("type") == "text" and isinstance(text := part.get("text"), str):
        return TextElement(text=text)
    url, kind, name = part.get("url"), part.get("mediaType", UNKNOWN_TYPE), part.get("filename")
    if part.get("type") != "file" or not isinstance(url, str) or not isinstance(kind, str):
        raise InvalidArgumentError(f"{place}: expected a text part, or a file part with url and mediaType")
    name = name if isinstance(name, str) else None
    if (ours := _OUR_FILE.fullmatch(url)) is not None:
        return ArtifactElement(artifact_id=unquote(ours[1]), mime_type=kind, file_name=name)
    if url.startswith("data:"):
        try:
            data = read_data_url(url).data
        except ValueError as error:
            raise InvalidArgumentError(f"{place}: url: {error}") from None
        if kind.startswith("image/"):
            return ImageBase64Element(image_base64=data, mime_type=kind)
        return FileBase64Element(file_base64=data, file_name=name, mime_type=kind)
    try:
        url = web_address(url)
    except ValueError as error:
        raise InvalidArgumentError(f"{place}: url: {error}") from None
    if kind.startswith("image/"):
        return ImageUrlElement(image_url=ImageUrl(url=url))
    return FileUrlElement(file_url=url, file_name=name)
