"""Pauses: one per segment of a run, one unsettled at a time; every change is recorded.

A caller that changes a pause holds the lock of its run's row (`run_notes.hold`), so that values it read stay
valid until the end of the transaction. Times are UTC epoch milliseconds by the database's clock.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import msgspec

from hostler.domain import runs
from hostler.domain.pause_checks import check_calls, check_room
from hostler.domain.pause_values import DecisionData, NewCall, NewPause, Pause, PausedCall
from hostler.domain.pauses import HOST, MAX_SWEPT_PAUSES, PauseStatus, is_settled, may_become
from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import (
    channel_people,
    chat_questions,
    notices,
    pause_calls,
    pause_facts,
    run_notes,
)
from hostler.storage.stores.filters import NEWEST
from hostler.storage.stores.pause_rows import pause_of
from hostler_protocol.errors import ConflictError, NotFoundError
from hostler_protocol.limits import MAX_PAGE_ITEMS
from hostler_protocol.runs import RunStatus

_q = load(__file__)
_MAX_SEGMENTS = 1_000


class Due(NamedTuple):
    """A pause that the sweeper has to check."""

    workspace_id: str
    pause_id: str


def open(tx: Tx, new: NewPause, *, cause: str, actor: str) -> Pause:  # noqa: A001  used as pauses.open
    """Open the next pause of a run: in review if a call is in doubt, ready if no person is asked.

    PayloadTooLargeError or InvalidArgumentError above a limit; ConflictError if the run has an unsettled
    pause or has ended.
    """
    check_calls(new.calls)
    run = run_notes.hold(tx, new.run_id)
    if run is None or run.finished_at is not None:
        raise ConflictError(f"run {new.run_id} has ended: it cannot pause")
    before = unsettled(tx, new.run_id)
    if before is not None and before.form == "explicit" and before.status == "resuming":
        move(tx, before, "resumed", cause="the runner went on and pauses again", actor=actor)
    elif before is not None:
        raise ConflictError(
            f"run {new.run_id} has an unsettled pause: the next one opens when that is settled"
        )
    row = tx.one(
        _q.insert,
        workspace_id=run.workspace_id,
        pause_id=new.pause_id,
        run_id=new.run_id,
        conversation_id=run.conversation_id,
        requester=channel_people.requester_of(tx, run),
        status="needs_review" if any(call.kind == "in_doubt" for call in new.calls) else "open",
        form=new.form,
        agent_version=run.agent_version,
        on_message=new.on_message,
        state=new.state,
        state_digest=new.state_digest,
        state_blob=new.state_blob,
        state_format=new.state_format,
        data_key=new.data_key,
        created_at=tx.now,
    )
    if row is None:
        raise RuntimeError("an insert with RETURNING gave no row")
    pause = pause_of(row)
    pause_calls.insert(tx, pause, new.calls, first_ordinal=0)
    pause_facts.of_pause(tx, pause, before=None, cause=cause, actor=actor, calls=_named(new.calls))
    _deny(tx, pause, new.calls)
    if all(call.denied is not None for call in new.calls):
        return move(tx, pause, "ready", cause="nobody is asked", actor=HOST, resumed_by=HOST)
    pause = note_expiry(tx, pause)
    notices.of_pause(tx, pause, before=None)
    chat_questions.follow(tx, pause)
    return pause


def _deny(tx: Tx, pause: Pause, calls: Sequence[NewCall]) -> None:
    """Deny the calls that no person is asked about."""
    denied = {call.call_id: call.denied for call in calls if call.denied is not None}
    for call in pause_calls.of_pause(tx, pause) if denied else ():
        if call.call_id in denied:
            given = DecisionData(comment=denied[call.call_id])
            pause_calls.decide(tx, pause, call, "denied", cause="nobody is asked", actor=HOST, given=given)


def add_calls(tx: Tx, pause: Pause, calls: Sequence[NewCall], *, actor: str) -> Pause:
    """Add calls to an open pause. Its revision stays, since the calls that people saw have not changed."""
    check_calls(calls)
    if pause.status not in {"open", "needs_review"}:
        raise ConflictError(f"pause {pause.pause_id} is {pause.status}: no calls can be added")
    standing = pause_calls.of_pause(tx, pause)
    check_room(len(standing), len(calls))
    pause_calls.insert(tx, pause, calls, first_ordinal=len(standing))
    for call in pause_calls.of_pause(tx, pause)[len(standing) :]:
        pause_facts.of_joining(tx, pause, call, actor=actor)
    if pause.status == "open" and any(call.kind == "in_doubt" for call in calls):
        pause = move(tx, pause, "needs_review", cause="a call may have been made: nobody knows", actor=actor)
    pause = note_expiry(tx, pause)
    notices.of_pause(tx, pause, before=pause.status, extended=True)
    chat_questions.follow(tx, pause)
    return pause


def find(tx: Tx, workspace_id: str, pause_id: str) -> Pause | None:
    """Return the pause; None if the workspace has no such pause."""
    row = tx.one(_q.find, workspace_id=workspace_id, pause_id=pause_id)
    return None if row is None else pause_of(row)


def get(tx: Tx, workspace_id: str, pause_id: str) -> Pause:
    """Return the pause. NotFoundError if the workspace has no such pause."""
    pause = find(tx, workspace_id, pause_id)
    if pause is None:
        raise NotFoundError(f"there is no pause {pause_id!r}")
    return pause


def unsettled(tx: Tx, run_id: str) -> Pause | None:
    """Return the pause that the run waits for or resumes, or None."""
    row = tx.one(_q.unsettled, run_id=run_id)
    return None if row is None else pause_of(row)


def waiting_runs(tx: Tx, ws: str, run_ids: Collection[str]) -> frozenset[str]:
    """Return which of these runs wait for people now: those that are parked, and those held before that."""
    texts = msgspec.json.encode(list(run_ids)).decode()
    return frozenset(row["run_id"] for row in tx.all(_q.waiting_runs, workspace_id=ws, run_ids=texts))


def of_run(tx: Tx, run_id: str, limit: int = _MAX_SEGMENTS) -> list[Pause]:
    """Return the pauses of a run, latest first."""
    return [pause_of(row) for row in tx.all(_q.of_run, run_id=run_id, limit=limit)]


def continued_pause(tx: Tx, run_id: str, base_attempt: int) -> Pause | None:
    """Return the explicit pause whose state the attempts since `base_attempt` continue from, or None."""
    row = tx.one(_q.last_explicit, run_id=run_id)
    pause = None if row is None else pause_of(row)
    if pause is None or pause.status not in {"ready", "resuming", "resumed"}:
        return None
    return pause if pause.status == "ready" or pause.epoch >= base_attempt else None


def page(
    tx: Tx,
    workspace_id: str,
    *,
    conversation_id: str | None = None,
    run_id: str | None = None,
    statuses: Sequence[PauseStatus] = (),
    before: tuple[int, str] | None = None,
    limit: int = MAX_PAGE_ITEMS,
) -> list[Pause]:
    """Return pauses, newest first, at most `limit`. Filters that are None or empty are not applied.

    `before`: (created_at, pause id) of the last one seen.
    """
    before_time, before_id = before or (NEWEST, "")
    params: dict[str, Any] = {
        "workspace_id": workspace_id,
        "before_time": before_time,
        "before_id": before_id,
        "statuses": f",{','.join(statuses)}," if statuses else None,
        "limit": limit,
    }
    if run_id is not None and conversation_id is None:
        return [pause_of(row) for row in tx.all(_q.page_run, run_id=run_id, **params)]
    params["run_id"] = run_id
    if conversation_id is None:
        return [pause_of(row) for row in tx.all(_q.page, **params)]
    return [pause_of(row) for row in tx.all(_q.page_conversation, conversation_id=conversation_id, **params)]


def due(tx: Tx, limit: int = MAX_SWEPT_PAUSES) -> list[Due]:
    """Return open pauses with an expired call."""
    return [Due(row["workspace_id"], row["pause_id"]) for row in tx.all(_q.due, now=tx.now, limit=limit)]


def left_behind(tx: Tx, limit: int = MAX_SWEPT_PAUSES) -> list[Due]:
    """Return ready pauses whose run is still paused."""
    return [Due(row["workspace_id"], row["pause_id"]) for row in tx.all(_q.left_behind, limit=limit)]


def next_due(tx: Tx) -> int | None:
    """Return when the next call expires, or None."""
    row = tx.one(_q.next_due)
    return None if row is None or row["due"] is None else int(row["due"])


def note_expiry(tx: Tx, pause: Pause) -> Pause:
    """Store when the next undecided call of the pause expires."""
    times = [
        call.expires_at
        for call in pause_calls.of_pause(tx, pause)
        if call.decision == "undecided" and call.expires_at is not None
    ]
    if times and min(times) != pause.expires_at:
        tx.run(_q.set_expiry, workspace_id=pause.workspace_id, pause_id=pause.pause_id, expires_at=min(times))
    return get(tx, pause.workspace_id, pause.pause_id)


def set_parked(tx: Tx, pause: Pause, since: int | None = None) -> None:
    """Record that the run is parked, so that its deadline is suspended, from now or from `since` on."""
    at = tx.now if since is None else since
    tx.run(_q.set_parked, workspace_id=pause.workspace_id, pause_id=pause.pause_id, parked_at=at)


def move(
    tx: Tx,
    pause: Pause,
    to: PauseStatus,
    *,
    cause: str,
    actor: str,
    asked_again: bool = False,
    epoch: int | None = None,
    attempts: int | None = None,
    losses: int | None = None,
    resumed_by: str | None = None,
    doubted: str | None = None,
) -> Pause:
    """Change the status and record it. ValueError if no such change is allowed.

    `doubted`: the call that it is about, of which nobody knows whether it was made.
    """
    if not may_become(pause.status, to):
        raise ValueError(f"a pause that is {pause.status} does not become {to}")
    row = tx.one(
        _q.move,
        workspace_id=pause.workspace_id,
        pause_id=pause.pause_id,
        status=to,
        status_before=pause.status,
        epoch=pause.epoch if epoch is None else epoch,
        epoch_before=pause.epoch,
        attempts=pause.attempts if attempts is None else attempts,
        losses=pause.losses if losses is None else losses,
        asked_again=int(asked_again),
        expires_at=pause.expires_at,
        resumed_by=resumed_by,
        settled=int(is_settled(to)),
        now=tx.now,
    )
    if row is None:
        raise RuntimeError(f"pause {pause.pause_id} changed although its run was locked")
    moved = pause_of(row)
    pause_facts.of_pause(tx, moved, before=pause.status, cause=cause, actor=actor, doubted=doubted)
    notices.of_pause(tx, moved, before=pause.status)
    chat_questions.follow(tx, moved)
    return moved


def settle(tx: Tx, pause: Pause, *, actor: str) -> Pause:
    """Update the status by the calls: `ready` if all are settled, `open` again after a review."""
    calls = pause_calls.of_pause(tx, pause)
    if pause.status not in {"open", "needs_review"}:
        return pause
    if any(call.review is not None for call in calls):
        chat_questions.follow(tx, pause)
        return pause
    if all(call.settled for call in calls):
        cause = "what happened is known" if pause.status == "needs_review" else "every call is settled"
        return move(tx, pause, "ready", cause=cause, actor=actor, resumed_by=actor)
    if pause.status == "needs_review":
        pause = move(tx, pause, "open", cause="asked again", actor=actor, asked_again=True)
    else:
        chat_questions.follow(tx, pause)
    return note_expiry(tx, pause)


def close(tx: Tx, pause: Pause, to: PauseStatus, *, cause: str, actor: str) -> Pause:
    """End an unsettled pause that is not resumed: undecided calls become `cancelled`."""
    for call in pause_calls.of_pause(tx, pause):
        if call.decision == "undecided":
            pause_calls.decide(tx, pause, call, "cancelled", cause=cause, actor=actor)
    return move(tx, pause, to, cause=cause, actor=actor)


def expire(tx: Tx, pause: Pause) -> list[PausedCall]:
    """Expire the calls of an open pause that were not answered in time, and return them."""
    if pause.status != "open":
        return []
    late = [
        call
        for call in pause_calls.of_pause(tx, pause)
        if call.decision == "undecided" and call.expires_at is not None and call.expires_at <= tx.now
    ]
    for call in late:
        pause_calls.decide(tx, pause, call, "expired", cause="nobody answered in time", actor="clock")
    return late


def leave_in_doubt(tx: Tx, run_id: str, *, cause: str, actor: str) -> None:
    """Record that it stays unknown whether the run's reserved calls were made: no attempt takes them up."""
    for call in pause_calls.reserved(tx, run_id):
        pause = get(tx, call.workspace_id, call.pause_id)
        pause_calls.execute(tx, pause, call, "in_doubt", cause=cause, actor=actor)


