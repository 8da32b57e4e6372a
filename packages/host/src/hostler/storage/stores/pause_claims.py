"""Changes that an attempt makes to its run's pause: resume it, execute its calls, hand over their outcomes.

The attempt's number is the epoch of the claim (docs/decisions/pauses-are-claimed-by-attempts.md). Every
function locks the run and checks the epoch first; a superseded attempt changes nothing. Refusals are return
values, since they are expected.

A pause may go back to people while other calls of it are being executed: their outcomes still count while the
attempt is alive; further calls wait until the pause is ready again.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from hostler.domain.back_off import back_off
from hostler.domain.pause_values import Pause, PausedCall
from hostler.domain.pauses import (
    FIRST_BACKOFF_SECONDS,
    LAST_BACKOFF_SECONDS,
    MAX_RESUME_ATTEMPTS,
    MAX_RESUME_LOSSES,
    PauseStatus,
    ReviewReason,
    is_settled,
)
from hostler.domain.tool_pins import PresentTool
from hostler.storage.port import Tx
from hostler.storage.stores import pause_calls, pause_facts, pause_votes, pauses, run_notes

RefusalReason = Literal["fenced", "not_ready", "unknown", "undecided", "made", "revoked"]


class ClaimRefused(NamedTuple):
    """Why nothing was written."""

    reason: RefusalReason
    message: str


_REVIEWED: frozenset[PauseStatus] = frozenset({"resuming", "needs_review"})
_UNDER_WAY: frozenset[PauseStatus] = frozenset({"open", "ready", "resuming", "needs_review"})


class Lost(NamedTuple):
    """A pause whose attempt was lost. `not_before` (UTC epoch ms): when to try again."""

    pause: Pause
    not_before: int


def begin_resuming(tx: Tx, run_id: str, epoch: int) -> Pause | ClaimRefused:
    """Claim the run's ready pause for an attempt that has begun. Repeating it changes nothing."""
    run = run_notes.hold(tx, run_id)
    pause = pauses.unsettled(tx, run_id)
    if run is None or run.attempt != epoch or run.status not in {"claimed", "running"}:
        return ClaimRefused("fenced", f"attempt {epoch} of run {run_id} is not under way")
    if pause is None:
        return ClaimRefused("unknown", f"run {run_id} has no unsettled pause")
    if pause.status == "resuming" and pause.epoch == epoch:
        return pause
    if pause.status != "ready" or pause.epoch > epoch:
        return ClaimRefused("not_ready", f"pause {pause.pause_id} is {pause.status}, epoch {pause.epoch}")
    return pauses.move(
        tx, pause, "resuming", cause="an attempt resumes it", actor=run.host_id or "host", epoch=epoch
    )


def reserve(tx: Tx, run_id: str, call_id: str, epoch: int, *, effect_key: str) -> PausedCall | ClaimRefused:
    """Reserve an approved call that is about to be executed with its effective arguments.

    A later attempt that repeats it after a crash uses the same effect key. Refused with `not_ready` if
    another call of the pause is asked again, with `revoked` if its approver may no longer approve it.
    """
    found = _live(tx, run_id, call_id, epoch)
    if isinstance(found, ClaimRefused):
        return found
    pause, call, actor = found
    refused = _refusal(tx, pause, call, epoch)
    if refused is not None:
        return refused
    if call.execution == "reserved" and call.effect_key != effect_key:
        raise ValueError(f"call {call_id} was reserved under another effect key")
    pause_calls.execute(
        tx, pause, call, "reserved", cause="about to be made", actor=actor, effect_key=effect_key
    )
    return pause_calls.find(tx, pause, call_id) or call


def record_outcome(
    tx: Tx, run_id: str, call_id: str, epoch: int, *, failed: bool, pause_id: str | None = None
) -> Pause | ClaimRefused:
    """Record that the runner gets the tool's result or error, which is journalled in the same transaction.

    `pause_id`: the call's pause; None: the run's unsettled one. A pause may be settled while its calls are
    under way: an explicit one is `resumed` when the run opens the next, and people may cancel it.
    """
    found = _reserved(tx, run_id, call_id, epoch, pause_id)
    if isinstance(found, ClaimRefused):
        return found
    pause, call, actor = found
    cause = "the tool gave an error" if failed else "the tool gave its result"
    to: Literal["failed", "succeeded"] = "failed" if failed else "succeeded"
    pause_calls.execute(tx, pause, call, to, cause=cause, actor=actor, handed_over=True)
    return _handed(tx, pause, actor)


