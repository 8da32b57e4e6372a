"""Convert results of servers' tools to the host's format: marked as untrusted, without duplicate content."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from hostler.tools.errors import ToolFailedError
from hostler.tools.mcp.limits import MAX_ERROR_CHARS
from hostler.tools.schema import ToolSchema
from hostler_protocol._base import DECODE_ERRORS
from hostler_protocol.errors import HostlerError, InvalidArgumentError, PayloadTooLargeError
from hostler_protocol.json_values import json_problem


def result_of(owner: str, tool: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return `source`, `untrusted`, and `content` (elements as in messages) or `structured` or both.

    ToolFailedError if the tool reports failure, or returns numbers that JSON does not have, like NaN.
    """
    blocks = [block for block in answer.get("content") or [] if isinstance(block, dict)]
    structured = answer.get("structuredContent")
    if answer.get("isError"):
        text = "\n".join(block.get("text", "") for block in blocks if block.get("type") == "text").strip()
        reason = text or (json.dumps(structured) if structured is not None else "it did not say why")
        raise ToolFailedError.of(HostlerError(f"{tool} of {owner} failed: {reason[:MAX_ERROR_CHARS]}"))
    result: dict[str, Any] = {"source": owner, "untrusted": True}
    if structured is not None:
        problem = json_problem(structured, "structuredContent")
        if problem is not None:
            raise ToolFailedError.of(HostlerError(f"{tool} of {owner} was called, but {problem}"))
        result["structured"] = structured
        blocks = [block for block in blocks if not _repeats(block, structured)]
    if blocks or structured is None:
        result["content"] = [_element(block) for block in blocks]
    return result


def check_size(owner: str, tool: str, result: Mapping[str, Any], limit: int) -> None:
    """Check that a result has at most `limit` bytes of JSON. ToolFailedError: the tool has done its work."""
    size = len(msgspec.json.encode(result))
    if size > limit:
        text = f"{tool} of {owner} was called, but its result has {size:,} bytes; at most {limit:,} are kept"
        raise ToolFailedError.of(PayloadTooLargeError(text, limit_bytes=limit))


def check_output(owner: str, tool: str, schema: ToolSchema, result: Mapping[str, Any]) -> None:
    """Validate the structured content against the tool's output schema. ToolFailedError."""
    what = f"{tool} of {owner} was called, but its result is not what it declares"
    if "structured" not in result:
        raise ToolFailedError.of(HostlerError(f"{what}: it has no structured content"))
    try:
        schema.check(result["structured"], what)
    except InvalidArgumentError as error:
        raise ToolFailedError.of(HostlerError(error.message)) from error


def _repeats(block: Mapping[str, Any], structured: Any) -> bool:
    """Whether a text repeats the structured content, as servers do for older clients."""
    text = block.get("text")
    if block.get("type") != "text" or not isinstance(text, str):
        return False
    if structured in (text, {"result": text}):  # no parsing needed
        return True
    try:
        value = msgspec.json.decode(text)
    except DECODE_ERRORS:
        return False
    return structured in (value, {"result": value})


def _element(block: Mapping[str, Any]) -> dict[str, Any]:
    """Convert one content block to an element as in messages."""
    match block.get("type"):
        case "text":
            return {"type": "text", "text": block.get("text", "")}
        case "image":
            return {
                "type": "image_base64",
                "image_base64": block.get("data", ""),
                "mime_type": block.get("mimeType"),
            }
        case "audio":
            return {
                "type": "file_base64",
                "file_base64": block.get("data", ""),
                "mime_type": block.get("mimeType"),
            }
        case "resource":
            return _resource(block.get("resource") or {})
        case "resource_link":
            link = {"type": "file_url", "file_url": block.get("uri", ""), "file_name": block.get("name")}
            return {name: value for name, value in link.items() if value is not None}
        case other:
            return {"type": "text", "text": f"[{other}: content that this host does not know]"}


def _resource(resource: Mapping[str, Any]) -> dict[str, Any]:
    name = resource.get("uri", "")
    if "blob" in resource:
        found = {
            "type": "file_base64",
            "file_base64": resource["blob"],
            "file_name": name,
            "mime_type": resource.get("mimeType"),
        }
        return {key: value for key, value in found.items() if value is not None}
    return {"type": "text", "text": resource.get("text", ""), "uri": name}
