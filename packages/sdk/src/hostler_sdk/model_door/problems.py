"""Errors of the model door, in the forms of OpenAI's and Anthropic's, so that clients act as with these."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from hostler_protocol.errors import ErrorCode
from hostler_sdk.errors import HostError, RateLimited
from hostler_sdk.model_door.limits import LONG_RETRY_SECONDS

_KINDS: dict[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}
_ANTHROPIC_KINDS: dict[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
}
_STATUS: dict[ErrorCode, tuple[int, str]] = {
    "unauthorized": (403, "permission_denied"),
    "not_found": (404, "model_not_found"),
    "deadline_exceeded": (504, "deadline_exceeded"),
    "payload_too_large": (413, "payload_too_large"),
    "rate_limited": (429, "rate_limit_exceeded"),
    "invalid_argument": (400, "invalid_value"),
    "conflict": (409, "conflict"),
    "denied": (403, "denied"),
    "expired": (403, "expired"),
    "cancelled": (503, "run_over"),
    "runtime_error": (502, "model_failed"),
}
"""Status and code for each code of a host call's error."""


class DoorError(Exception):
    """A request that is refused. `retry`: whether the client should try again; None: as it does by status."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str,
        *,
        param: str | None = None,
        retry: bool | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param
        self.retry, self.retry_after = retry, retry_after

    @property
    def kind(self) -> str:
        """The `type` of the error."""
        return _KINDS.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")

    @property
    def fields(self) -> dict[str, Any]:
        """The error as clients read it."""
        return {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}

    @property
    def body(self) -> bytes:
        """The body of the answer."""
        return msgspec.json.encode({"error": self.fields})

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Headers that say whether and when to try again."""
        headers = [] if self.retry is None else [("x-should-retry", str(self.retry).lower())]
        if self.retry_after is not None:
            headers.append(("retry-after", str(max(1, math.ceil(self.retry_after)))))
        return headers


def anthropic_fields(error: DoorError) -> dict[str, Any]:
    """Return an error as Anthropic's clients read it. `code` and `param` are the door's own."""
    kind = "invalid_request_error" if error.status < 500 else "api_error"
    fields = {"type": _ANTHROPIC_KINDS.get(error.status, kind), "message": error.message}
    return {"type": "error", "error": {**fields, "code": error.code, "param": error.param}}


def invalid(message: str, param: str | None = None) -> DoorError:
    """Return the refusal of a value."""
    return DoorError(400, message, "invalid_value", param=param)


def unsupported(param: str, why: str) -> DoorError:
    """Return the refusal of a parameter that would change the answer and cannot be passed on."""
    return DoorError(400, f"{param} is not supported here: {why}", "unsupported_parameter", param=param)


def refused(error: HostError) -> DoorError:
    """Return how the refusal of a host call is told to the client."""
    status, code = _STATUS[error.code]
    if error.details.get("reason") == "context_overflow":
        code = "context_length_exceeded"
    if "budget" in error.details:
        code = "budget_exceeded"
    if isinstance(error, RateLimited):
        wait = error.retry_after
        return DoorError(status, error.message, code, retry=wait <= LONG_RETRY_SECONDS, retry_after=wait)
    if status < 500 and status != 409:
        return DoorError(status, error.message, code)
    return DoorError(status, error.message, code, retry=error.retryable)