def release_call(tx: Tx, run_id: str, call_id: str, epoch: int, *, cause: str) -> Pause | ClaimRefused:
    """Release a reserved call that was certainly not executed: its tool was never called."""
    found = _reserved(tx, run_id, call_id, epoch)
    if isinstance(found, ClaimRefused):
        return found
    pause, call, actor = found
    pause_calls.execute(tx, pause, call, "none", cause=cause, actor=actor)
    return pause


def hand_over(tx: Tx, run_id: str, call_id: str, epoch: int) -> Pause | ClaimRefused:
    """Record that the runner gets the outcome of a call without execution (denied, answered, expired)."""
    found = _live(tx, run_id, call_id, epoch)
    if isinstance(found, ClaimRefused):
        return found
    pause, call, actor = found
    if not call.settled:
        return ClaimRefused("undecided", f"call {call_id} is {call.decision}: it has no outcome")
    pause_calls.hand_over(tx, call)
    return _handed(tx, pause, actor)


def give_up(tx: Tx, run_id: str, call_id: str, epoch: int) -> None:
    """Cancel a call that was not executed and that the runner no longer waits for."""
    run = run_notes.hold(tx, run_id)
    pause = pauses.unsettled(tx, run_id)
    if run is None or run.attempt != epoch or run.status != "running":
        return
    if pause is None or pause.form == "explicit":
        return
    call = pause_calls.find(tx, pause, call_id)
    if call is None or call.execution != "none":
        return
    cause = "the runner no longer waits for it"
    if call.decision == "undecided":
        pause_calls.decide(tx, pause, call, "cancelled", cause=cause, actor=run.runner_id)
    pause_calls.hand_over(tx, call)
    pause = pauses.settle(tx, pause, actor=run.runner_id)
    if pause.status == "ready":
        begun = begin_resuming(tx, run_id, epoch)
        pause = pause if isinstance(begun, ClaimRefused) else begun
    _handed(tx, pause, run.host_id or "host")


def mark_in_doubt(tx: Tx, run_id: str, call_id: str, epoch: int, *, cause: str) -> Pause | ClaimRefused:
    """Send a reserved call to review, since it is not known whether it was executed."""
    found = _reserved(tx, run_id, call_id, epoch)
    if isinstance(found, ClaimRefused):
        return found
    pause, call, actor = found
    if pause.status == "ready":
        pause = pauses.move(tx, pause, "resuming", cause="an attempt resumes it", actor=actor)
    pause_calls.execute(tx, pause, call, "in_doubt", cause=cause, actor=actor, review="in_doubt")
    if pause.status == "needs_review":  # because of another of its calls
        pause_facts.of_pause(tx, pause, before=pause.status, cause=cause, actor=actor, doubted=call_id)
        return pause
    return pauses.move(tx, pause, "needs_review", cause=cause, actor=actor, doubted=call_id)


def ask_again(
    tx: Tx,
    run_id: str,
    call_id: str,
    epoch: int,
    reason: ReviewReason,
    *,
    cause: str,
    tool: PresentTool | None = None,
) -> Pause | ClaimRefused:
    """Ask again for a call that was not executed, since its tool changed or its approver is gone.

    Reason `changed` without a `tool` means that the tool is gone: the pause stays in review. Otherwise it is
    open again at the next revision.
    """
    found = _live(tx, run_id, call_id, epoch)
    if isinstance(found, ClaimRefused):
        return found
    pause, call, actor = found
    if call.execution != "none" or call.decision != "approved" or pause.status not in _REVIEWED:
        return ClaimRefused("made", f"call {call_id} is {call.decision}, {call.execution}")
    gone = reason == "changed" and tool is None
    if pause.status == "resuming":
        pause = pauses.move(tx, pause, "needs_review", cause=cause, actor=actor)
    review = reason if gone else None
    pause_calls.ask_again(tx, pause, call, cause=cause, actor=actor, review=review, tool=tool)
    return pauses.settle(tx, pause, actor=actor)


