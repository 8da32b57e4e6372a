"""Actions of people and clients on a pause, and the errors that refuse them."""

from __future__ import annotations

from typing import Any, Literal

from hostler_protocol._base import Strict
from hostler_protocol.errors import ConflictError, ExpiredError, InvalidArgumentError, UnauthorizedError

ActionType = Literal["approve", "deny", "result", "error", "answer"]
ResolveOutcome = Literal["happened", "not_happened"]


class Similar(Strict):
    """Approve calls like this one without asking: `uses` times, for `minutes`, whichever ends first.

    `arguments`: names of arguments that must be equal; None: all of them.
    """

    uses: int | None = None
    minutes: float | None = None
    arguments: list[str] | None = None


class Action(Strict):
    """One decision. `args_hash` is the digest of what was shown; `approve` and `deny` may
    omit it only with a key that has the right `pauses:decide_blind`.
    """

    call_id: str
    type: ActionType
    args_hash: str | None = None
    edited_args: dict[str, Any] | None = None
    comment: str | None = None
    result: Any = None
    error: str | None = None
    """For type `error`: what failed at the client."""
    values: dict[str, Any] | None = None
    action: str | None = None
    """The button of a question."""
    similar: Similar | None = None


class ActRequest(Strict):
    """`POST /v1/pauses/{id}/actions`. `revision`: the revision that was shown."""

    revision: int
    actions: list[Action]


class ResolveRequest(Strict):
    """`POST /v1/pauses/{id}/calls/{call}/resolve`."""

    outcome: ResolveOutcome
    result: Any = None
    comment: str | None = None


class ActionAnswer(Strict):
    """`remaining`: the number of undecided calls. `events`: the address of the run's stream."""

    status: str
    remaining: int
    events: str


# -- refusals, distinguished by `reason` in the details ----------------------------------------------------


class NotApproverError(UnauthorizedError):
    """403: the caller may see the pause, but not decide this call."""

    def __init__(self, message: str, /, **details: Any) -> None:
        super().__init__(message, reason="not_approver", **details)


class BlindDecisionError(UnauthorizedError):
    """403: `args_hash` is missing, and this key has no right to decide without it."""

    def __init__(self, call_id: str) -> None:
        right = "pauses:decide_blind"
        super().__init__(
            f"call {call_id!r}: send args_hash, the digest of the arguments that were shown; to decide"
            f" without it takes the right {right!r}",
            reason="args_hash_required",
            right=right,
            call_id=call_id,
        )


class AlreadyDecidedError(ConflictError):
    """409: the call was decided otherwise; details: `decision`, `decided_by` and `decided_at`."""

    def __init__(self, message: str, /, **details: Any) -> None:
        super().__init__(message, reason="already_decided", **details)


class StaleViewError(ConflictError):
    """409: revision, arguments or tool have changed since they were shown."""

    def __init__(self, message: str, /, **details: Any) -> None:
        super().__init__(message, reason="stale_view", **details)


class SupersededError(ConflictError):
    """409: the pause is settled: superseded, cancelled, or its run has resumed."""

    def __init__(self, message: str, /, **details: Any) -> None:
        super().__init__(message, reason="superseded", **details)


class PauseExpiredError(ExpiredError):
    """410: nobody answered in time; nothing was executed, and nothing was denied."""

    def __init__(self, message: str, /, **details: Any) -> None:
        super().__init__(message, reason="expired", **details)


class UnprocessableError(InvalidArgumentError):
    """422: the request is well formed but not possible for this pause. `reason`: unknown_call, wrong_kind,
    schema or key_reused.
    """

    def __init__(self, message: str, /, *, reason: str, **details: Any) -> None:
        super().__init__(message, reason=reason, **details)
