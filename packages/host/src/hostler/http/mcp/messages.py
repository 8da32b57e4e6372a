"""Decode MCP messages and encode their responses, for both servers at `/mcp`. No IO.

Two generations of the protocol are served. Clients up to 2025-11-25 begin with a handshake (`initialize`) and
have a session. Since 2026-07-28 each request carries what the handshake carried, and is stateless.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from hostler.domain.record import Record
from hostler.version import NAME, VERSION
from hostler_protocol._base import DECODE_ERRORS

RequestId = str | int
SESSION_VERSIONS = ("2025-03-26", "2025-06-18", "2025-11-25")
STATELESS_VERSIONS = ("2026-07-28",)
SESSION_HEADER = "mcp-session-id"
VERSION_HEADER = "mcp-protocol-version"
METHOD_HEADER = "mcp-method"
NAME_HEADER = "mcp-name"
NAMED_BY: Mapping[str, str] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""Method -> the parameter that a stateless request repeats in the header Mcp-Name."""
MAX_ID_CHARS = 128
"""The id of a request that is text."""
MAX_REPEATED_BYTES = 256
"""Of the id of a request, and of a progress token, as JSON: they are repeated in every frame, and both are in
the ids of events, which come back in a header."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
MISSING_CAPABILITY = -32021
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022
_STATUS = {METHOD_NOT_FOUND: 404, INTERNAL_ERROR: 500}
"""JSON-RPC error code -> HTTP status; 400 for all others."""

META_PREFIX = "io.modelcontextprotocol/"
_BASE64 = re.compile(r"=\?base64\?(?P<payload>[A-Za-z0-9+/=]*)\?=")
_encoder = msgspec.json.Encoder(enc_hook=str)


class RpcError(Exception):
    """A JSON-RPC error in response to a message."""

    def __init__(
        self,
        code: int,
        message: str,
        data: Any = None,
        *,
        id_: RequestId | None = None,
        of_connection: bool = False,
    ) -> None:
        super().__init__(message)
        self.of_connection = of_connection
        """Whether its HTTP status says so to clients of sessions, too."""
        self.code, self.message, self.data, self.id = code, message, data, id_

    @property
    def status(self) -> int:
        """The HTTP status of the error."""
        return _STATUS.get(self.code, 400)


class RpcMessage(Record):
    """A request, or without `id` a notification. `stateless`: the client uses no sessions."""

    method: str
    params: dict[str, Any]
    id: RequestId | None
    stateless: bool = False

    @property
    def meta(self) -> dict[str, Any]:
        """The parameter `_meta`; empty if there is none."""
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def capabilities(self) -> dict[str, Any]:
        """What a stateless client can do, which it says in every request."""
        found = self.meta.get(META_PREFIX + "clientCapabilities")
        return found if isinstance(found, dict) else {}


class RpcReply(Record):
    """A client's response to a request of this server. `result` None: it is an error."""

    id: RequestId | None
    result: Any


def read_message(body: bytes, headers: Mapping[str, str]) -> RpcMessage | RpcReply:
    """Decode a message. RpcError."""
    try:
        data = msgspec.json.decode(body)
    except DECODE_ERRORS as error:
        raise RpcError(PARSE_ERROR, f"the body is not JSON: {error}") from None
    if isinstance(data, list):
        raise RpcError(INVALID_REQUEST, "a body with several messages is not supported: send one at a time")
    if not isinstance(data, dict) or data.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, "the body is not a JSON-RPC 2.0 message")
    id_ = _id(data)
    method, params = data.get("method"), data.get("params", {})
    if method is None and ("result" in data or "error" in data):
        return RpcReply(id_, data.get("result"))
    if not isinstance(method, str) or not isinstance(params, dict):
        raise RpcError(INVALID_REQUEST, "a message has a method, and params as an object", id_=id_)
    stateless = headers.get(VERSION_HEADER) in STATELESS_VERSIONS
    message = RpcMessage(method, params, id_, stateless)
    if stateless and id_ is not None:
        _check_envelope(message, headers)
    elif method != "initialize":
        _check_version(headers.get(VERSION_HEADER), id_)
    return message


def _id(data: dict[str, Any]) -> RequestId | None:
    if "id" not in data:
        return None
    id_ = data["id"]
    if isinstance(id_, bool) or not isinstance(id_, str | int):
        raise RpcError(INVALID_REQUEST, "the id of a message is a text or a whole number")
    if isinstance(id_, str) and len(id_) > MAX_ID_CHARS:
        raise RpcError(INVALID_REQUEST, f"the id of a message has at most {MAX_ID_CHARS} characters")
    if not is_short(id_):
        raise RpcError(
            INVALID_REQUEST,
            "the id of a message is a number of 64 bits, or a text of at most "
            f"{MAX_REPEATED_BYTES} bytes as JSON",
        )
    return id_


