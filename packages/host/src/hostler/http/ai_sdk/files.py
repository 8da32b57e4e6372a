"""Files of a user's messages as the AI SDK has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hostler.http.dialects.files import UNKNOWN_TYPE, artifact_at, file_at, file_of, read_data_url
from hostler_protocol.content import (
    ArtifactElement,
    ContentElement,
    TextElement,
)
from hostler_protocol.errors import InvalidArgumentError


def element_of(part: dict[str, Any], place: str, addresses: Iterable[str]) -> ContentElement:
    """Return a text or file part of a user's message as content. InvalidArgumentError for any other.

    `addresses`: of this host, whose files are artifacts.
    """
    if part.get("type") == "text" and isinstance(text := part.get("text"), str):
        return TextElement(text=text)
    url, kind, name = part.get("url"), part.get("mediaType", UNKNOWN_TYPE), part.get("filename")
    if part.get("type") != "file" or not isinstance(url, str) or not isinstance(kind, str):
        raise InvalidArgumentError(f"{place}: expected a text part, or a file part with url and mediaType")
    name = name if isinstance(name, str) else None
    if (own := artifact_at(url, addresses)) is not None:
        return ArtifactElement(artifact_id=own, mime_type=kind, file_name=name)
    image = kind.startswith("image/")
    try:
        if url.startswith("data:"):
            return file_of(read_data_url(url).data, kind, name, image=image)
        return file_at(url, name, image=image)
    except ValueError as error:
        raise InvalidArgumentError(f"{place}: url: {error}") from None
