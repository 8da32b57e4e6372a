"""The files of an input, as LangBot hands them over: in `contents`, and again in `attachments`. Pure.

Plugins of LangBot look for files in either place. An attachment has the file's `content` (a data URL) or its
`url`; plugins take one with neither for a file that is broken, and fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hostler_langbot.messages import element_out
from hostler_sdk.types import ArtifactElement, ArtifactRef, ContentElement, TextElement

MAX_CONTENT_CHARS = 7 * 1024 * 1024
"""Inline files of one input, as data URLs, that are sent in both places: twice this fits into a message.
If there is more, they are in `contents` alone, where plugins look if no attachment has a content."""


def elements_of(given: Any) -> list[ContentElement]:
    """Return the elements of an input; its attachments that none of them refers to come last."""
    known = {one.artifact_id for one in given.contents if isinstance(one, ArtifactElement)}
    added = {ref.artifact_id: _element(ref) for ref in given.attachments if ref.artifact_id not in known}
    return [*given.contents, *added.values()]


def input_of(given: Any, inlined: Mapping[str, ContentElement] | None = None) -> dict[str, Any]:
    """Return an input: `text`, `contents`, `attachments`.

    `inlined`: content elements to send in place of stored files, by the id of the artifact.
    """
    refs = {ref.artifact_id: ref for ref in given.attachments}
    contents: list[dict[str, Any]] = []
    attachments: list[dict[str, Any]] = []
    for element in elements_of(given):
        sent = element
        if isinstance(element, ArtifactElement):
            sent = (inlined or {}).get(element.artifact_id, element)
        contents.append(element_out(sent))
        if not isinstance(element, TextElement):
            attachments.append(_stored(element, refs) | _attachment(contents[-1], sent))
    if sum(len(one.get("content", "")) for one in attachments) > MAX_CONTENT_CHARS:
        attachments = [one for one in attachments if "content" not in one]
    return {"text": given.text, "contents": contents, "attachments": attachments}


def reference_of(ref: ArtifactRef) -> dict[str, Any]:
    """Return a stored file without its content."""
    found = {
        "ref": ref.artifact_id,
        "id": ref.artifact_id,
        "type": ref.artifact_type,
        "mime_type": ref.mime_type,
        "name": ref.name,
        "size": ref.size_bytes,
    }
    return {name: value for name, value in found.items() if value is not None}


def _element(ref: ArtifactRef) -> ArtifactElement:
    return ArtifactElement(
        artifact_id=ref.artifact_id, mime_type=ref.mime_type, file_name=ref.name, size_bytes=ref.size_bytes
    )


def _stored(element: ContentElement, refs: Mapping[str, ArtifactRef]) -> dict[str, Any]:
    if not isinstance(element, ArtifactElement):
        return {}
    own = ArtifactRef(
        artifact_id=element.artifact_id,
        mime_type=element.mime_type,
        name=element.file_name,
        size_bytes=element.size_bytes,
    )
    listed = refs.get(element.artifact_id)
    return ({} if listed is None else reference_of(listed)) | reference_of(own)


def _attachment(out: Mapping[str, Any], sent: ContentElement) -> dict[str, Any]:
    """Return what a file's element says, as an attachment."""
    kind = str(out["type"])
    found: dict[str, Any] = {"type": "image" if kind.startswith("image") else "file"}
    if isinstance(sent, ArtifactElement):
        return found  # its address is of use to the host alone
    if kind.endswith("base64"):
        found |= {"source": "base64", "content": out[kind]}
    else:
        found |= {"source": "url", "url": out[kind]["url"] if kind == "image_url" else out[kind]}
    named = {"name": out.get("file_name"), "mime_type": getattr(sent, "mime_type", None)}
    return found | {name: one for name, one in named.items() if one is not None}
