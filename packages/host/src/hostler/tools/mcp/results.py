"""What a tool of a server answers, as JSON of ours: marked as foreign, with nothing standing twice."""

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
    """The result: `source` and `untrusted`, with `content` (elements as in messages) and `structured`.

    ToolFailedError where the tool says that it failed, or gives numbers that JSON does not have, like NaN.
    """
    blocks = [block for block in answer.get("content") or [] if isinstance(block, dict)]
    structured = answer.get("structuredContent")
    if answer.get("isError"):
        text = "\n".join(block.get("text", "") for block in blocks if block.get("type") == "text").strip()
        said = text or (json.dumps(structured) if structured is not None else "it did not say why")
        raise ToolFailedError.of(HostlerError(f"{tool} of {owner} failed: {said[:MAX_ERROR_CHARS]}"))
    result: dict[str, Any] = {"source": owner, "untrusted": True}
    if structured is not None:
        problem = json_problem(structured, "structuredContent")
        if problem is not None:
            raise ToolFailedError.of(HostlerError(f"{tool} of {owner} was called, but {problem}"))
        result["structured"] = structured
        blocks = [block for block in blocks if not _says_the_same(block, structured)]
    if blocks or structured is None:
        result["content"] = [_element(block) for block in blocks]
    return result


def check_size(owner: str, tool: str, result: Mapping[str, Any], limit: int) -> None:
    """Refuse a result over `limit` bytes of JSON. ToolFailedError, since the tool has done its work."""
    size = len(msgspec.json.encode(result))
    if size > limit:
        text = f"{tool} of {owner} was called, but its result has {size:,} bytes; at most {limit:,} are kept"
        raise ToolFailedError.of(PayloadTooLargeError(text, limit_bytes=limit))


def check_output(owner: str, tool: str, schema: ToolSchema, result: Mapping[str, Any]) -> None:
    """Hold the structured content against the schema that the tool declares of it. ToolFailedError."""
    what = f"{tool} of {owner} was called, but its result is not what it declares"
    if "structured" not in result:
        raise ToolFailedError.of(HostlerError(f"{what}: it has no structured content"))
    try:
        schema.check(result["structured"], what)
    except InvalidArgumentError as error:
        raise ToolFailedError.of(HostlerError(error.message)) from error


def _says_the_same(block: Mapping[str, Any], structured: Any) -> bool:
    """Servers repeat structured content as text, for clients that do not know it."""
    text = block.get("text")
    if block.get("type") != "text" or not isinstance(text, str):
        return False
    if structured in (text, {"result": text}):  # a text needs no parsing, however long it is
        return True
    try:
        said = msgspec.json.decode(text)
    except DECODE_ERRORS:
        return False
    return structured in (said, {"result": said})


def _element(block: Mapping[str, Any]) -> dict[str, Any]:
    """One piece, in the form that elements of messages have."""
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
