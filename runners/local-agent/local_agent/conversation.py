"""Convert transcript items and the event's input to messages for a model. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hostler_sdk.types import (
    ArtifactElement,
    ArtifactRef,
    Content,
    ContentElement,
    FunctionCall,
    Input,
    ModelMessage,
    Role,
    TextElement,
    ToolCall,
    TranscriptItem,
    text_of,
)
from local_agent.toolbox import allowed_name

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "tool": "tool"}
_INSTRUCTING = frozenset({"system", "developer"})
_EMPTY_RESULT = "(empty)"


def message_of(item: TranscriptItem) -> ModelMessage | None:
    """Convert a message of the history. Return None for instructions, other roles and empty messages.

    Pictures and files stay references: the host adds their bytes to the request. Calls of tools and their
    results are in a history that its client kept.
    """
    role = _ROLES.get(item.role)
    if role is None:
        return None
    message = item.message
    content = _joined(message.content, item.artifact_refs)
    if role == "tool":
        return ModelMessage(role=role, content=content or _EMPTY_RESULT, tool_call_id=message.tool_call_id)
    calls = [_sendable(call) for call in message.tool_calls] if role == "assistant" else []
    if not content and not calls:
        return None
    return ModelMessage(role=role, content=content or None, tool_calls=calls)


def instruction_of(item: TranscriptItem) -> str | None:
    """Return the text of an instruction in a history that its client kept, or None for any other message."""
    return text_of(item.message.content).strip() or None if item.role in _INSTRUCTING else None


def _sendable(call: ToolCall) -> ToolCall:
    """Return a call as services accept it: with an allowed name, and an object of JSON as its arguments."""
    arguments = call.function.arguments
    try:
        is_object = isinstance(msgspec.json.decode(arguments), dict)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        is_object = False
    name = allowed_name(call.function.name) or "unknown"
    function = FunctionCall(name=name, arguments=arguments if is_object else "{}")
    return msgspec.structs.replace(call, function=function)


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
