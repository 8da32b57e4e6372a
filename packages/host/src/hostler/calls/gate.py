"""The one gate in front of every Host API call.

In this order: the run is active and not fenced; the caller is the connection that owns it; the grant holds
the operation; the arguments are valid and within limits; rate; deadline; budget. A refusal is a typed
error; what lies outside the grant is `not_found`, whether or not it exists. The caller journals refusals.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

from hostler.domain.arguments import check_arguments
from hostler.domain.grants import Grant
from hostler.domain.token_bucket import TokenBucket
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
Standing = Literal["active", "fenced", "paused", "ended"]

_STATE_PARAMS = (StateGetParams, StateSetParams, StateDeleteParams, StateListParams)
_STORAGE_PARAMS = (StorageGetParams, StorageSetParams, StorageDeleteParams, StorageKeysParams)


class Budget(Protocol):
    """The remaining budget of a run; implemented by `budgets.RunBudget`."""

    async def take(self, *, spends: bool) -> None:
        """Count one call. A refusal is raised, and counts nothing."""
        ...


@dataclass(slots=True, eq=False)
class GatedRun:
    """One attempt of a run as the gate sees it. Held by whoever executes the run.

    `connection` is compared by identity. `deadline_at` in UTC epoch seconds. `budget` None: there is none.
    """

    run_id: str
    attempt: int
    grant: Grant
    connection: object
    deadline_at: float | None = None
    standing: Standing = "active"
    bucket: TokenBucket | None = None
    budget: Budget | None = None


class Gate:
    """Checks calls and counts what it let through and refused: `counts[method, "ok" or code]`."""

    def __init__(self, clock: Clock = time.time) -> None:
        self._clock = clock
        self.counts: Counter[tuple[str, str]] = Counter()

    def admit(
        self, run: GatedRun | None, connection: object, attempt: int, method: str, params: CallParams
    ) -> Call:
        """The first half: who calls, what the grant holds, the arguments. Takes nothing of rate or budget.

        `run` is what the host knows under the id that the message names, None for nothing; `connection` is
        where the message came from, `attempt` the one that was started there.
        """
        with self._counted(method):
            return self._admit(run, connection, attempt, method, params)

    async def charge(self, run: GatedRun, call: Call) -> None:
        """The second half, for a call that is carried out: rate, deadline and budget."""
        with self._counted(call.method):
            self._check_rate(run)
            if run.deadline_at is not None and self._clock() >= run.deadline_at:
                raise DeadlineExceededError("the run's deadline is over")
            if run.budget is not None:
                await run.budget.take(spends=call.spends)
        self.repeat(call)

    def repeat(self, call: Call) -> None:
        """Instead of `charge`, for a call that is answered from the run's own recording."""
        self.counts[call.method, "ok"] += 1

    @contextmanager
    def _counted(self, method: str) -> Iterator[None]:
        try:
            yield
        except HostlerError as error:
            self.counts[method if method in CALLS else "unknown", error.code] += 1
            raise

    def _admit(
        self, run: GatedRun | None, connection: object, attempt: int, method: str, params: CallParams
    ) -> Call:
        call = CALLS.get(method)
        if call is None:
            raise InvalidArgumentError(f"there is no host call {method[:100]!r}")
        # who does not own a run may not even learn that it ended
        if run is None or run.connection is not connection or run.run_id != params.run_id:
            raise NotFoundError(f"run {params.run_id[:64]!r} is not a run of this connection")
        if run.standing != "active" or run.attempt != attempt:
            raise CancelledCallError(_OVER["fenced" if run.standing == "active" else run.standing])
        check_granted(run.grant, call, params)
        check_arguments(params)
        return call

    def _check_rate(self, run: GatedRun) -> None:
        rate = run.grant.calls_per_second
        if rate is None:
            return
        now = self._clock()
        if run.bucket is None:
            run.bucket = TokenBucket(rate, rate, now)
        wait = run.bucket.take(now)
        if wait > 0:
            raise RateLimitedError(f"more than {rate:g} calls a second", round(wait, 3) or 0.001)


_OVER: dict[str, str] = {
    "fenced": "this attempt of the run was superseded",
    "paused": "the run is paused: this attempt is over",
    "ended": "the run has ended",
}


# -- what the grant holds ---------------------------------------------------------------------------------


def check_granted(grant: Grant, call: Call, params: CallParams) -> None:
    """Ask the grant. UnauthorizedError: an operation it does not hold; NotFoundError: an id outside it."""
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


_REASONS = {
    "steering.pull": "the runner's manifest does not state the capability 'steering'",
    "interaction.request": "this host cannot put questions to people",
    "run.append": "it is for remote workers",
    "run.finalize": "it is for remote workers",
}


def _why_not(call: Call, grant: Grant) -> str:
    if call.method.startswith("state."):
        return next(iter(grant.state_closed.values()), "the agent's state policy does not open state")
    if call.method.startswith("storage."):
        return "neither plugin nor workspace storage is granted"
    kind, operation = call.permission or ("files", "config or knowledge")
    return _REASONS.get(call.method, f"the runner's manifest does not ask for permission {kind}: {operation}")


def _check_resource(grant: Grant, call: Call, name: str) -> None:
    if call.method == "file.get":
        known = name in grant.files
        operations: list[str] | None = None
    elif call.method.startswith("model."):
        known, operations = name in grant.models, _operations(grant.models.get(name))
    elif call.method.startswith("tool."):
        known, operations = name in grant.tools, _operations(grant.tools.get(name))
    else:
        known, operations = name in grant.knowledge_bases, _operations(grant.knowledge_bases.get(name))
    if not known:
        raise NotFoundError(f"{call.resource} {name[:100]!r} is not among the resources of this run")
    operation = call.permission[1] if call.permission else None
    if operation is not None and operations is not None and operation not in operations:
        raise UnauthorizedError(f"{name!r} is granted for {', '.join(operations)}, not for {operation}")


def _operations(resource: object) -> list[str]:
    operations: list[str] = getattr(resource, "operations", [])
    return operations


def _check_state_scope(grant: Grant, scope: str) -> None:
    # a scope that does not exist is an invalid argument, told of with the others
    if scope in STATE_SCOPES and scope not in grant.state_keys:
        reason = grant.state_closed.get(scope, "it is not granted")
        raise UnauthorizedError(f"state scope {scope!r} is not open to this run: {reason}")


def _check_conversation(grant: Grant, conversation_id: str | None, others: bool) -> None:
    if conversation_id is not None and conversation_id != grant.conversation_id and not others:
        raise NotFoundError("conversation_id is not the conversation of this run")
