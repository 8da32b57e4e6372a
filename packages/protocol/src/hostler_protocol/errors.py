"""Errors: their wire form, and three families of Python exceptions by who is to blame.

`CallerError`: the request of a runner (Host API), or of a person or program (HTTP, command line), cannot be
carried out; the message says what would be right.
`PluginError`: a plugin process broke its contract; it ends runs, never the host.
`HostError`: the host failed; the caller did not cause it.

Each class carries its code. `to_fault` and `from_fault` translate to and from the wire.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple, get_args

import msgspec

from hostler_protocol._base import Sparse, always
from hostler_protocol.limits import MAX_INTEGER

ErrorCode = Literal[
    "unauthorized",
    "not_found",
    "deadline_exceeded",
    "payload_too_large",
    "rate_limited",
    "invalid_argument",
    "conflict",
    "denied",
    "expired",
    "cancelled",
    "runtime_error",
]
ERROR_CODES: frozenset[str] = frozenset(get_args(ErrorCode))

RunFailure = Literal[
    "runner.error",
    "runner.config_invalid",
    "runner.timeout",
    "runner.crashed",
    "runner.no_output",
    "runner.protocol",
    "payload_too_large",
    "cancelled",
    "host.restarted",
    "host.error",
    "pause.failed",
    "replay.diverged",
    "budget.exceeded",
]
"""Codes of `run.failed` that the host writes. The set is open: a runner may use its own."""

JSONRPC_INVALID_REQUEST = -32600
"""The method is not allowed in this state, or a request with this id is still open."""
JSONRPC_METHOD_NOT_FOUND = -32601
"""There is no such request, or the other side makes it."""
JSONRPC_INVALID_PARAMS = -32602
"""The parameters are not of the method's type; the message names the field."""
JSONRPC_FAULT = -32000
"""Every other error: `data` of the JSON-RPC error is a Fault."""


class Fault(Sparse):
    """An error on the wire (`AgentAPIError`).

    `message` says what was wrong and what would be right, and never holds a secret. `retryable`: the same
    request may succeed later. `details` of `rate_limited` hold `retry_after` in seconds.
    """

    code: ErrorCode
    message: str
    retryable: bool = always(False)
    details: dict[str, Any] = msgspec.field(default_factory=lambda: {})


