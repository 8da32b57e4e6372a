"""How MCP says that something went wrong: as the error of a JSON-RPC response.

Its older clients take any status but 200 for a broken connection, and 404 for the end of their session. So
what is wrong with a call of a session is an answer with the status 200, unless it is the connection's matter.
"""

from __future__ import annotations

from typing import Any

from hostler.http.dialects.dialect import Dialect, Refusal
from hostler.http.mcp.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    RequestId,
    RpcError,
    RpcMessage,
    encode_error,
)
from hostler.http.mcp.sessions import NoSessionError
from hostler.http.problems import Problem, problem_of
from hostler.http.responses import RawBody
from hostler_protocol.errors import HostlerError

BUSY = -32000
"""Nothing was done, and it may go better soon. The code is from the range that is left to servers."""
METADATA_PATH = "/.well-known/oauth-protected-resource"
_CODES = {401: INVALID_REQUEST, 403: INVALID_REQUEST, 405: INVALID_REQUEST, 415: INVALID_REQUEST, 429: BUSY}
_OF_CONNECTION = frozenset({401, 403, 429, 500, 502, 503, 504})
"""Statuses that every client is told as such."""


class Mcp(Dialect):
    """The habits of MCP."""

    name = "mcp"

    def refuse(self, problem: Problem) -> Refusal:
        """Return an error as a JSON-RPC response to no request in particular."""
        body = {"jsonrpc": "2.0", "id": None, "error": error_object(problem)}
        return Refusal(problem.status, body)

    def challenge(self, base: str) -> bytes:
        """Return where a client finds out how to authenticate (RFC 9728)."""
        return f'Bearer realm="hostler", resource_metadata="{base}{METADATA_PATH}/mcp"'.encode("ascii")


def code_of(problem: Problem) -> int:
    """Return the code of JSON-RPC for an error."""
    if problem.status in _CODES:
        return _CODES[problem.status]
    if problem.status == 503:
        return BUSY
    return INTERNAL_ERROR if problem.status >= 500 else INVALID_PARAMS


def error_object(problem: Problem) -> dict[str, Any]:
    """Return an error as JSON-RPC has it. `data`: what the host knows about it."""
    data: dict[str, Any] = {"code": problem.code, "status": problem.status, "retryable": problem.retryable}
    if problem.details:
        data["details"] = problem.details
    return {"code": code_of(problem), "message": problem.detail, "data": data}


def answer_error(message: RpcMessage, error: HostlerError | RpcError) -> RawBody:
    """Return an error as the response to a request."""
    if isinstance(error, RpcError):
        error.id = message.id
        status = error.status if error.of_connection else _status(message, error.status)
        return RawBody(encode_error(error), "application/json", status)
    problem = problem_of(error)
    body = encode_error(_rpc_error(problem, message.id))
    known = isinstance(error, NoSessionError)
    return RawBody(body, "application/json", problem.status if known else _status(message, problem.status))


def _rpc_error(problem: Problem, id_: RequestId | None) -> RpcError:
    fault = error_object(problem)
    return RpcError(fault["code"], fault["message"], fault["data"], id_=id_)


def _status(message: RpcMessage, status: int) -> int:
    return status if message.stateless or status in _OF_CONNECTION else 200


MCP = Mcp()
