"""What an attempt of the run does to its pause: go on with it, carry out its calls, hand their outcomes over.

The attempt's number is the epoch of the claim (docs/decisions/pauses-are-claimed-by-attempts.md). Every
function holds the run and looks at the epoch first; a superseded attempt changes nothing. Refusals are
values, since they are expected.

A pause goes back to people while other calls of it are on their way: their outcomes still count, as long as
the attempt lives; new ones wait until it is ready again.
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
)
from hostler.domain.tool_pins import ToolPin
from hostler.storage.port import Tx
from hostler.storage.stores import pause_calls, pause_votes, pauses, run_notes

RefusalReason = Literal["fenced", "not_ready", "unknown", "undecided", "made", "revoked"]


class Refused(NamedTuple):
    """Nothing was written, and why."""

    reason: RefusalReason
    message: str


_REVIEWED: frozenset[PauseStatus] = frozenset({"resuming", "needs_review"})
_UNDER_WAY: frozenset[PauseStatus] = frozenset({"open", "ready", "resuming", "needs_review"})


class Lost(NamedTuple):
    """What became of a pause whose attempt was lost. `not_before` (UTC epoch ms): when to try again."""

    pause: Pause
    not_before: int


def begin_resuming(tx: Tx, run_id: str, epoch: int) -> Pause | Refused:
    """Claim the run's ready pause for an attempt that has begun. The same attempt again changes nothing."""
    run = run_notes.hold(tx, run_id)
    pause = pauses.unsettled(tx, run_id)
    if run is None or run.attempt != epoch or run.status not in {"claimed", "running"}:
        return Refused("fenced", f"attempt {epoch} of run {run_id} is not under way")
    if pause is None:
        return Refused("unknown", f"run {run_id} has no unsettled pause")
    if pause.status == "resuming" and pause.epoch == epoch:
        return pause
    if pause.status != "ready" or pause.epoch > epoch:
        return Refused("not_ready", f"pause {pause.pause_id} is {pause.status}, epoch {pause.epoch}")
    return pauses.move(
        tx, pause, "resuming", cause="an attempt goes on with it", actor=run.host_id or "host", epoch=epoch
    )


def reserve(tx: Tx, run_id: str, call_id: str, epoch: int, *, effect_key: str) -> PausedCall | Refused:
    """A call is about to be made, with its effective arguments: nothing but an approved one is.

    Made again by a later attempt after a crash it has the same effect key. `not_ready`: something else of
    the pause is asked again; `revoked`: whoever approved it may no longer do so.
    """
    found = _live(tx, run_id, call_id, epoch)
    if isinstance(found, Refused):
        return found
    pause, call, actor = found
    refused = _not_to_be_made(tx, pause, call, epoch)
    if refused is not None:
        return refused
    if call.execution == "reserved" and call.effect_key != effect_key:
        raise ValueError(f"call {call_id} was reserved under another effect key")
    pause_calls.execute(
        tx, pause, call, "reserved", cause="about to be made", actor=actor, effect_key=effect_key
    )
    return pause_calls.find(tx, pause, call_id) or call


def outcome(tx: Tx, run_id: str, call_id: str, epoch: int, *, failed: bool) -> Pause | Refused:
    """The tool's result or error is known, and stands in the journal with this: it is the runner's."""
    found = _live(tx, run_id, call_id, epoch)
    if isinstance(found, Refused):
        return found
    pause, call, actor = found
    if call.execution != "reserved":
        return Refused("made", f"call {call_id} is {call.execution}: no outcome is awaited")
    cause = "the tool gave an error" if failed else "the tool gave its result"
    to: Literal["failed", "succeeded"] = "failed" if failed else "succeeded"
    pause_calls.execute(tx, pause, call, to, cause=cause, actor=actor, handed_over=True)
    return _handed(tx, pause, actor)


def not_made(tx: Tx, run_id: str, call_id: str, epoch: int, *, cause: str) -> Pause | Refused:
    """A reserved call was certainly not made: its tool was never asked."""
    found = _live(tx, run_id, call_id, epoch)
    if isinstance(found, Refused):
        return found
    pause, call, actor = found
    if call.execution != "reserved":
        return Refused("made", f"call {call_id} is {call.execution}")
    pause_calls.execute(tx, pause, call, "none", cause=cause, actor=actor)
    return pause


def hand_over(tx: Tx, run_id: str, call_id: str, epoch: int) -> Pause | Refused:
    """The outcome of a call that nobody executes (denied, answered, expired ...) is the runner's."""
    found = _live(tx, run_id, call_id, epoch)
    if isinstance(found, Refused):
        return found
    pause, call, actor = found
    if not call.settled:
        return Refused("undecided", f"call {call_id} is {call.decision}: it has no outcome")
    pause_calls.hand_over(tx, call)
    return _handed(tx, pause, actor)


