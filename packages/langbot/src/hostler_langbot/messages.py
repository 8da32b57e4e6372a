"""Messages, model calls and usage, between LangBot's form and the protocol's. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import msgspec

from hostler_sdk import InvalidArgument
from hostler_sdk.services import ThinkFilter
from hostler_sdk.types import (
    ArtifactElement,
    Content,
    FileBase64Element,
    FileUrlElement,
    ImageBase64Element,
    ImageUrlElement,
    ModelDelta,
    ModelMessage,
    Role,
    TextElement,
    Usage,
)

OWN = "hostler"
"""The key under which a message carries what only the host understands, through the plugin and back."""
ARTIFACT = "artifact:"
"""How the address of a stored file begins; a plugin can pass it on to a model, and not open it."""


def content_out(content: Content | None) -> str | list[dict[str, Any]] | None:
    """Return content for a plugin."""
    if content is None or isinstance(content, str):
        return content
    return [element_out(element) for element in content]


def element_out(element: Any) -> dict[str, Any]:
    """Return one content element for a plugin. Inline files are data URLs there."""
    match element:
        case TextElement():
            return {"type": "text", "text": element.text}
        case ImageUrlElement():
            return {"type": "image_url", "image_url": {"url": element.image_url.url}}
        case ImageBase64Element():
            data = _data_url(element.image_base64, element.mime_type or "image/png")
            return {"type": "image_base64", "image_base64": data}
        case FileUrlElement():
            return {"type": "file_url", "file_url": element.file_url, "file_name": element.file_name}
        case FileBase64Element():
            data = _data_url(element.file_base64, element.mime_type or "application/octet-stream")
            return {"type": "file_base64", "file_base64": data, "file_name": element.file_name}
        case ArtifactElement():
            return _artifact_out(element)
    raise TypeError(f"unknown content element {type(element).__name__}")


def _artifact_out(element: ArtifactElement) -> dict[str, Any]:
    address = f"{ARTIFACT}{element.artifact_id}"
    if (element.mime_type or "").startswith("image/"):
        return {"type": "image_url", "image_url": {"url": address}}
    return {"type": "file_url", "file_url": address, "file_name": element.file_name}


def _data_url(data: str, mime_type: str) -> str:
    return data if data.startswith("data:") else f"data:{mime_type};base64,{data}"


def content_in(content: Any) -> str | list[dict[str, Any]] | None:
    """Return a plugin's content in the protocol's form; elements that say nothing are left out."""
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        raise InvalidArgument(f"content is text or a list of elements, not {type(content).__name__}")
    found = [element_in(element) for element in content]
    return [element for element in found if element is not None]


def element_in(element: Any) -> dict[str, Any] | None:
    """Return one of a plugin's content elements in the protocol's form; None if it says nothing."""
    if not isinstance(element, Mapping):
        raise InvalidArgument("a content element is an object with a type")
    kind = element.get("type")
    value = element.get(kind) if isinstance(kind, str) else None
    named = {"file_name": element["file_name"]} if isinstance(element.get("file_name"), str) else {}
    if kind == "image_url":
        value = value.get("url") if isinstance(value, Mapping) else value
    if kind not in ("text", "image_url", "image_base64", "file_url", "file_base64"):
        raise InvalidArgument(f"there is no content element of the type {str(kind)[:60]!r}")
    if not isinstance(value, str):
        return None
    if kind in ("image_url", "file_url") and value.startswith(ARTIFACT):
        return {"type": "artifact", "artifact_id": value.removeprefix(ARTIFACT), **named}
    if kind == "image_url":
        return {"type": kind, "image_url": {"url": value}}
    return {"type": kind, kind: value, **(named if kind.startswith("file") else {})}


def text_in(content: Any) -> str:
    """Return the text of a plugin's content, joined."""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    texts = [one.get("text") for one in content if isinstance(one, Mapping) and one.get("type") == "text"]
    return "".join(text for text in texts if isinstance(text, str))


# -- messages of models ----------------------------------------------------------------------------


def model_message_in(message: Any) -> dict[str, Any]:
    """Return a message for `model.invoke`, of a plugin's message. Raises InvalidArgument."""
    if not isinstance(message, Mapping):
        raise InvalidArgument("messages are objects with role and content")
    own = _own_of(message)
    found: dict[str, Any] = {"role": message.get("role"), "content": content_in(message.get("content"))}
    found |= {
        field: message[field] for field in ("name", "tool_call_id") if isinstance(message.get(field), str)
    }
    kept = own.get("tool_calls")
    kept = kept if isinstance(kept, Mapping) else {}
    if calls := message.get("tool_calls"):
        if not isinstance(calls, Sequence):
            raise InvalidArgument("tool_calls is a list")
        found["tool_calls"] = [_tool_call_in(call, kept) for call in calls]
    return found | {field: own[field] for field in ("reasoning", "provider_data") if field in own}


