"""Messages and what they are made of."""

from __future__ import annotations

from typing import Any, Literal

from hostler_protocol._base import Sparse, always
from hostler_protocol.limits import Count


class TextElement(Sparse, tag="text", tag_field="type"):
    """Plain text."""

    text: str


class ImageUrl(Sparse):
    """The address of an image; `detail` is handed to the model as it is."""

    url: str
    detail: str | None = None


class ImageUrlElement(Sparse, tag="image_url", tag_field="type"):
    """An image by its address."""

    image_url: ImageUrl


class ImageBase64Element(Sparse, tag="image_base64", tag_field="type"):
    """An image inline; `mime_type` where it is known."""

    image_base64: str
    mime_type: str | None = None


class FileUrlElement(Sparse, tag="file_url", tag_field="type"):
    """A file by its address."""

    file_url: str
    file_name: str | None = None


class FileBase64Element(Sparse, tag="file_base64", tag_field="type"):
    """A file inline."""

    file_base64: str
    file_name: str | None = None
    mime_type: str | None = None


class ArtifactElement(Sparse, tag="artifact", tag_field="type"):
    """What the host puts in the place of a large base64 element: a reference to the stored bytes."""

    artifact_id: str
    mime_type: str | None = None
    file_name: str | None = None
    size_bytes: Count | None = None


ContentElement = (
    TextElement | ImageUrlElement | ImageBase64Element | FileUrlElement | FileBase64Element | ArtifactElement
)
Content = str | list[ContentElement]

Role = Literal["system", "developer", "user", "assistant", "tool"]


class ArtifactRef(Sparse):
    """A reference to an artifact from an input or a message."""

    artifact_id: str
    artifact_type: str | None = None
    mime_type: str | None = None
    name: str | None = None
    size_bytes: Count | None = None


class Message(Sparse):
    """A completed message as runners send it and transcripts keep it."""

    role: Role
    content: Content
    artifact_refs: list[ArtifactRef] = []
    message_id: str | None = None


class MessageChunk(Sparse):
    """One piece of a message that is being streamed."""

    role: Role
    content: Content
    message_id: str | None = None


class FunctionCall(Sparse):
    """Which function a model asks for; `arguments` is the JSON text as the model wrote it."""

    name: str
    arguments: str


class ProviderData(Sparse):
    """What a model's service wants back with its own answer, like signatures of its thinking.

    Opaque to runners, which hand messages and tool calls back as they came. The host sends `fields` to the
    service and model that made them, which `source` names, and to no other. `reasoning_as`: the names under
    which these want the message's `reasoning`.
    """

    source: str
    fields: dict[str, Any] = {}
    reasoning_as: list[str] = []


class ToolCall(Sparse):
    """A model's wish to call a tool, in the form chat completion services use."""

    id: str
    function: FunctionCall
    type: Literal["function"] = always("function")
    provider_data: ProviderData | None = None


class FunctionSpec(Sparse):
    """A tool as a model is told of it; `parameters` is JSON Schema."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}


class ModelMessage(Sparse):
    """A message of a model call. `reasoning` is what the model thought; it is never shown as its answer."""

    role: Role
    content: Content | None = None
    name: str | None = None
    tool_calls: list[ToolCall] = []
    tool_call_id: str | None = None
    reasoning: str | None = None
    provider_data: ProviderData | None = None


class Usage(Sparse):
    """Tokens used. An absent number is unknown, never zero.

    In a result, other keys and values of another type are left out with a warning; the result is kept.
    """

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    total_tokens: Count | None = None
    cached_tokens: Count | None = None
    reasoning_tokens: Count | None = None


def text_of(content: Content | None) -> str:
    """All text of `content`; other elements are left out."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "\n".join(element.text for element in content if isinstance(element, TextElement))
