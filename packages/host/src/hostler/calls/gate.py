"""The one gate in front of every Host API call.

In this order: the call names this run; the attempt is active; the grant holds the operation; the arguments
are valid and within limits; rate; deadline; budget. A refusal is a typed error; what lies outside the grant
is `not_found`, whether or not it exists. The executor journals refusals.

Who calls is not read from the message: a connection delivers only calls of its own runs (`Link`), each to the
attempt that runs there, and every attempt has its own `GatedRun`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from hostler.domain.arguments import check_arguments
from hostler.domain.call_checks import CallCheck
from hostler.domain.child_runs import agent_refusal
from hostler.domain.clock import wall_clock
from hostler.domain.grants import SCHEDULE_CALLS, Grant
from hostler.domain.token_bucket import TokenBucket
from hostler.journal.call_log import CallRecord
from hostler_protocol.calls import (
    CALLS,
    Call,
    CallParams,
    HistoryPageParams,
    HistorySearchParams,
    RunCreateParams,
    StateDeleteParams,
    StateGetParams,
    StateListParams,
    StateSetParams,
    StorageDeleteParams,
    StorageGetParams,
    StorageKeysParams,
    StorageSetParams,
)
from hostler_protocol.errors import (
    CancelledCallError,
    DeadlineExceededError,
    HostlerError,
    InvalidArgumentError,
    NotFoundError,
    RateLimitedError,
    UnauthorizedError,
)
from hostler_protocol.grants import STATE_SCOPES

Clock = Callable[[], float]
"""UTC epoch seconds."""
Counts = Counter[tuple[str, str]]
"""Calls by method and "ok" or the code of the refusal."""
Standing = Literal["active", "fenced", "paused", "ended"]

_STATE_PARAMS = (StateGetParams, StateSetParams, StateDeleteParams, StateListParams)
_STORAGE_PARAMS = (StorageGetParams, StorageSetParams, StorageDeleteParams, StorageKeysParams)


class CallToCharge(NamedTuple):
    """A call that is about to be made. `may_ask`: people may be asked, and the call waits for them.

    `begun`: an earlier attempt began it, and counted it.
    """

    call: Call
    record: CallRecord
    may_ask: bool = True
    begun: bool = False


class RemainingBudget(Protocol):
    """The remaining budget of a run; implemented by `spending.Spending`."""

    async def take(self, charged: CallToCharge) -> None:
        """Count one call and reserve what it may use, or raise a refusal and count nothing."""
        ...


@dataclass(slots=True, eq=False)
class GatedRun:
    """One attempt of a run as the gate sees it; its owner keeps `standing` up to date.

    `deadline_at` in UTC epoch seconds, None without a deadline. `budget` None: it is not limited.
    """

    run_id: str
    grant: Grant
    deadline_at: float | None = None
    standing: Standing = "active"
    bucket: TokenBucket | None = None
    budget: RemainingBudget | None = None


class AdmittedCall:
    """A call that the run may make. Its row of `CALLS` is returned only by the two methods that count it."""

    __slots__ = ("_call", "_clock", "_counts", "_run", "refused_by")

    def __init__(self, run: GatedRun, call: Call, counts: Counts, clock: Clock) -> None:
        self._run, self._call, self._counts, self._clock = run, call, counts, clock
        self.refused_by: CallCheck = "rate"
        """The check that `charge` failed at, if it failed."""

    async def charge(self, record: CallRecord, *, may_ask: bool = True, begun: bool = False) -> Call:
        """Take a call that is carried out from rate and budget; wait for people where the budget asks them.

        RateLimitedError, DeadlineExceededError, or the refusal of the budget.
        """
        run, call = self._run, self._call
        try:
            now = self._clock()
            _check_rate(run, now)
            self.refused_by = "deadline"
            if run.deadline_at is not None and now >= run.deadline_at:
                raise DeadlineExceededError("the run's deadline is over")
            self.refused_by = "budget"
            if run.budget is not None:
                await run.budget.take(CallToCharge(call, record, may_ask, begun))
        except HostlerError as error:
            self._counts[call.method, error.code] += 1
            raise
        return self.repeat()

    def repeat(self) -> Call:
        """Count a call that a recording answers: it takes nothing from rate and budget."""
        self._counts[self._call.method, "ok"] += 1
        return self._call


class Gate:
    """Checks calls and counts those that passed and those it refused: `counts[method, "ok" or code]`."""

    def __init__(self, clock: Clock = wall_clock) -> None:
        self._clock = clock
        self.counts: Counts = Counter()

    def admit(self, run: GatedRun, method: str, params: CallParams) -> AdmittedCall:
        """Check whether the run may make this call: the only way to one that can be charged and made."""
        try:
            call = CALLS.get(method)
            if call is None:
                raise InvalidArgumentError(f"there is no host call {method[:100]!r}")
            _check(run, call, params)
        except HostlerError as error:
            self.counts[method if method in CALLS else "unknown", error.code] += 1
            raise
        return AdmittedCall(run, call, self.counts, self._clock)


def is_granted(run: GatedRun, method: str, params: CallParams) -> bool:
    """Whether the run may make this call now: `Gate.admit` would take it. Counts nothing."""
    try:
        _check(run, CALLS[method], params)
    except HostlerError:
        return False
    return True


def refusing_check(run: GatedRun, method: str, params: CallParams) -> CallCheck:
    """Return the check at which `Gate.admit` has just refused a call."""
    if run.run_id != params.run_id:
        return "connection"
    if run.standing != "active":
        return "attempt"
    call = CALLS.get(method)
    try:
        if call is not None:
            check_granted(run.grant, call, params)
    except HostlerError:
        return "grant"
    return "arguments"


def _check(run: GatedRun, call: Call, params: CallParams) -> None:
    # a caller that does not own a run may not even learn that it ended
    if run.run_id != params.run_id:
        raise NotFoundError(f"run {params.run_id[:64]!r} is not a run of this connection")
    if run.standing != "active":
        raise CancelledCallError(_OVER[run.standing])
    check_granted(run.grant, call, params)
    check_arguments(params)


def _check_rate(run: GatedRun, now: float) -> None:
    rate = run.grant.calls_per_second
    if rate is None:
        return
    if run.bucket is None:
        run.bucket = TokenBucket(rate, rate, now)
    wait = run.bucket.take(now)
    if wait > 0:
        raise RateLimitedError(f"more than {rate:g} calls a second", round(wait, 3) or 0.001)


_OVER: dict[Standing, str] = {
    "fenced": "this attempt of the run was superseded",
    "paused": "the run is paused: this attempt is over",
    "ended": "the run has ended",
}


# -- what the grant holds ---------------------------------------------------------------------------------


def check_granted(grant: Grant, call: Call, params: CallParams) -> None:
    """Check one call. UnauthorizedError: an operation not granted; NotFoundError: an id outside the grant."""
    if call.method not in grant.calls:
        raise UnauthorizedError(f"this run may not use {call.method}: {_why_not(call, grant)}")
    if call.resource is not None:
        _check_resource(grant, call, getattr(params, call.resource))
    if isinstance(params, _STATE_PARAMS):
        _check_state_scope(grant, params.scope)
    elif isinstance(params, _STORAGE_PARAMS):
        if params.area not in grant.storage_areas:
            raise UnauthorizedError(f"this run may not use {params.area} storage")
    elif isinstance(params, HistoryPageParams):
        _check_conversation(grant, params.conversation_id, grant.cross_conversation_history)
    elif isinstance(params, HistorySearchParams):
        if params.filters is not None:
            _check_conversation(grant, params.filters.conversation_id, grant.cross_conversation_history)
    elif isinstance(params, RunCreateParams):
        _check_conversation(grant, params.conversation_id, False)
        if (refusal := agent_refusal(grant.allowed_agents, grant.above, params.agent)) is not None:
            raise refusal


_REASONS = {
    "steering.pull": "the runner's manifest does not state the capability 'steering'",
    "interaction.request": "this host cannot put questions to people",
    "action.request": "the runner's manifest asks for no platform actions",
    "run.append": "it is for remote workers",
    "run.finalize": "it is for remote workers",
}


def _why_not(call: Call, grant: Grant) -> str:
    if call.method.startswith("state."):
        return next(iter(grant.state_closed.values()), "the agent's state policy does not open state")
    if call.method.startswith("storage."):
        return "neither plugin nor workspace storage is granted"
    if call.method in SCHEDULE_CALLS and grant.schedules_refused is not None:
        return grant.schedules_refused
    kind, operation = call.permission or ("files", "config or knowledge")
    return _REASONS.get(call.method, f"the runner's manifest does not ask for permission {kind}: {operation}")


def _check_resource(grant: Grant, call: Call, name: str) -> None:
    kind, operation = call.permission or ("files", None)
    held: Mapping[str, Any] = getattr(grant, kind)
    if name not in held:
        raise NotFoundError(f"{call.resource} {name[:100]!r} is not among the resources of this run")
    if operation is not None and operation not in held[name].operations:
        granted = ", ".join(held[name].operations)
        raise UnauthorizedError(f"{name!r} is granted for {granted}, not for {operation}")


def _check_state_scope(grant: Grant, scope: str) -> None:
    # a scope that does not exist is an invalid argument, reported with the others
    if scope in STATE_SCOPES and scope not in grant.state_keys:
        reason = grant.state_closed.get(scope, "it is not granted")
        raise UnauthorizedError(f"state scope {scope!r} is not open to this run: {reason}")


def _check_conversation(grant: Grant, conversation_id: str | None, others: bool) -> None:
    if conversation_id is not None and conversation_id != grant.conversation_id and not others:
        raise NotFoundError("conversation_id is not the conversation of this run")
