"""Convert transcript items and the event's input to messages for a model. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hostler_sdk.types import (
    ArtifactElement,
    ArtifactRef,
    Content,
    ContentElement,
    Input,
    ModelMessage,
    Role,
    TextElement,
    TranscriptItem,
    text_of,
)

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}


def message_of(item: TranscriptItem) -> ModelMessage | None:
    """Convert a message of the history. Return None for other roles and empty messages.

    Pictures and files stay references: the host adds their bytes to the request.
    """
    role = _ROLES.get(item.role)
    if role is None:
        return None
    content = _joined(item.message.content, item.artifact_refs)
    return None if not content else ModelMessage(role=role, content=content)


def content_of(given: Input) -> Content:
    """Return the content of an input: a text, or a list of elements if there is more than text."""
    if any(not isinstance(element, TextElement) for element in given.contents):
        content: Content = list(given.contents)
        if given.text and not text_of(content):
            content = [TextElement(text=given.text), *given.contents]
    else:
        content = given.text or text_of(given.contents)
    return _joined(content, given.attachments)


def _joined(content: Content, refs: Sequence[ArtifactRef]) -> Content:
    """Add the references that the content does not hold yet."""
    elements: list[ContentElement] = [] if isinstance(content, str) else content
    held = {element.artifact_id for element in elements if isinstance(element, ArtifactElement)}
    added: list[ContentElement] = [
        ArtifactElement(
            artifact_id=ref.artifact_id,
            mime_type=ref.mime_type,
            file_name=ref.name,
            size_bytes=ref.size_bytes,
        )
        for ref in refs
        if ref.artifact_id not in held
    ]
    if not added:
        return content
    if isinstance(content, str):
        elements = [TextElement(text=content)] if content else []
    return [*elements, *added]