def attempt_lost(
    tx: Tx, run_id: str, epoch: int, *, cause: str, actor: str, crashed: bool = True, undone: bool = False
) -> Lost | None:
    """Make the pause of a lost attempt ready again, or failed if that was the last try.

    Return None if the attempt resumed no pause. `crashed` False: it was given back, which is not counted.
    `undone`: it had done nothing yet, which is counted separately, for the back-off and up to
    MAX_RESUME_LOSSES. Called in the transaction that queues the run again, before that.
    """
    run_notes.hold(tx, run_id)
    pause = pauses.unsettled(tx, run_id)
    if pause is None or pause.status != "resuming" or pause.epoch != epoch:
        return None
    if not crashed:
        return Lost(pauses.move(tx, pause, "ready", cause=cause, actor=actor), tx.now)
    attempts, losses = pause.attempts + (not undone), pause.losses + undone
    failed = attempts >= MAX_RESUME_ATTEMPTS or losses >= MAX_RESUME_LOSSES
    to: PauseStatus = "failed" if failed else "ready"
    moved = pauses.move(tx, pause, to, cause=cause, actor=actor, attempts=attempts, losses=losses)
    wait = back_off(losses if undone else attempts, FIRST_BACKOFF_SECONDS, LAST_BACKOFF_SECONDS)
    return Lost(moved, tx.now + int(wait * 1000))


def _refusal(tx: Tx, pause: Pause, call: PausedCall, epoch: int) -> ClaimRefused | None:
    """Return why a call must not be executed now, or None."""
    if pause.status != "resuming":
        return ClaimRefused("not_ready", f"pause {pause.pause_id} is {pause.status}: its calls wait")
    if call.decision != "approved" or call.review is not None:
        return ClaimRefused(
            "undecided", f"call {call.call_id} is {call.decision}: only an approved call is made"
        )
    if call.execution == "reserved":
        mine = call.epoch == epoch
        return ClaimRefused("made", f"call {call.call_id} is being made by this attempt") if mine else None
    if call.execution != "none":
        return ClaimRefused("made", f"call {call.call_id} has {call.execution}")
    if not pause_votes.still_approved(tx, pause, call):
        return ClaimRefused("revoked", f"call {call.call_id}: its approver may no longer approve it")
    return None


class _Found(NamedTuple):
    pause: Pause
    call: PausedCall
    actor: str


def _live(tx: Tx, run_id: str, call_id: str, epoch: int) -> _Found | ClaimRefused:
    """Find a call whose pause the attempt `epoch` is resuming, or was the last to resume."""
    run = run_notes.hold(tx, run_id)
    pause = pauses.unsettled(tx, run_id)
    if run is None or run.attempt != epoch or run.status not in {"claimed", "running"}:
        return ClaimRefused("fenced", f"attempt {epoch} of run {run_id} is not under way")
    if pause is None or pause.status not in _UNDER_WAY or pause.epoch != epoch:
        return ClaimRefused("fenced", f"attempt {epoch} of run {run_id} is not resuming a pause")
    call = pause_calls.find(tx, pause, call_id)
    if call is None:
        return ClaimRefused("unknown", f"pause {pause.pause_id} has no call {call_id}")
    return _Found(pause, call, run.host_id or "host")


def _reserved(
    tx: Tx, run_id: str, call_id: str, epoch: int, pause_id: str | None = None
) -> _Found | ClaimRefused:
    """Find a call as `_live` does, if it is reserved; also in a pause that is settled already."""
    run = run_notes.hold(tx, run_id)
    pause = None if run is None or pause_id is None else pauses.find(tx, run.workspace_id, pause_id)
    if run is not None and pause is not None and is_settled(pause.status):
        call = pause_calls.find(tx, pause, call_id)
        under_way = run.attempt == epoch and run.status in {"claimed", "running"}
        if under_way and call is not None and call.execution == "reserved":
            return _Found(pause, call, run.host_id or "host")
    found = _live(tx, run_id, call_id, epoch)
    if isinstance(found, ClaimRefused) or found.call.execution == "reserved":
        return found
    return ClaimRefused("made", f"call {call_id} is {found.call.execution}")


def _handed(tx: Tx, pause: Pause, actor: str) -> Pause:
    """End the pause if all outcomes were handed over."""
    if pause.status == "resuming" and all(call.handed_over for call in pause_calls.of_pause(tx, pause)):
        return pauses.move(tx, pause, "resumed", cause="every call was answered", actor=actor)
    return pause