def give_up(tx: Tx, run_id: str, call_id: str, epoch: int) -> None:
    """The runner waits no more for a call of which nothing was done: nobody has to say anything about it."""
    run = run_notes.hold(tx, run_id)
    pause = pauses.unsettled(tx, run_id)
    if run is None or run.attempt != epoch or run.status != "running":
        return
    if pause is None or pause.form == "explicit":
        return
    call = pause_calls.find(tx, pause, call_id)
    if call is None or call.execution != "none":
        return
    cause = "the runner waits no more for it"
    if call.decision == "undecided":
        pause_calls.decide(tx, pause, call, "cancelled", cause=cause, actor=run.runner_id)
    pause_calls.hand_over(tx, call)
    pause = pauses.settle(tx, pause, actor=run.runner_id)
    if pause.status == "ready":
        begun = begin_resuming(tx, run_id, epoch)
        pause = pause if isinstance(begun, Refused) else begun
    _handed(tx, pause, run.host_id or "host")


def doubt(tx: Tx, run_id: str, call_id: str, epoch: int, *, cause: str) -> Pause | Refused:
    """Nobody knows whether a reserved call was made: somebody has to find out."""
    found = _live(tx, run_id, call_id, epoch)
    if isinstance(found, Refused):
        return found
    pause, call, actor = found
    if call.execution != "reserved":
        return Refused("made", f"call {call_id} is {call.execution}")
    if pause.status == "ready":
        pause = pauses.move(tx, pause, "resuming", cause="an attempt goes on with it", actor=actor)
    pause_calls.execute(tx, pause, call, "in_doubt", cause=cause, actor=actor, review="in_doubt")
    if pause.status == "needs_review":
        return pause
    return pauses.move(tx, pause, "needs_review", cause=cause, actor=actor)


def ask_again(
    tx: Tx,
    run_id: str,
    call_id: str,
    epoch: int,
    reason: ReviewReason,
    *,
    cause: str,
    pin: ToolPin | None = None,
) -> Pause | Refused:
    """An approval no longer holds: its tool changed, or its approver is gone. What was not made is not made.

    With reason `changed` and no `pin` the tool is gone: the pause stays in review. Otherwise it is open
    again, at the next revision.
    """
    found = _live(tx, run_id, call_id, epoch)
    if isinstance(found, Refused):
        return found
    pause, call, actor = found
    if call.execution != "none" or call.decision != "approved" or pause.status not in _REVIEWED:
        return Refused("made", f"call {call_id} is {call.decision}, {call.execution}")
    gone = reason == "changed" and pin is None
    if pause.status == "resuming":
        pause = pauses.move(tx, pause, "needs_review", cause=cause, actor=actor)
    review = reason if gone else None
    pause_calls.ask_again(tx, pause, call, cause=cause, actor=actor, review=review, pin=pin)
    return pauses.settle(tx, pause, actor=actor)


def lost(
    tx: Tx,
    run_id: str,
    epoch: int,
    *,
    cause: str,
    actor: str,
    crashed: bool = True,
    undone: bool = False,
) -> Lost | None:
    """The attempt that went on with a pause was lost: ready again, or failed when that was the last try.

    None: it went on with none. `crashed` False: it was given back, which counts for nothing. `undone`: it had
    done nothing yet, which counts for the back-off, and as a try only with many others. In the transaction
    that puts the run back into its queue, before it.
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


def _not_to_be_made(tx: Tx, pause: Pause, call: PausedCall, epoch: int) -> Refused | None:
    """Why a call must not be made now; None: it may."""
    if pause.status != "resuming":
        return Refused("not_ready", f"pause {pause.pause_id} is {pause.status}: its calls wait")
    if call.decision != "approved" or call.review is not None:
        return Refused("undecided", f"call {call.call_id} is {call.decision}: only an approved call is made")
    if call.execution == "reserved":
        mine = call.epoch == epoch
        return Refused("made", f"call {call.call_id} is being made by this attempt") if mine else None
    if call.execution != "none":
        return Refused("made", f"call {call.call_id} has {call.execution}")
    if not pause_votes.still_approved(tx, pause, call):
        return Refused("revoked", f"call {call.call_id}: whoever approved it may no longer do so")
    return None


class _Found(NamedTuple):
    pause: Pause
    call: PausedCall
    actor: str


def _live(tx: Tx, run_id: str, call_id: str, epoch: int) -> _Found | Refused:
    """The call, if the attempt `epoch` is the one that goes on with its pause, or went on with it last."""
    run = run_notes.hold(tx, run_id)
    pause = pauses.unsettled(tx, run_id)
    if run is None or run.attempt != epoch or run.status not in {"claimed", "running"}:
        return Refused("fenced", f"attempt {epoch} of run {run_id} is not under way")
    if pause is None or pause.status not in _UNDER_WAY or pause.epoch != epoch:
        return Refused("fenced", f"attempt {epoch} of run {run_id} does not go on with a pause")
    call = pause_calls.find(tx, pause, call_id)
    if call is None:
        return Refused("unknown", f"pause {pause.pause_id} has no call {call_id}")
    return _Found(pause, call, run.host_id or "host")


def _handed(tx: Tx, pause: Pause, actor: str) -> Pause:
    """After an outcome was handed over: the last one ends the pause."""
    if pause.status == "resuming" and all(call.handed_over for call in pause_calls.of_pause(tx, pause)):
        return pauses.move(tx, pause, "resumed", cause="every call was answered", actor=actor)
    return pause
