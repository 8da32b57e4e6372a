"""Errors: the wire form, and three families of Python exceptions by who is to blame.

`CallerError`: whoever asked (a runner through the Host API, a person or program through HTTP or the
command line) asked for something that cannot be; the message says what would be right.
`PluginError`: a plugin process broke its contract; it ends runs, never the host.
`HostError`: the host itself could not do what it should; nothing the caller did caused it.

Each class carries its code and builds its own sentence. `to_fault` and `from_fault` translate to and
from the wire.
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
]
"""`run.failed` codes that the host writes. The set is open: a runner may name its own."""

JSONRPC_INVALID_REQUEST = -32600
"""Not allowed in this state, or an id that is still open."""
JSONRPC_METHOD_NOT_FOUND = -32601
"""No such request, or not for this side to make."""
JSONRPC_INVALID_PARAMS = -32602
"""The parameters are not of the method's type; the message names the field."""
JSONRPC_FAULT = -32000
"""Our own errors: `data` of the JSON-RPC error is a Fault."""


class Fault(Sparse):
    """The wire error (`AgentAPIError`): `code`, `message`, `retryable`, `details`.

    The message names what was wrong and what would be right, and never a secret.
    `rate_limited` carries `retry_after` (seconds) in `details`.
    """

    code: ErrorCode
    message: str
    retryable: bool = always(False)
    details: dict[str, Any] = msgspec.field(default_factory=lambda: {})


class HostlerError(Exception):
    """Base of all errors that Hostler raises on purpose."""

    code: ClassVar[str] = "runtime_error"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, /, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class CallerError(HostlerError):
    """Whoever asked is to blame."""


class InvalidArgumentError(CallerError):
    """A value is not of the form, size or kind it must be."""

    code = "invalid_argument"


class UnauthorizedError(CallerError):
    """The grant or the key does not hold this operation."""

    code = "unauthorized"


class NotFoundError(CallerError):
    """There is no such thing, or the caller may not know of it."""

    code = "not_found"


class ConflictError(CallerError):
    """The request contradicts what is stored: another body under the same id, another version."""

    code = "conflict"


class PayloadTooLargeError(CallerError):
    """A value is over its limit; the message names the limit."""

    code = "payload_too_large"


class RateLimitedError(CallerError):
    """Too many calls; `details["retry_after"]` says after how many seconds to come again."""

    code = "rate_limited"
    retryable = True

    def __init__(self, message: str, /, retry_after: float, **details: Any) -> None:
        super().__init__(message, retry_after=retry_after, **details)
        self.retry_after = retry_after


class DeadlineExceededError(CallerError):
    """The run's deadline is over."""

    code = "deadline_exceeded"


class CancelledCallError(CallerError):
    """The run was cancelled, ended or superseded; nothing it asks for is done any more."""

    code = "cancelled"


class DeniedError(CallerError):
    """A person refused."""

    code = "denied"


class ExpiredError(CallerError):
    """Nobody answered in time, or a cursor points at what retention has removed."""

    code = "expired"


class PluginError(HostlerError):
    """A plugin process broke its contract. `status_code` is what its runs end with."""

    status_code: ClassVar[RunFailure] = "runner.error"


class PluginCrashedError(PluginError):
    """The plugin process ended, or was killed because it no longer answered."""

    status_code = "runner.crashed"


class PluginProtocolError(PluginError):
    """The plugin said something the protocol does not allow there."""

    status_code = "runner.protocol"


class PluginStartError(PluginError):
    """The plugin could not be brought up: environment, command, handshake or manifest."""

    status_code = "runner.crashed"


class HostError(HostlerError):
    """The host could not do what it should."""


class StorageError(HostError):
    """The database or the blob folder did not take or give a fact (disk full, file damaged)."""

    retryable = True


class UnavailableError(HostError):
    """Not now: shutting down, queue full, or a service the host needs is away."""

    retryable = True


class RemoteFaultError(HostlerError):
    """A Fault that came over the wire and is not the caller's: raised as it came."""

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
"""Each code of a Fault and the class that stands for it here."""


class Failure(NamedTuple):
    """What a code of `run.failed` says, and whether the same event may succeed in a run of its own."""

    meaning: str
    retryable: bool = False


RUN_FAILURES: dict[RunFailure, Failure] = {
    "runner.error": Failure("The runner's code raised, or gave something that is no result."),
    "runner.config_invalid": Failure(
        "The run could not start: its runner is not there, or the agent's configuration does not fit the "
        "runner's form or names a secret that cannot be read."
    ),
    "runner.timeout": Failure(
        "The run's deadline passed, or it did nothing for its agent's `idle_timeout`.", retryable=True
    ),
    "runner.crashed": Failure(
        "The plugin process ended, could not be started, or was killed because it no longer answered.",
        retryable=True,
    ),
    "runner.no_output": Failure("The runner finished, but gave nothing except deltas, logs and telemetry."),
    "runner.protocol": Failure(
        "The plugin broke this protocol: more results than credited, an impossible sequence."
    ),
    "payload_too_large": Failure("A result was over its size; it was not cut."),
    "cancelled": Failure("Somebody cancelled the run, or its parent ended."),
    "host.restarted": Failure(
        "The host stopped or lost its lease while the run was under way, and the agent's policy gives it no "
        "further attempt.",
        retryable=True,
    ),
    "host.error": Failure(
        "The host could not do its part: what the run needs is gone, or could not be stored."
    ),
    "pause.failed": Failure("A pause was decided, but each attempt to go on after it was lost."),
    "replay.diverged": Failure("A resumed runner did not repeat the calls that its journal holds."),
}
"""Each code that the host writes. How a run fails is built from this table alone."""

REASONS: dict[str, str] = {
    "already_decided": "Something else was decided before; `details` says what, by whom and when.",
    "args_hash_required": "The digest of what was shown is missing, and the key may not decide without it.",
    "context_overflow": "The request is longer than the model's context window: send less.",
    "expired": "Nobody answered in time; nothing was carried out.",
    "key_reused": "This Idempotency-Key was used for other actions: take a new one.",
    "not_approver": "The caller sees the pause and may not decide this call.",
    "schema": "A value is not of the form that this call asks for; the message names the place.",
    "stale_view": "Revision or arguments are no longer those that were shown: look again.",
    "superseded": "The pause is over: superseded, cancelled, or its run went on.",
    "unknown_call": "This pause has no such call.",
    "wrong_kind": "A call of this kind cannot be decided in this way.",
}
"""`details["reason"]`, where an error says more exactly than its code what was wrong."""


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
    """Read a peer's `retry_after`: what is no number of seconds counts as one second."""
    return float(value) if isinstance(value, int | float) and 0 <= value <= MAX_INTEGER else 1.0
