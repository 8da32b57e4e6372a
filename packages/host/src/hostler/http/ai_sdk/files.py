"""Files of messages as the AI SDK has them, both ways."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any
from urllib.parse import quote, unquote

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
from hostler_protocol.results import ArtifactCreated

UNKNOWN_TYPE = "application/octet-stream"
_OUR_FILE = re.compile(r"(?:https?://[^/]+)?/v1/artifacts/([^/?#]+)/content")
_DATA_URL = re.compile(r"data:([^;,]*)((?:;[^;,]*)*),(.*)", re.DOTALL)


def artifact_url(artifact_id: str) -> str:
    """Return where the bytes of an artifact are, below the host's address."""
    return f"/v1/artifacts/{quote(artifact_id, safe='')}/content"


def file_of(made: ArtifactCreated) -> tuple[str, dict[str, Any]] | None:
    """Return the identity and the fields of a file that a run made."""
    if made.artifact_id is None:
        return None
    return made.artifact_id, {
        "url": artifact_url(made.artifact_id),
        "mediaType": made.mime_type or UNKNOWN_TYPE,
        "filename": made.name,
    }


def file_of_content(element: ContentElement) -> tuple[str, dict[str, Any]] | None:
    """Return the identity and the fields of a file in a message; None for text."""
    match element:
        case ArtifactElement(artifact_id=artifact_id, mime_type=kind, file_name=name):
            url = artifact_url(artifact_id)
            return artifact_id, {"url": url, "mediaType": kind or UNKNOWN_TYPE, "filename": name}
        case ImageUrlElement(image_url=image):
            return image.url, {"url": image.url, "mediaType": "image/*"}
        case FileUrlElement(file_url=url, file_name=name):
            return url, {"url": url, "mediaType": UNKNOWN_TYPE, "filename": name}
        case ImageBase64Element(image_base64=data, mime_type=kind):
            url = f"data:{kind or 'image/png'};base64,{data}"
            return url, {"url": url, "mediaType": kind or "image/png"}
        case FileBase64Element(file_base64=data, mime_type=kind, file_name=name):
            url = f"data:{kind or UNKNOWN_TYPE};base64,{data}"
            return url, {"url": url, "mediaType": kind or UNKNOWN_TYPE, "filename": name}
        case _:
            return None


def content_of(part: dict[str, Any], place: str) -> ContentElement:
    """Return a text or file part of a user's message as content. InvalidArgumentError for any other."""
    if part.get("type") == "text" and isinstance(text := part.get("text"), str):
        return TextElement(text=text)
    url, kind, name = part.get("url"), part.get("mediaType", UNKNOWN_TYPE), part.get("filename")
    if part.get("type") != "file" or not isinstance(url, str) or not isinstance(kind, str):
        raise InvalidArgumentError(f"{place}: expected a text part, or a file part with url and mediaType")
    name = name if isinstance(name, str) else None
    if (ours := _OUR_FILE.fullmatch(url)) is not None:
        return ArtifactElement(artifact_id=unquote(ours[1]), mime_type=kind, file_name=name)
    if (inline := _DATA_URL.fullmatch(url)) is not None:
        data = _base64_of(inline[2], inline[3], place)
        if kind.startswith("image/"):
            return ImageBase64Element(image_base64=data, mime_type=kind)
        return FileBase64Element(file_base64=data, file_name=name, mime_type=kind)
    if not url.startswith(("https://", "http://")):
        raise InvalidArgumentError(f"{place}: url: expected one of http, https or data")
    if kind.startswith("image/"):
        return ImageUrlElement(image_url=ImageUrl(url=url))
    return FileUrlElement(file_url=url, file_name=name)


def _base64_of(parameters: str, data: str, place: str) -> str:
    """Return the base64 of a data URL's content."""
    data = unquote(data) if "%" in data else data
    if not parameters.endswith(";base64"):
        return base64.b64encode(data.encode()).decode()
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgumentError(f"{place}: url: the content is not base64") from None
    return data
