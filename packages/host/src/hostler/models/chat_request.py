"""Build the body of `POST /chat/completions` from the host's model messages. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hostler.models.attachments import data_url, decoded, is_text
from hostler.models.provider_data import sent_back, sent_back_call
from hostler_protocol.content import (
    ArtifactElement,
    Content,
    ContentElement,
    FileBase64Element,
    FileUrlElement,
    FunctionSpec,
    ImageBase64Element,
    ImageUrlElement,
    ModelMessage,
    TextElement,
)
from hostler_protocol.errors import InvalidArgumentError

RESERVED_ARGS = frozenset(
    {"model", "models", "fallbacks", "messages", "tools", "functions", "stream", "stream_options", "n"}
)
"""Arguments that `extra_args` may not set: the grant is for one model, and the host reads one answer."""
_AUDIO_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def request_body(
    model: str,
    messages: Sequence[ModelMessage],
    tools: Sequence[FunctionSpec],
    extra_args: dict[str, Any],
    defaults: dict[str, Any],
) -> dict[str, Any]:
    """Return the body without its streaming fields. The messages must have no artifacts or foreign fields.

    `extra_args` override `defaults` (the operator's). InvalidArgumentError names an argument that runners may
    not set.
    """
    if refused := sorted(RESERVED_ARGS & extra_args.keys()):
        raise InvalidArgumentError(
            f"extra_args may not hold {', '.join(map(repr, refused))}; the call's own parameters say that"
        )
    if not messages:
        raise InvalidArgumentError("messages is empty; a model needs at least one message")
    body = {**defaults, **extra_args, "model": model, "messages": [_message(m) for m in messages]}
    if tools:
        body["tools"] = [_tool(tool) for tool in tools]
    return body


def _tool(tool: FunctionSpec) -> dict[str, Any]:
    parameters = tool.parameters or {"type": "object", "properties": {}}
    function: dict[str, Any] = {"name": tool.name, "parameters": parameters}
    if tool.description:
        function["description"] = tool.description
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _message(message: ModelMessage) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": message.role, **sent_back(message)}
    content = _content(message.content, parts=message.role == "user")
    wire["content"] = None if message.tool_calls and not content else content
    if message.name:
        wire["name"] = message.name
    if message.tool_call_id:
        wire["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        wire["tool_calls"] = [
            {"id": call.id, "type": "function", **sent_back_call(call)} for call in message.tool_calls
        ]
    return wire


def _content(content: Content | None, *, parts: bool) -> str | list[dict[str, Any]]:
    """Return plain text if possible: many services accept parts only in messages of the user."""
    if content is None or isinstance(content, str):
        return content or ""
    mapped = [_part(element) for element in content]
    if all(part["type"] == "text" for part in mapped):
        return "\n".join(part["text"] for part in mapped)
    if parts:
        return mapped
    return "\n".join(part["text"] if part["type"] == "text" else f"[{part['type']}]" for part in mapped)


def _part(element: ContentElement) -> dict[str, Any]:
    match element:
        case TextElement(text=text):
            return _text(text)
        case ImageUrlElement(image_url=image):
            shown = {"url": image.url} | ({"detail": image.detail} if image.detail else {})
            return {"type": "image_url", "image_url": shown}
        case ImageBase64Element(image_base64=inline, mime_type=mime_type):
            data, found = decoded(inline)
            url = data_url(data, mime_type or found or "image/png")
            return {"type": "image_url", "image_url": {"url": url}}
        case FileBase64Element(file_base64=inline, file_name=name, mime_type=mime_type):
            data, found = decoded(inline)
            return _file(data, name, mime_type or found)
        case FileUrlElement(file_url=url, file_name=name):
            return _text(f"[file {name or 'without a name'}: {url}]")  # the API has no files by URL
        case ArtifactElement(artifact_id=artifact_id, file_name=name):
            return _text(f"[attachment {name or artifact_id}]")


def _file(data: bytes, name: str | None, mime_type: str | None) -> dict[str, Any]:
    if (mime_type or "").startswith("image/"):
        return {"type": "image_url", "image_url": {"url": data_url(data, mime_type or "image/png")}}
    if mime_type in _AUDIO_FORMATS:
        encoded = data_url(data, mime_type).partition(",")[2]
        return {"type": "input_audio", "input_audio": {"data": encoded, "format": _AUDIO_FORMATS[mime_type]}}
    if is_text(mime_type, name):
        text = data.decode("utf-8", errors="replace")
        return _text(f"[file {name or 'without a name'}]\n{text}")
    url = data_url(data, mime_type or "application/octet-stream")
    return {"type": "file", "file": {"filename": name or "file", "file_data": url}}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
