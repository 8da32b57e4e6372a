"""Errors as HTTP responses: problem details (RFC 9457) with our codes.

One table maps codes to statuses. A second one, by class, holds errors whose status is more specific than
their code: a missing key is 401, a missing right 403; the code of both is `unauthorized`.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec

from hostler.domain.channel_requests import SilentHostError
from hostler.domain.hook_signatures import HookRefusedError
from hostler.domain.pause_actions import UnprocessableError
from hostler.secrets.known_values import redact_error
from hostler_protocol._base import Strict
from hostler_protocol.errors import (
    CallerError,
    ConflictError,
    DeadlineExceededError,
    ErrorCode,
    HostlerError,
    InvalidArgumentError,
    PayloadTooLargeError,
    PluginError,
    StorageError,
    UnauthorizedError,
    UnavailableError,
    to_fault,
)

PROBLEM_TYPE = "application/problem+json"
CHALLENGE = b'Bearer realm="hostler"'
"""How a caller without a valid key is told to authenticate."""

STATUS_OF_CODE: dict[ErrorCode, int] = {
    "invalid_argument": 400,
    "unauthorized": 403,
    "denied": 403,
    "not_found": 404,
    "conflict": 409,
    "cancelled": 409,
    "expired": 410,
    "payload_too_large": 413,
    "rate_limited": 429,
    "runtime_error": 500,
    "deadline_exceeded": 504,
}


class UnauthenticatedError(UnauthorizedError):
    """No key, or an invalid one."""


class MethodNotAllowedError(InvalidArgumentError):
    """The path exists, with other methods."""

    def __init__(self, method: str, allowed: list[str]) -> None:
        self.allowed = allowed
        super().__init__(f"{method} is not allowed here; allowed are {', '.join(allowed)}", allowed=allowed)


class UnsupportedMediaTypeError(InvalidArgumentError):
    """The body has a media type that this route does not accept."""


class KeyReusedError(ConflictError):
    """An Idempotency-Key was used again for a different request."""


class HeadersTooLargeError(PayloadTooLargeError):
    """Path and headers together exceed their limit."""


class RangeNotSatisfiableError(InvalidArgumentError):
    """The range begins after the end."""

    def __init__(self, size: int) -> None:
        self.size = size
        super().__init__(f"the range begins after the end: the content has {size} bytes", size_bytes=size)


class UpgradeRequiredError(InvalidArgumentError):
    """This path accepts WebSocket connections only."""


class RequestTimeoutError(DeadlineExceededError):
    """The client took too long to send its request."""


STATUS_OF_CLASS: dict[type[HostlerError], int] = {
    UnauthenticatedError: 401,
    HookRefusedError: 401,
    MethodNotAllowedError: 405,
    RequestTimeoutError: 408,
    UnsupportedMediaTypeError: 415,
    RangeNotSatisfiableError: 416,
    KeyReusedError: 422,
    UnprocessableError: 422,
    UpgradeRequiredError: 426,
    HeadersTooLargeError: 431,
    PluginError: 502,
    StorageError: 503,
    UnavailableError: 503,
    SilentHostError: 504,
}


class Problem(Strict):
    """One error. `type` names the code, or more exactly the reason where `details` has one; `details`
    depends on it: `errors` is a list of `{field, expected}`, `retry_after` seconds.
    """

    type: str
    title: str
    status: int
    detail: str
    code: ErrorCode
    retryable: bool
    details: dict[str, Any]


def status_of(error: HostlerError) -> int:
    """Return the HTTP status of an error."""
    for kind in type(error).__mro__:
        if kind in STATUS_OF_CLASS:
            return STATUS_OF_CLASS[kind]
    return STATUS_OF_CODE[to_fault(error).code]


def problem_of(error: HostlerError) -> Problem:
    """Return the problem document of an error."""
    fault = to_fault(redact_error(error))
    status = status_of(error)
    return Problem(
        type=f"urn:hostler:problem:{fault.details.get('reason', fault.code)}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=fault.message,
        code=fault.code,
        retryable=fault.retryable,
        details=fault.details,
    )


def headers_of(error: HostlerError, status: int, challenge: bytes = CHALLENGE) -> list[tuple[bytes, bytes]]:
    """Return the headers that the status requires. `challenge`: how to authenticate."""
    headers: list[tuple[bytes, bytes]] = []
    if status == HTTPStatus.UNAUTHORIZED:
        headers.append((b"www-authenticate", challenge))
    if isinstance(error, UpgradeRequiredError):
        headers += [(b"upgrade", b"websocket"), (b"connection", b"upgrade")]
    if isinstance(error, MethodNotAllowedError):
        headers.append((b"allow", ", ".join(error.allowed).encode("ascii")))
    if isinstance(error, RangeNotSatisfiableError):
        headers.append((b"content-range", b"bytes */%d" % error.size))
    wait = error.details.get("retry_after")
    if isinstance(wait, int | float):
        headers.append((b"retry-after", b"%d" % max(1, -int(-wait // 1))))
    elif status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers.append((b"retry-after", b"1"))
    return headers


def encode_problem(problem: Problem) -> bytes:
    """Encode the document as JSON; details of other types are written as text."""
    return msgspec.json.encode(problem, enc_hook=str)


def caller_blamed(error: HostlerError) -> bool:
    """Whether the caller can correct it. Any other error is logged."""
    return isinstance(error, CallerError)
