"""How runs end, and how they begin again: the only ways to a terminal status, and back to the queue.

Both also settle what belongs to the run besides its row, in the same transaction: the messages that it
absorbed and has not pulled, and the pause that it waits for. Who ends a run from outside (a wish to cancel it
with its children, the end of one that nobody works on) goes the same way.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from hostler.storage.port import Tx
from hostler.storage.stores import audit, pauses, run_notes, runs, steering_outcomes
from hostler.storage.stores import waiting_messages as waiting
from hostler.storage.stores.journal import Entries, Entry
from hostler.storage.stores.run_rows import Fenced, Moved, Run
from hostler_protocol.content import Usage
from hostler_protocol.errors import RunFailure
from hostler_protocol.results import RunFailed
from hostler_protocol.runs import RunStatus

_MAX_FAMILY = 10_000
"""Runs that one wish may concern: a run, its children and theirs."""


class RequestedEnd(NamedTuple):
    """A run whose end was asked for, why, and what its runner is given to end by itself (seconds).

    `grace` None: what the host gives.
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
) -> Moved | Fenced:
    """End a run: the only way to a terminal status. `attempt` None: whatever the attempt is.

    `entries` (the terminal result among them) are journalled with it. What the run absorbed and did not pull
    goes to the next run of its lane, or is dropped where the agent's policy says so. Its pause is settled.
    A message that no run took up takes its place in the conversation. A cancelled run was ended by whoever
    asked for it, whatever `actor` carried it out. Fenced: nothing was written. NotFoundError for no such run.
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
    )
    if isinstance(moved, Moved):
        if moved.before == "queued" and moved.attempt == 1:
            _place_unheard(tx, run_id)
        if moved.steers:
            steering_outcomes.settle(tx, run_id)
    return moved


def _place_unheard(tx: Tx, run_id: str) -> None:
    """The run never began: what was said to it takes its place in the conversation nevertheless."""
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

    It keeps what it absorbed. With `restart` the new attempt begins from the beginning and has nothing of the
    old one's journal, so what that had pulled waits for it again; without, the journal gives it. `crashed`
    counts a recovery; `not_before` (UTC epoch milliseconds) is the back-off, `deadline_at` the later deadline
    of a run whose time stood still. Fenced: nothing was written.
    """
    if restart:  # what it waited for is asked again
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
    """Note that `actor` asks for the end of a run and its children, so that neither is durable without the
    other; in their journals and in the audit log too.

    Those that wait end at once; the others are given, and are to be told by whoever works on them. An ended
    run stays as it is, its children do not.
    """
    asked: list[RequestedEnd] = []
    family: list[tuple[RequestedEnd, str | None]] = [(RequestedEnd(run_id, reason, grace), None)]
    seen = 0
    while family and seen < _MAX_FAMILY:
        wish, parent_run_id = family.pop()
        seen += 1
        run = _request_cancel(tx, workspace_id, wish, actor, parent_run_id)
        if run is not None:
            asked.append(wish)
            if run.status in {"queued", "paused"}:
                end_waiting(tx, run, "cancelled", "cancelled", wish.reason, actor=actor)
        inherited = f"its parent run was cancelled: {reason}"
        children = runs.children(tx, workspace_id, wish.run_id)
        family += [(RequestedEnd(child.run_id, inherited, grace), wish.run_id) for child in children]
    return asked


def _request_cancel(
    tx: Tx, workspace_id: str, wish: RequestedEnd, actor: str, parent_run_id: str | None
) -> Run | None:
    """The run as it stands with the wish noted; None where it has ended. Asked again in vain: nothing new."""
    before = run_notes.hold(tx, wish.run_id)
    grace_ms = None if wish.grace is None else int(wish.grace * 1000)
    run = runs.request_cancel(tx, workspace_id, wish.run_id, wish.reason, grace_ms, by=actor)
    if before is None or run is None:
        return None
    if before.cancel_requested_at is not None and before.cancel_grace == run.cancel_grace:
        return run
    facts = {"reason": wish.reason, "grace_seconds": wish.grace, "parent_run_id": parent_run_id}
    body = {name: value for name, value in facts.items() if value is not None}
    entry = Entry("cancellation", "requested", msgspec.json.encode({"actor": actor, **body}))
    run_notes.note(tx, wish.run_id, [entry])
    audit.record(tx, workspace_id, actor, "run.cancel_requested", wish.run_id, body)
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
    usage: Usage | None = None,
) -> None:
    """End a run that nobody is working on, with its terminal result."""
    body = msgspec.json.encode({"data": RunFailed.by_host(code, error)})
    finish(
        tx,
        run.run_id,
        run.attempt,
        status,
        cause=error,
        actor=actor,
        status_code=code,
        entries=[Entry("result", "run.failed", body)],
        crashed=crashed,
        usage=usage,
    )
