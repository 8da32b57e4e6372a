"""Endings of runs and their return to the queue: the only ways to a terminal status and back to `queued`.

Both also settle, in the same transaction, the messages that the run absorbed but has not pulled, and its
pause. Cancellation from outside and the ending of a run without an owner use the same functions.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from hostler.domain.usage import NOTHING_USED, Used
from hostler.storage.port import Tx
from hostler.storage.stores import (
    action_outcomes,
    audit,
    failure_replies,
    notices,
    outbox_growth,
    pauses,
    run_families,
    run_notes,
    runs,
    steering_outcomes,
)
from hostler.storage.stores import waiting_messages as waiting
from hostler.storage.stores.journal import Entries, NewEntry
from hostler.storage.stores.run_rows import Fenced, Moved, Run
from hostler.storage.stores.runs import Begun
from hostler_protocol.content import Usage
from hostler_protocol.errors import RunFailure
from hostler_protocol.results import RunFailed
from hostler_protocol.runs import RunStatus

_MAX_FAMILY = 10_000
"""Runs that one cancellation may reach: a run, its children and theirs."""


class RequestedEnd(NamedTuple):
    """A cancelled run, the reason, and the time in seconds that its runner has to end by itself.

    `grace` None means the host's default.
    """

    run_id: str
    reason: str
    grace: float | None = None


def finish(
    tx: Tx,
    run_id: str,
    attempt: int | None,
    status: RunStatus,
    *,
    cause: str,
    actor: str,
    status_code: str | None = None,
    entries: Entries = (),
    usage: Usage | None = None,
    cost: str | None = None,
    crashed: bool = False,
    begun: Begun | None = None,
) -> Moved | Fenced:
    """End a run: the only way to a terminal status. `attempt` None means any attempt.

    `entries`, the terminal result among them, are journalled with it. Messages that the run absorbed but did
    not pull go to the next run of its lane, or are dropped if the agent's policy says so. Its pause is
    settled, an action that it waited for is taken back if it is not begun, and webhooks that want its end get
    a delivery. The message of a run that never began is placed in the conversation. The actor of a cancelled
    run is the one who requested it, not `actor`. `begun`: as of `runs.transition`. Return Fenced if nothing
    was written. NotFoundError if there is no run.
    """
    if status == "cancelled":
        actor = _canceller(tx, run_id) or actor
    pauses.end_with_run(tx, run_id, attempt, status, cause=cause, actor=actor)
    moved = runs.transition(
        tx,
        run_id,
        attempt,
        status,
        cause=cause,
        actor=actor,
        status_code=status_code,
        entries=entries,
        usage=usage,
        cost=cost,
        crashed=crashed,
        begun=begun,
    )
    if isinstance(moved, Moved):
        if moved.before == "queued" and moved.attempt == 1:
            _place_message(tx, run_id)
        if moved.steers:
            steering_outcomes.settle(tx, run_id)
        if moved.sends:
            action_outcomes.withdraw_of_run(tx, run_id)
            outbox_growth.leave(tx, run_id, status)
        if status in {"failed", "timeout"}:
            failure_replies.queue(tx, run_id)
        if moved.wanted and (run := runs.by_id(tx, run_id)) is not None:
            notices.of_ended_run(tx, run)
    return moved


def _place_message(tx: Tx, run_id: str) -> None:
    """Place the message of a run that never began in the conversation."""
    run = runs.by_id(tx, run_id)
    if run is not None:
        waiting.take_up(tx, run)


def begin_again(
    tx: Tx,
    run_id: str,
    attempt: int | None,
    *,
    cause: str,
    actor: str,
    crashed: bool = False,
    restart: bool = False,
    not_before: int | None = None,
    deadline_at: int | None = None,
    entries: Entries = (),
    usage: Usage | None = None,
    cost: str | None = None,
) -> Moved | Fenced:
    """Put a run back into its queue for a new attempt: the only way there.

    It keeps the messages that it absorbed. With `restart` the new attempt does not use the old journal, so
    messages that were pulled wait to be pulled again; otherwise the journal replays them. `crashed` counts a
    recovery; `not_before` (UTC epoch milliseconds) is the back-off, `deadline_at` the extended deadline of a
    run that was paused. Return Fenced if nothing was written.
    """
    if restart:  # the new attempt asks again what the pause asked
        pauses.end_with_run(tx, run_id, attempt, "queued", cause=cause, actor=actor)
    moved = runs.transition(
        tx,
        run_id,
        attempt,
        "queued",
        cause=cause,
        actor=actor,
        entries=entries,
        crashed=crashed,
        restart=restart,
        not_before=not_before,
        deadline_at=deadline_at,
        usage=usage,
        cost=cost,
    )
    if restart and isinstance(moved, Moved):
        steering_outcomes.give_back(tx, run_id)
    return moved


def request_cancel(
    tx: Tx, workspace_id: str, run_id: str, *, reason: str, actor: str, grace: float | None = None
) -> list[RequestedEnd]:
    """Record in one transaction, in journals and audit log too, that `actor` cancels a run and its children.

    Queued and paused runs end at once. Return all runs that had not ended: whoever executes the others must
    be told. The children of an ended run are cancelled too.
    """
    requested: list[RequestedEnd] = []
    family: list[tuple[RequestedEnd, str | None]] = [(RequestedEnd(run_id, reason, grace), None)]
    seen = 0
    while family and seen < _MAX_FAMILY:
        request, parent_run_id = family.pop()
        seen += 1
        run = _request_cancel(tx, workspace_id, request, actor, parent_run_id)
        if run is not None:
            requested.append(request)
            if run.status in {"queued", "paused"}:
                end_waiting(tx, run, "cancelled", "cancelled", request.reason, actor=actor)
        inherited = f"its parent run was cancelled: {reason}"
        children = run_families.children(tx, workspace_id, request.run_id)
        family += [(RequestedEnd(child.run_id, inherited, grace), request.run_id) for child in children]
    return requested


def _request_cancel(
    tx: Tx, workspace_id: str, request: RequestedEnd, actor: str, parent_run_id: str | None
) -> Run | None:
    """Record the request and return the run; None if it has ended. A repeated request is not journalled."""
    before = run_notes.hold(tx, request.run_id)
    grace_ms = None if request.grace is None else int(request.grace * 1000)
    run = runs.request_cancel(tx, workspace_id, request.run_id, request.reason, grace_ms, by=actor)
    if before is None or run is None:
        return None
    if before.cancel_requested_at is not None and before.cancel_grace == run.cancel_grace:
        return run
    facts = {"reason": request.reason, "grace_seconds": request.grace, "parent_run_id": parent_run_id}
    body = {name: value for name, value in facts.items() if value is not None}
    entry = NewEntry("cancellation", "requested", msgspec.json.encode({"actor": actor, **body}))
    run_notes.note(tx, request.run_id, [entry])
    audit.record(tx, workspace_id, actor, "run.cancel_requested", request.run_id, body)
    return run


def _canceller(tx: Tx, run_id: str) -> str | None:
    run = runs.by_id(tx, run_id)
    return None if run is None else run.cancel_requested_by


def end_waiting(
    tx: Tx,
    run: Run,
    status: RunStatus,
    code: RunFailure,
    error: str,
    *,
    actor: str,
    crashed: bool = False,
    used: Used = NOTHING_USED,
) -> None:
    """End a run without an owner (queued, paused or lost), with its terminal result."""
    body = msgspec.json.encode({"data": RunFailed.by_host(code, error)})
    finish(
        tx,
        run.run_id,
        run.attempt,
        status,
        cause=error,
        actor=actor,
        status_code=code,
        entries=[NewEntry("result", "run.failed", body)],
        crashed=crashed,
        usage=used.usage,
        cost=used.cost,
    )
