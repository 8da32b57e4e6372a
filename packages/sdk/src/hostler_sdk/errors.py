"""What a Host API call raises when the host refuses it: one class per code of the protocol."""

from __future__ import annotations

from typing import Any, ClassVar

from hostler_protocol.errors import ErrorCode, Fault, HostlerError, to_fault
from hostler_protocol.json_values import json_problem


class HostError(Exception):
    """The host refused a call. `message` says what was wrong and what would be right.

    `code` is one of the protocol's error codes, `retryable` whether the same call may succeed later,
    `details` what the host adds for programs.
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
        """The wire form."""
        message = writable(self.message)
        return Fault(code=self.code, message=message, retryable=self.retryable, details=dict(self.details))


def writable(text: str) -> str:
    """The text of an error as UTF-8 can write it: halves of surrogate pairs become question marks."""
    return text.encode("utf-8", "replace").decode()


# The names below are part of the published interface and carry no "Error" at their end.


class Unauthorized(HostError):  # noqa: N818
    """The run's grant does not hold this operation."""

    code = "unauthorized"


class NotFound(HostError):  # noqa: N818
    """There is no such thing, or the run may not see it."""

    code = "not_found"


class DeadlineExceeded(HostError):  # noqa: N818
    """The run's deadline is over."""

    code = "deadline_exceeded"


class PayloadTooLarge(HostError):  # noqa: N818
    """A value is over its limit; the message names the limit."""

    code = "payload_too_large"


class RateLimited(HostError):  # noqa: N818
    """Too many calls; come again after `retry_after` seconds."""

    code = "rate_limited"
    _retryable_by_default = True

    @property
    def retry_after(self) -> float:
        """Seconds to wait; 1 where the host named none."""
        return float(self.details.get("retry_after", 1.0))


class InvalidArgument(HostError):  # noqa: N818
    """A value is not of the form, size or kind it must be."""

    code = "invalid_argument"


class Conflict(HostError):  # noqa: N818
    """The call contradicts what is stored, as with another version of a state value."""

    code = "conflict"


class Denied(HostError):  # noqa: N818
    """A person refused."""

    code = "denied"


class Expired(HostError):  # noqa: N818
    """Nobody answered in time, or a cursor points at what is no longer kept."""

    code = "expired"


class Cancelled(HostError):  # noqa: N818
    """The call was cancelled, or its run has ended: nothing it asks for is done any more.

    Not `asyncio.CancelledError`, which reaches a runner when its run is cancelled.
    """

    code = "cancelled"


class RuntimeFailure(HostError):  # noqa: N818
    """Something behind the call failed: a model service, a tool, the host."""

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
    """Translate an error of the link to the class a runner catches."""
    fault = to_fault(error)
    return _BY_CODE[fault.code](fault.message, retryable=fault.retryable, details=fault.details)
