"""Errors of Host API calls: one class per error code of the protocol."""

from __future__ import annotations

from typing import Any, ClassVar

from hostler_protocol.errors import ErrorCode, Fault, HostlerError, to_fault
from hostler_protocol.json_values import json_problem


class HostError(Exception):
    """The host refused a call, or could not carry it out. Base class of all errors of calls.

    `message` says what was wrong and what would be right. `code` is the protocol's error code. `retryable`:
    whether the same call may succeed later. `details` are for programs.

        try:
            text = await ctx.tools.call("search", {"query": ctx.input.text})
        except HostError as error:
            text = f"search failed: {error.message}"
    """

    code: ErrorCode = "runtime_error"
    retryable: bool = False
    _retryable_by_default: ClassVar[bool] = False

    def __init__(
        self, message: str, *, retryable: bool | None = None, details: dict[str, Any] | None = None
    ) -> None:
        problem = None if details is None else json_problem(details, "details")
        if problem is not None:
            raise TypeError(problem)
        super().__init__(message)
        self.message = message
        self.retryable = self._retryable_by_default if retryable is None else retryable
        self.details = details or {}

    def fault(self) -> Fault:
        """Return the wire form."""
        message = writable(self.message)
        return Fault(code=self.code, message=message, retryable=self.retryable, details=dict(self.details))


def writable(text: str) -> str:
    """Return the text with halves of surrogate pairs, which UTF-8 cannot encode, as question marks."""
    return text.encode("utf-8", "replace").decode()


# The names below are part of the published interface and carry no "Error" at their end.


class Unauthorized(HostError):  # noqa: N818
    """The run's grant does not allow this call; the message says which permission is missing."""

    code = "unauthorized"


class NotFound(HostError):  # noqa: N818
    """The object does not exist, or the run may not see it."""

    code = "not_found"


class DeadlineExceeded(HostError):  # noqa: N818
    """The run's deadline has passed."""

    code = "deadline_exceeded"


class PayloadTooLarge(HostError):  # noqa: N818
    """A value is over its limit; the message names the limit."""

    code = "payload_too_large"


class RateLimited(HostError):  # noqa: N818
    """Too many calls. Try again after `retry_after` seconds."""

    code = "rate_limited"
    _retryable_by_default = True

    @property
    def retry_after(self) -> float:
        """Time to wait, in seconds; 1 if the host named none."""
        return float(self.details.get("retry_after", 1.0))


class InvalidArgument(HostError):  # noqa: N818
    """A value has a wrong form, size or type; the message names it."""

    code = "invalid_argument"


class Conflict(HostError):  # noqa: N818
    """The call contradicts the stored data, as with an outdated version of a state value."""

    code = "conflict"


class Denied(HostError):  # noqa: N818
    """A person refused the call."""

    code = "denied"


class Expired(HostError):  # noqa: N818
    """No decision came in time, or a cursor points at an entry that retention has removed."""

    code = "expired"


class Cancelled(HostError):  # noqa: N818
    """The call was cancelled, or this attempt of the run is over: its calls are no longer carried out.

    Not to be confused with `asyncio.CancelledError`, raised in a runner when its run is cancelled.
    """

    code = "cancelled"


class RuntimeFailure(HostError):  # noqa: N818
    """The call was allowed, but failed: a model service, a tool or the host had an error."""

    code = "runtime_error"


_BY_CODE: dict[str, type[HostError]] = {
    kind.code: kind
    for kind in (
        Unauthorized,
        NotFound,
        DeadlineExceeded,
        PayloadTooLarge,
        RateLimited,
        InvalidArgument,
        Conflict,
        Denied,
        Expired,
        Cancelled,
        RuntimeFailure,
    )
}


def host_error(error: HostlerError) -> HostError:
    """Translate an error of the link to the class that runners catch."""
    fault = to_fault(error)
    return _BY_CODE[fault.code](fault.message, retryable=fault.retryable, details=fault.details)
