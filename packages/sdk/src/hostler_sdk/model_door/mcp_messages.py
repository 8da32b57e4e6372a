"""MCP messages as a server of tools reads and writes them. Pure.

Two generations of the protocol are served, both without sessions: up to 2025-11-25 with a handshake, since
2026-07-28 with what the handshake said in each request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from hostler_protocol._base import DECODE_ERRORS
from hostler_protocol.calls import ToolDetail
from hostler_sdk.errors import HostError
from hostler_sdk.model_door.exchange import JSON_TYPE, DoorAnswer
from hostler_sdk.model_door.limits import MAX_RPC_ID_CHARS
from hostler_sdk.model_door.reading import Json

HANDSHAKE_VERSIONS = ("2025-03-26", "2025-06-18", "2025-11-25")
STATELESS_VERSIONS = ("2026-07-28",)
VERSION_HEADER, METHOD_HEADER = "mcp-protocol-version", "mcp-method"
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
HEADER_MISMATCH, UNSUPPORTED_VERSION = -32020, -32022
_PREFIX = "io.modelcontextprotocol/"
_ABOUT: Json = {
    "capabilities": {"tools": {}},
    "instructions": "The tools of one run. They exist as long as the run.",
}
_SERVER = {"name": "hostler", "version": "1"}


class RpcError(Exception):
    """A JSON-RPC error in answer to a message."""

    def __init__(self, code: int, text: str, *, id_: str | int | None = None, data: Any = None) -> None:
        super().__init__(text)
        self.code, self.text, self.id, self.data = code, text, id_, data

    @property
    def answer(self) -> DoorAnswer:
        """The error as an answer."""
        fault: Json = {"code": self.code, "message": self.text}
        if self.data is not None:
            fault["data"] = self.data
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": self.id, "error": fault})
        return DoorAnswer(404 if self.code == METHOD_NOT_FOUND else 400, [JSON_TYPE], body)


class RpcMessage(NamedTuple):
    """A request, or without `id` a notification. `stateless`: of the generation without a handshake."""

    method: str
    params: Json
    id: str | int | None
    stateless: bool

    def result(self, value: Json, *, is_list: bool = False) -> bytes:
        """Return the answer to a request. `is_list`: a stateless client shall not keep it."""
        if self.stateless:
            value = value | {"resultType": "complete"}
            value |= {"ttlMs": 0, "cacheScope": "private"} if is_list else {}
        return msgspec.json.encode({"jsonrpc": "2.0", "id": self.id, "result": value})


def read_message(body: bytes, headers: Mapping[str, str]) -> RpcMessage | None:
    """Return a message; None for a response, since this server asks nothing. RpcError."""
    try:
        data = msgspec.json.decode(body)
    except DECODE_ERRORS as error:
        raise RpcError(PARSE_ERROR, f"the body is not JSON: {error}") from None
    if not isinstance(data, dict) or data.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, "the body is not one JSON-RPC 2.0 message")
    id_, method, params = data.get("id"), data.get("method"), data.get("params", {})
    if isinstance(id_, bool) or not isinstance(id_, str | int | None) or len(str(id_)) > MAX_RPC_ID_CHARS:
        raise RpcError(INVALID_REQUEST, f"an id is a text or number of at most {MAX_RPC_ID_CHARS} characters")
    if method is None and ("result" in data or "error" in data):
        return None
    if not isinstance(method, str) or not isinstance(params, dict):
        raise RpcError(INVALID_REQUEST, "a message has a method, and params as an object", id_=id_)
    message = RpcMessage(method, params, id_, headers.get(VERSION_HEADER) in STATELESS_VERSIONS)
    _check_version(message, headers)
    return message


def _check_version(message: RpcMessage, headers: Mapping[str, str]) -> None:
    version = headers.get(VERSION_HEADER)
    if message.stateless and message.id is not None:
        meta = message.params.get("_meta")
        stated = meta.get(f"{_PREFIX}protocolVersion") if isinstance(meta, dict) else None
        for header, value in ((VERSION_HEADER, stated), (METHOD_HEADER, message.method)):
            if headers.get(header) != value:
                text = f"the header {header} does not match the message"
                raise RpcError(HEADER_MISMATCH, text, id_=message.id)
    elif version not in (None, *HANDSHAKE_VERSIONS, *STATELESS_VERSIONS) and message.method != "initialize":
        text = f"protocol version {version!r:.50} is not supported"
        supported = [*HANDSHAKE_VERSIONS, *STATELESS_VERSIONS]
        details = {"supported": supported, "requested": version}
        raise RpcError(UNSUPPORTED_VERSION, text, id_=message.id, data=details)


def initialized(message: RpcMessage) -> Json:
    """Return the result of `initialize`: with the version that is asked for if it is known."""
    asked = message.params.get("protocolVersion")
    version = asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
    return {"protocolVersion": version, "serverInfo": _SERVER, **_ABOUT}


def discovered() -> Json:
    """Return the result of `server/discover`."""
    versions = [*HANDSHAKE_VERSIONS, *STATELESS_VERSIONS]
    return {"supportedVersions": versions, "_meta": {f"{_PREFIX}serverInfo": _SERVER}, **_ABOUT}


def tool_listed(detail: ToolDetail, name: str) -> Json:
    """Return a tool as `tools/list` names it; its title is the host's name."""
    return {
        "name": name,
        "title": detail.name,
        "description": detail.description,
        "inputSchema": {"type": "object"} | detail.parameters,
    }


def tool_result(value: Any) -> Json:
    """Return a tool's result: as text, and an object as structured content, too."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    result: Json = {"content": [{"type": "text", "text": text}], "isError": False}
    return result | ({"structuredContent": value} if isinstance(value, dict) else {})


def tool_failed(error: HostError) -> Json:
    """Return the result of a call that failed, for the model to read."""
    fault = {"code": error.code, "message": error.message, "retryable": error.retryable}
    text = f"{error.code}: {error.message}"
    return {
        "content": [{"type": "text", "text": text}],
        "isError": True,
        "structuredContent": {"error": fault},
    }
