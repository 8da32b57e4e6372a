"""Messages and their content."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from hostler_protocol._base import Sparse, always
from hostler_protocol.limits import MAX_REASONING_CHARS, Count


class TextElement(Sparse, tag="text", tag_field="type"):
    """Plain text."""

    text: str


class ImageUrl(Sparse):
    """The URL of an image; `detail` is passed to the model unchanged."""

    url: str
    detail: str | None = None


class ImageUrlElement(Sparse, tag="image_url", tag_field="type"):
    """An image by its URL."""

    image_url: ImageUrl


class ImageBase64Element(Sparse, tag="image_base64", tag_field="type"):
    """An inline image; `mime_type` if it is known."""

    image_base64: str
    mime_type: str | None = None


class FileUrlElement(Sparse, tag="file_url", tag_field="type"):
    """A file by its URL."""

    file_url: str
    file_name: str | None = None


class FileBase64Element(Sparse, tag="file_base64", tag_field="type"):
    """An inline file."""

    file_base64: str
    file_name: str | None = None
    mime_type: str | None = None


class ArtifactElement(Sparse, tag="artifact", tag_field="type"):
    """A reference to stored bytes. The host replaces a large base64 element with it."""

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


Reasoning = Annotated[str, msgspec.Meta(max_length=MAX_REASONING_CHARS)]


class Message(Sparse):
    """A complete message, as runners send it and, without its reasoning, transcripts store it.

    `reasoning`: how the model came to it, for who watches the run; never part of the answer. Only hosts take
    it that say so in `initialize`.
    """

    role: Role
    content: Content
    artifact_refs: list[ArtifactRef] = []
    message_id: str | None = None
    reasoning: Reasoning | None = None


class MessageChunk(Sparse):
    """One piece of a message that is being streamed: more text, more `reasoning`, or both."""

    role: Role
    content: Content
    message_id: str | None = None
    reasoning: Reasoning | None = None


class FunctionCall(Sparse):
    """The function that a model wants to call; `arguments` is the JSON text as the model wrote it."""

    name: str
    arguments: str


class ProviderData(Sparse):
    """Data of a model's service that it needs back with its own messages, like signatures of its thinking.

    Opaque to runners, which send messages and tool calls back unchanged. The host sends `fields` only to the
    service and model that made them, named by `source`. `reasoning_as`: the names under which that service
    expects the message's `reasoning`.
    """

    source: str
    fields: dict[str, Any] = {}
    reasoning_as: list[str] = []


class ToolCall(Sparse):
    """A model's request to call a tool, in the form of chat completion services."""

    id: str
    function: FunctionCall
    type: Literal["function"] = always("function")
    provider_data: ProviderData | None = None


class HistoryMessage(Message):
    """A message of a conversation's history. Calls of tools are there if the conversation's client kept them.

    `tool_calls` are an assistant's; `tool_call_id` is the call that a message of role `tool` answers.
    """

    name: str | None = None
    tool_calls: list[ToolCall] = []
    tool_call_id: str | None = None


class FunctionSpec(Sparse):
    """Description of a tool for a model; `parameters` is JSON Schema.

    `strict`: whether the service shall keep the model to the schema; absent: as the service does by default.
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}
    strict: bool | None = None


class ModelMessage(Sparse):
    """A message of a model call. `reasoning` is the model's thinking; it is never shown as its answer."""

    role: Role
    content: Content | None = None
    name: str | None = None
    tool_calls: list[ToolCall] = []
    tool_call_id: str | None = None
    reasoning: str | None = None
    provider_data: ProviderData | None = None


class Usage(Sparse):
    """Tokens used. An absent number is unknown, never zero.

    In a result, unknown keys and values of a wrong type are left out with a warning; the result is kept.
    """

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    total_tokens: Count | None = None
    cached_tokens: Count | None = None
    reasoning_tokens: Count | None = None


def text_of(content: Content | None) -> str:
    """Return the text of `content`: its text elements joined by line ends, without other elements."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "\n".join(element.text for element in content if isinstance(element, TextElement))