def end_with_run(
    tx: Tx, run_id: str, attempt: int | None, status: RunStatus, *, cause: str, actor: str
) -> Pause | None:
    """Settle the pause of a run that is about to change to `status`, before the last entry of its journal.

    Return None if none is unsettled, or if the run cannot change to `status` (`attempt` None means any
    attempt). A pause whose outcomes the runner got, or whose continuation it used, becomes `resumed`. Calls
    whose outcome nobody will learn become `in_doubt`.
    """
    if tx.dialect == "postgres":  # another host may be opening a pause at this moment
        run_notes.hold(tx, run_id)
    latest = of_run(tx, run_id, limit=1)
    run = run_notes.hold(tx, run_id) if latest else None
    if run is None or attempt not in (None, run.attempt) or not runs.may_become(run.status, status):
        return None
    leave_in_doubt(tx, run_id, cause=cause, actor=actor)
    (pause,) = latest
    if is_settled(pause.status):
        return None
    if pause.status == "resuming":
        answered = all(call.handed_over for call in pause_calls.of_pause(tx, pause))
        if answered or pause.form == "explicit":
            return move(tx, pause, "resumed", cause=cause, actor=actor)
    return close(tx, pause, "cancelled", cause=cause, actor=actor)


def _named(calls: Sequence[NewCall]) -> list[dict[str, Any]]:
    """Describe calls for the journal, without their arguments, which are in their own entries."""
    return [
        {
            "call_id": call.call_id,
            "kind": call.kind,
            "tool_name": call.asked.tool_name,
            "executor": call.asked.executor,
        }
        for call in calls
    ]
