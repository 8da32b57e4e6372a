"""Errors as JSON-RPC errors of the protocol."""

from __future__ import annotations

from typing import Any

from acp import RequestError

from hostler.cli.client import AnswerError
from hostler_protocol.errors import (
    CallerError,
    HostlerError,
    InvalidArgumentError,
    NotFoundError,
    UnauthorizedError,
)

AUTH_REQUIRED, FORBIDDEN, NOT_FOUND = -32000, -32003, -32002
INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL = -32600, -32601, -32602, -32603
HTTP_FORBIDDEN = 403
_INVALID_STATUS = (413, 422)


def request_error(error: HostlerError) -> RequestError:
    """Return an error as the editor gets it: its sentence, and `code` and `retryable` in the data."""
    code = str(getattr(error, "answer_code", error.code))
    return RequestError(_number(error), error.message, {"code": code, "retryable": error.retryable})


def _number(error: HostlerError) -> int:
    match error:
        case UnauthorizedError():
            return FORBIDDEN if error.details.get("status") == HTTP_FORBIDDEN else AUTH_REQUIRED
        case NotFoundError():
            return NOT_FOUND
        case AnswerError() if error.status in _INVALID_STATUS:
            return INVALID_PARAMS
        case InvalidArgumentError() | CallerError():
            return INVALID_PARAMS
        case _:
            return INTERNAL


def invalid(text: str, **data: Any) -> RequestError:
    """Return the error for parameters that do not fit."""
    return RequestError(INVALID_PARAMS, text, {"code": "invalid_argument", **data})