class HostlerError(Exception):
    """Base class of all errors that Hostler raises on purpose."""

    code: ClassVar[str] = "runtime_error"
    retryable: ClassVar[bool] = False
    status_code: ClassVar[RunFailure] = "runner.config_invalid"
    """How a run ends that could not be started because of it."""

    def __init__(self, message: str, /, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class CallerError(HostlerError):
    """The caller is to blame."""


class InvalidArgumentError(CallerError):
    """A value has a wrong form, size or type; the message names it."""

    code = "invalid_argument"


class UnauthorizedError(CallerError):
    """The run's grant, or the caller's key, does not allow this operation."""

    code = "unauthorized"


class NotFoundError(CallerError):
    """The object does not exist, or the caller may not see it."""

    code = "not_found"


class ConflictError(CallerError):
    """The request contradicts what is stored: another body under the same id, another version."""

    code = "conflict"


class PayloadTooLargeError(CallerError):
    """A value is over its limit; the message names the limit."""

    code = "payload_too_large"
    status_code: ClassVar[RunFailure] = "payload_too_large"


class RateLimitedError(CallerError):
    """Too many calls; `details["retry_after"]` is the time to wait, in seconds."""

    code = "rate_limited"
    retryable = True

    def __init__(self, message: str, /, retry_after: float, **details: Any) -> None:
        super().__init__(message, retry_after=retry_after, **details)
        self.retry_after = retry_after


class DeadlineExceededError(CallerError):
    """The run's deadline has passed."""

    code = "deadline_exceeded"


class CancelledCallError(CallerError):
    """The run was cancelled or superseded, or has ended: its calls are no longer carried out."""

    code = "cancelled"


class DeniedError(CallerError):
    """A person refused the call."""

    code = "denied"


class ExpiredError(CallerError):
    """No decision came in time, or a cursor points at an entry that retention has removed."""

    code = "expired"


class PluginError(HostlerError):
    """A plugin process broke its contract. Its runs end with the code `status_code`."""

    status_code: ClassVar[RunFailure] = "runner.error"


class PluginCrashedError(PluginError):
    """The plugin process ended, or was killed because it did not answer."""

    status_code = "runner.crashed"


class PluginProtocolError(PluginError):
    """The plugin sent a message that the protocol does not allow."""

    status_code = "runner.protocol"


class PluginStartError(PluginError):
    """The plugin could not be started: its environment, command, handshake or manifest is wrong."""

    status_code = "runner.crashed"


class HostError(HostlerError):
    """The host failed."""

    status_code: ClassVar[RunFailure] = "host.error"


class StorageError(HostError):
    """Reading or writing the database or the blob folder failed (disk full, file damaged)."""

    retryable = True


class UnavailableError(HostError):
    """Not possible now: the host shuts down, a queue is full, or a service that it needs does not answer."""

    retryable = True


class RemoteFaultError(HostlerError):
    """A Fault received over the wire that is not the caller's to blame: `to_fault` returns it unchanged."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message, **fault.details)
        self.fault = fault


ERRORS: dict[str, type[HostlerError]] = {
    error.code: error
    for error in (
        InvalidArgumentError,
        UnauthorizedError,
        NotFoundError,
        ConflictError,
        PayloadTooLargeError,
        RateLimitedError,
        DeadlineExceededError,
        DeniedError,
        ExpiredError,
        CancelledCallError,
        HostError,
    )
}
"""The exception class of each code of a Fault."""


class Failure(NamedTuple):
    """Meaning of a code of `run.failed`, and whether a new run of the same event may succeed."""

    meaning: str
    retryable: bool = False


RUN_FAILURES: dict[RunFailure, Failure] = {
    "runner.error": Failure("The runner's code raised, or returned something that is not a result."),
    "runner.config_invalid": Failure(
        "The run could not start: its runner does not exist, the agent's configuration does not match the "
        "runner's form, or it names a secret that cannot be read."
    ),
    "runner.timeout": Failure(
        "The run's deadline passed, or it did nothing for its agent's `idle_timeout`.", retryable=True
    ),
    "runner.crashed": Failure(
        "The plugin process ended, could not be started, or was killed because it did not answer.",
        retryable=True,
    ),
    "runner.no_output": Failure("The runner finished, but sent nothing except deltas, logs and telemetry."),
    "runner.protocol": Failure(
        "The plugin broke this protocol, as with more results than credited or an impossible sequence."
    ),
    "payload_too_large": Failure("A result was over the limit of its size; it was not cut."),
    "cancelled": Failure("The run was cancelled, or its parent ended."),
    "host.restarted": Failure(
        "The host stopped or lost its lease during the run, and the agent's policy allows no further "
        "attempt.",
        retryable=True,
    ),
    "host.error": Failure("The host failed: something that the run needs is gone, or could not be stored."),
    "pause.failed": Failure("A pause was decided, but every attempt to go on after it was lost."),
    "replay.diverged": Failure("A resumed runner did not repeat the calls that its journal holds."),
    "budget.exceeded": Failure(
        "A budget had too little left for a call, and its terms end the run; or people did not add to it."
    ),
}
"""Every code that the host writes; it builds each failure from this table."""

REASONS: dict[str, str] = {
    "already_decided": "The call was decided differently before; `details` says how, by whom and when.",
    "args_hash_required": "The digest of the arguments is missing, and the key may not decide without it.",
    "context_overflow": "The request is longer than the model's context window: send less.",
    "expired": "No decision came in time; nothing was carried out.",
    "interrupts_pending": "A run of this thread waits for people: answer its interrupts first.",
    "key_reused": "This Idempotency-Key was used for other actions: use a new one.",
    "limit": "There are as many as there may be; `details` says how many: remove some first.",
    "model_not_found": "No agent has the name that a request of OpenAI's interfaces gives as its model.",
    "no_price": "The run has a budget of cost, and the model has no price: give it one, of 0 if it is free.",
    "not_approver": "The caller may see the pause, but may not decide this call.",
    "quota_exceeded": "A quota has no room; `details` says which one and how much of it is used.",
    "schema": "A value does not match the form of this call; the message names the place.",
    "stale_view": "Revision, arguments or tool have changed since they were shown: read the pause again.",
    "superseded": "The pause is over: superseded, cancelled, or its run went on.",
    "thread_busy": "A run of this thread has not ended, and the request wants no other beside it.",
    "thread_exists": "There is a thread of this id already.",
    "tool_calls_pending": "A run of this thread waits for results of its application's tools.",
    "uncovered_interrupts": "`resume` leaves out interrupts that the run of AG-UI waits with.",
    "unknown_call": "This pause has no such call.",
    "wrong_kind": "A call of this kind cannot be decided in this way.",
}
"""Values of `details["reason"]`, which is more exact than the error's code."""


def to_fault(error: HostlerError) -> Fault:
    """Translate an error to its wire form. Plugin and host errors become `runtime_error`."""
    if isinstance(error, RemoteFaultError):
        return error.fault
    code: Any = error.code if error.code in ERROR_CODES else "runtime_error"
    return Fault(code=code, message=error.message, retryable=error.retryable, details=error.details)


def from_fault(fault: Fault) -> HostlerError:
    """Translate a wire error to the exception class of its code."""
    if fault.code == "rate_limited":
        details = dict(fault.details)
        return RateLimitedError(fault.message, _seconds(details.pop("retry_after", None)), **details)
    if fault.code == "runtime_error":
        return RemoteFaultError(fault)
    return ERRORS[fault.code](fault.message, **fault.details)


def _seconds(value: Any) -> float:
    """Read a peer's `retry_after`. A value that is not a number of seconds is read as one second."""
    return float(value) if isinstance(value, int | float) and 0 <= value <= MAX_INTEGER else 1.0