def _tool_call_in(call: Any, kept: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        raise InvalidArgument("a tool call has an id and a function")
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    found = {"id": call.get("id"), "function": {"name": function.get("name"), "arguments": text}}
    data = _own_of(call).get("provider_data") or kept.get(str(call.get("id")))
    return {**found, "provider_data": data} if data is not None else found


def _own_of(value: Mapping[str, Any]) -> Mapping[str, Any]:
    fields = value.get("provider_specific_fields")
    own = fields.get(OWN) if isinstance(fields, Mapping) else None
    return own if isinstance(own, Mapping) else {}


def model_message_out(message: ModelMessage, *, remove_think: bool) -> dict[str, Any]:
    """Return a model's message for a plugin. What only the host understands goes with it and comes back."""
    content = content_out(message.content)
    if remove_think and isinstance(content, str):
        content = without_thinking(content)
    found: dict[str, Any] = {"role": message.role, "content": content, "name": message.name}
    found["tool_calls"] = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.function.name, "arguments": call.function.arguments},
            "provider_specific_fields": (
                {OWN: {"provider_data": msgspec.to_builtins(call.provider_data)}}
                if call.provider_data
                else None
            ),
        }
        for call in message.tool_calls
    ] or None
    found["tool_call_id"] = message.tool_call_id
    found["provider_specific_fields"] = own_fields(message)
    return found


def own_fields(message: ModelMessage) -> dict[str, Any] | None:
    """Return what only the host understands of a model's message."""
    own: dict[str, Any] = {}
    if message.reasoning:
        own["reasoning"] = message.reasoning
    if message.provider_data is not None:
        own["provider_data"] = msgspec.to_builtins(message.provider_data)
    kept = {
        call.id: msgspec.to_builtins(call.provider_data) for call in message.tool_calls if call.provider_data
    }
    if kept:
        own["tool_calls"] = kept
    return {OWN: own} if own else None


def without_thinking(text: str) -> str:
    """Return the text without its `<think>` parts."""
    thinking = ThinkFilter()
    return thinking.feed(text) + thinking.finish()


def functions_in(funcs: Any) -> list[dict[str, Any]] | None:
    """Return tools for `model.invoke`, of a plugin's. Raises InvalidArgument."""
    if not funcs:
        return None
    if not isinstance(funcs, Sequence) or not all(isinstance(one, Mapping) for one in funcs):
        raise InvalidArgument("funcs is a list of tools with name, description and parameters")
    fields = ("name", "description", "parameters")
    return [{field: one[field] for field in fields if one.get(field) is not None} for one in funcs]


class ChunkWriter:
    """Turns the pieces of a model's answer into LangBot's chunks."""

    def __init__(self, message_id: str, *, remove_think: bool) -> None:
        self._message_id = message_id
        self._thinking = ThinkFilter() if remove_think else None
        self._calls: dict[int, tuple[str, str]] = {}
        self._number = 0

    def piece(self, delta: ModelDelta) -> dict[str, Any] | None:
        """Return the chunk of one piece; None if the plugin has nothing of it."""
        content = content_out(delta.content)
        if isinstance(content, str) and self._thinking is not None:
            content = self._thinking.feed(content)
        calls = [self._call(call.index, call.id, call.name, call.arguments) for call in delta.tool_calls]
        if not content and not calls:
            return None
        return self._chunk(content or "", calls)

    def end(self, message: ModelMessage, finish_reason: str) -> dict[str, Any]:
        """Return the last chunk. Its `finish_reason` tells plugins that an answer without text is one."""
        rest = "" if self._thinking is None else self._thinking.finish()
        chunk = self._chunk(rest, [])
        fields = {"finish_reason": finish_reason, **(own_fields(message) or {})}
        return {**chunk, "is_final": True, "provider_specific_fields": fields}

    def _call(self, index: int, id_: str | None, name: str | None, arguments: str | None) -> dict[str, Any]:
        known = self._calls.get(index, (f"call_{index}", ""))
        self._calls[index] = known = (id_ or known[0], name or known[1])
        return {
            "id": known[0],
            "type": "function",
            "function": {"name": known[1], "arguments": arguments or ""},
        }

    def _chunk(self, content: Any, calls: list[dict[str, Any]]) -> dict[str, Any]:
        self._number += 1
        return {
            "resp_message_id": self._message_id,
            "role": "assistant",
            "content": content,
            "tool_calls": calls or None,
            "is_final": False,
            "msg_sequence": self._number,
        }


# -- usage -----------------------------------------------------------------------------------------

_USAGE = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
_DETAILS = {
    "cached_tokens": ("prompt_tokens_details", "cached_tokens"),
    "reasoning_tokens": ("completion_tokens_details", "reasoning_tokens"),
}


def usage_out(usage: Usage | None) -> dict[str, Any] | None:
    """Return the tokens used, under LangBot's names."""
    if usage is None:
        return None
    known = msgspec.to_builtins(usage)
    return {_USAGE.get(name, name): count for name, count in known.items() if count is not None}


def usage_in(usage: Any) -> Usage | None:
    """Return the tokens that a plugin reports; numbers that are none are left out."""
    if not isinstance(usage, Mapping):
        return None
    found: dict[str, int] = {}
    for field in Usage.__struct_fields__:
        value = usage.get(field, usage.get(_USAGE.get(field, field)))
        if value is None and field in _DETAILS:
            outer, inner = _DETAILS[field]
            details = usage.get(outer)
            value = details.get(inner) if isinstance(details, Mapping) else None
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53:
            found[field] = value
    return Usage(**found) if found else None


ROLES = frozenset(get_args(Role))