def is_short(value: RequestId) -> bool:
    """Whether a value may be repeated in every frame of a stream."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return len(_encoder.encode(value)) <= MAX_REPEATED_BYTES


def _check_version(version: str | None, id_: RequestId | None) -> None:
    if version is not None and version not in SESSION_VERSIONS:
        supported = [*SESSION_VERSIONS, *STATELESS_VERSIONS]
        details = {"supported": supported, "requested": version}
        raise RpcError(
            UNSUPPORTED_VERSION, f"protocol version {version!r:.50} is not supported", details, id_=id_
        )


def _check_envelope(message: RpcMessage, headers: Mapping[str, str]) -> None:
    """Check that a stateless request agrees with its headers. RpcError."""
    meta = message.meta
    missing = [name for name in ("protocolVersion", "clientCapabilities") if META_PREFIX + name not in meta]
    if missing:
        names = ", ".join(META_PREFIX + name for name in missing)
        raise RpcError(INVALID_PARAMS, f"params._meta lacks {names}", id_=message.id)
    if meta[META_PREFIX + "protocolVersion"] != headers.get(VERSION_HEADER):
        raise _mismatch(message, VERSION_HEADER)
    if headers.get(METHOD_HEADER) != message.method:
        raise _mismatch(message, METHOD_HEADER)
    name = NAMED_BY.get(message.method)
    if name is not None and _decoded(headers.get(NAME_HEADER)) != message.params.get(name):
        raise _mismatch(message, NAME_HEADER)


def _mismatch(message: RpcMessage, header: str) -> RpcError:
    return RpcError(HEADER_MISMATCH, f"the header {header} does not match the message", id_=message.id)


def _decoded(value: str | None) -> str | None:
    """Decode a header value, which is in base64 if it is not plain ASCII. None if it cannot be decoded."""
    if value is None or (found := _BASE64.fullmatch(value)) is None:
        return value
    try:
        return base64.b64decode(found["payload"], validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return None


# -- responses -------------------------------------------------------------------------------------------


def encode_result(message: RpcMessage, result: dict[str, Any], *, is_list: bool = False) -> bytes:
    """Encode the response to a request. `is_list`: tell a stateless client not to cache it."""
    if message.stateless:
        cache = {"ttlMs": 0, "cacheScope": "private"} if is_list else {}
        result = {"resultType": "complete"} | result | cache
    return _encoder.encode({"jsonrpc": "2.0", "id": message.id, "result": result})


def encode_error(error: RpcError) -> bytes:
    """Encode the response to an invalid message."""
    fault: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        fault["data"] = error.data
    return _encoder.encode({"jsonrpc": "2.0", "id": error.id, "error": fault})


def session_version(message: RpcMessage) -> str:
    """Return the version of a session that begins: the requested one if it is supported, else our newest."""
    requested = message.params.get("protocolVersion")
    return requested if requested in SESSION_VERSIONS else SESSION_VERSIONS[-1]


def initialize_result(message: RpcMessage, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of `initialize`. `about`: the server's capabilities and instructions."""
    return {"protocolVersion": session_version(message), "serverInfo": _server(), **about}


def server_info(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of `server/discover`. `about`: the server's capabilities and instructions."""
    versions = [*SESSION_VERSIONS, *STATELESS_VERSIONS]
    return {"supportedVersions": versions, "_meta": {META_PREFIX + "serverInfo": _server()}, **about}


def _server() -> dict[str, str]:
    return {"name": NAME, "version": VERSION}


def tool_result(value: Any) -> dict[str, Any]:
    """Return a tool's result in MCP's form: as text, and an object also as structured content."""
    result: dict[str, Any] = {"content": [text_block(value)], "isError": False}
    if isinstance(value, dict):
        result["structuredContent"] = value
    return result


def tool_error(code: str, text: str, *, retryable: bool) -> dict[str, Any]:
    """Return the result of a failed call, for the model to read."""
    error = {"code": code, "message": text, "retryable": retryable}
    return {
        "content": [text_block(f"{code}: {text}")],
        "isError": True,
        "structuredContent": {"error": error},
    }


def text_block(value: Any) -> dict[str, Literal["text"] | str]:
    """Return a text, or another value as JSON, as a block of content."""
    return {"type": "text", "text": value if isinstance(value, str) else _encoder.encode(value).decode()}
