"""Operations of runners on runs: read them, end them, open children."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from hostler.calls.scope import CallScope, Effect
from hostler.domain.caller_tools import among
from hostler.domain.events import Caller
from hostler.runs.orchestrator import Orchestrator
from hostler.runs.records import record, record_of
from hostler.storage.port import Database, Tx
from hostler.storage.stores import run_families, run_notes, runs
from hostler.storage.stores.run_endings import RequestedEnd, request_cancel
from hostler.storage.stores.run_rows import Run
from hostler_protocol.calls import RunCreateParams
from hostler_protocol.errors import (
    CancelledCallError,
    ConflictError,
    HostlerError,
    InvalidArgumentError,
    RateLimitedError,
)
from hostler_protocol.events import EventEnvelope
from hostler_protocol.runs import RunRecord

MAX_DEPTH = 8
"""Maximum depth of child runs: it stops an agent that calls itself."""
MAX_CHILDREN = 64
"""Maximum number of unfinished children of one run."""
MAX_UNFINISHED_FAMILY = 256
"""Maximum number of unfinished runs below the first run of a family: its children, theirs and so on.

Otherwise they could fill the queue, from which the runs of everybody start.
"""
MAX_FAMILY = 10_000
"""Maximum number of runs below the first run of a family, finished or not; each new one counts them."""
CHILD_RETRY_SECONDS = 1.0

Wait = Callable[[str, str, float], Awaitable[RunRecord]]


class RunController:
    """Implements `calls.scope.RunControl`. `wait` returns a run once it is over, or after some seconds."""

    def __init__(self, db: Database, orchestrator: Orchestrator, wait: Wait) -> None:
        self._db = db
        self._orchestrator = orchestrator
        self._wait = wait

    async def record(self, workspace_id: str, run_id: str) -> RunRecord:
        """Return a run as clients read it."""
        return await self._db.read(lambda tx: record(tx, workspace_id, run_id))

    def cancel(self, workspace_id: str, run_id: str, reason: str, actor: str) -> Effect:
        """Cancel a run; the reply is its RunRecord."""

        requested: list[RequestedEnd] = []

        def work(tx: Tx) -> RunRecord:
            requested[:] = request_cancel(tx, workspace_id, run_id, reason=reason, actor=actor)
            return record_of(runs.get(tx, workspace_id, run_id))

        def settled(_record: RunRecord, error: HostlerError | None) -> None:
            if error is None:
                self._orchestrator.cancelled(requested)

        return Effect(work, settled=settled)

    async def create(self, parent: CallScope, params: RunCreateParams) -> Effect | HostlerError:
        """Open a child run; the reply is its RunRecord. Return the error if the parent may open none."""
        if not among(params.input.tools, parent.grant.caller_tools):
            return InvalidArgumentError(
                "input.tools: a child run gets tools only of those that the caller of its parent brought, as "
                "they are"
            )
        own_lane = await self._db.read(lambda tx: runs.get(tx, parent.workspace_id, parent.run_id).lane)
        inherited = parent.event.envelope
        envelope = EventEnvelope(
            event_type="api.invoked",
            input=params.input,
            agent=params.agent,
            source="system",
            bot_id=inherited.bot_id,
            conversation_id=params.conversation_id,
            thread_id=inherited.thread_id if params.conversation_id is not None else None,
            actor=inherited.actor,
            data=params.data,
            metadata={"parent_run_id": parent.run_id},
        )
        caller = Caller(
            parent.workspace_id,
            parent.event.requester or "",
            f"run:{parent.run_id}",
            roles=frozenset(parent.event.requester_roles),
        )
        deadline = None if parent.deadline_at is None else int(parent.deadline_at * 1000)
        pending = await self._orchestrator.prepare(
            envelope, caller, parent_run_id=parent.run_id, deadline_at=deadline
        )
        if pending.lane == own_lane:
            pending.give_up()
            return ConflictError(
                "the child would wait for its own parent: it is the same agent in the same conversation; "
                "leave conversation_id out, or name another agent"
            )

        def work(tx: Tx) -> Any:
            # a cancellation locks the same row: either this is refused, or the cancellation reaches the child
            own = run_notes.hold(tx, parent.run_id)
            if own is None or own.cancel_reason is not None:
                return CancelledCallError("this run is being cancelled: it begins no further children")
            # behind that lock, so that calls made at once are counted one after the other
            return _too_many(tx, parent.workspace_id, own) or pending.work(tx)

        def settled(opened: Any, error: HostlerError | None) -> None:
            if error is not None or isinstance(opened, HostlerError):
                pending.give_up()
            else:
                pending.started(opened)

        async def then(opened: Any) -> RunRecord:
            accepted = await pending.answer(opened)
            if accepted.run is None:
                raise InvalidArgumentError(f"agent {params.agent!r} took no run: {accepted.outcome}")
            return await self.rejoin(parent, accepted.run.run_id, params)

        def child(opened: Any) -> str | None:
            run = getattr(opened, "run", None)
            return None if run is None else str(run.run_id)

        return Effect(work, then, settled, child)

    async def rejoin(self, parent: CallScope, run_id: str, params: RunCreateParams) -> RunRecord:
        """Return the child run that an earlier attempt opened with the same call; wait as `params` say."""
        if params.wait is not None:
            return await self._wait(parent.workspace_id, run_id, params.wait)
        return await self.record(parent.workspace_id, run_id)


def _too_many(tx: Tx, workspace_id: str, own: Run) -> HostlerError | None:
    """Return why a run may open no further child, or None."""
    depth, first = 1, own
    while first.parent_run_id is not None:
        above = runs.find(tx, workspace_id, first.parent_run_id)
        if above is None:  # deleted meanwhile
            break
        depth, first = depth + 1, above
    if depth > MAX_DEPTH:
        return InvalidArgumentError(f"child runs may be {MAX_DEPTH} deep, no more")
    if len(run_families.children(tx, workspace_id, own.run_id, limit=MAX_CHILDREN)) >= MAX_CHILDREN:
        return RateLimitedError(f"{MAX_CHILDREN} children of this run are not over yet", CHILD_RETRY_SECONDS)
    family = run_families.family(tx, workspace_id, first.run_id, MAX_FAMILY)
    if family.size >= MAX_FAMILY:
        return InvalidArgumentError(f"run {first.run_id} may have {MAX_FAMILY:,} runs below it, no more")
    if family.unfinished >= MAX_UNFINISHED_FAMILY:
        text = f"{MAX_UNFINISHED_FAMILY} runs below run {first.run_id} are not over yet"
        return RateLimitedError(text, CHILD_RETRY_SECONDS)
    return None
