"""Park runs that wait for people, so that they need no process, and queue them once people have decided.

Also what becomes of a pause whose attempt is lost, in the transaction that settles the run.
"""

from __future__ import annotations

from hostler.domain.pause_values import Pause
from hostler.domain.record import Record
from hostler.domain.recovery import Settlement
from hostler.domain.usage import Used
from hostler.pauses import entries as pause_entries
from hostler.pauses.transitions import go_on
from hostler.storage.port import Tx
from hostler.storage.stores import pause_claims, pauses, run_notes, runs
from hostler.storage.stores.journal import Entries
from hostler.storage.stores.run_endings import begin_again, end_waiting
from hostler.storage.stores.run_rows import Fenced, Moved, Run
from hostler_protocol.errors import RunFailure


class Parked(Record):
    """The run waits. `queued`: everything was decided in this very moment, and it waits for an attempt."""

    moved: Moved
    queued: bool


def park(
    tx: Tx,
    run: Run,
    entries: Entries,
    *,
    actor: str,
    used: Used,
    cause: str = "it waits for people",
    since: int | None = None,
) -> Parked | Fenced:
    """End the attempt: `running` becomes `paused`. What was decided or cancelled meanwhile takes effect.

    Its deadline is suspended from now on, or `since` a time before (UTC epoch milliseconds).
    """
    run_notes.hold(tx, run.run_id)
    moved = runs.transition(
        tx,
        run.run_id,
        run.attempt,
        "paused",
        cause=cause,
        actor=actor,
        entries=entries,
        usage=used.usage,
        cost=used.cost,
    )
    if isinstance(moved, Fenced):
        return moved
    pause = pauses.unsettled(tx, run.run_id)
    current = run_notes.hold(tx, run.run_id)
    if current is not None and current.cancel_reason is not None:
        end_waiting(tx, current, "cancelled", "cancelled", current.cancel_reason, actor=actor)
        return Parked(moved, queued=False)
    cause = "parked as it was decided"
    pause_claims.attempt_lost(tx, run.run_id, run.attempt, cause=cause, actor=actor, crashed=False)
    if pause is None:  # its last call was cancelled: the runner hears of that
        begin_again(tx, run.run_id, run.attempt, cause="nothing is waited for any more", actor=actor)
        return Parked(moved, queued=True)
    pauses.set_parked(tx, pause, since)
    pause = go_on(tx, pauses.get(tx, pause.workspace_id, pause.pause_id), actor)
    return Parked(moved, queued=pause.status == "ready")


def begin_after_loss(
    tx: Tx,
    run: Run,
    settlement: Settlement,
    *,
    actor: str,
    used: Used,
    crashed: bool,
    since: int | None = None,
) -> Moved | Parked | Fenced:
    """The attempt was lost and its policy gives the run another one: queue it, or park it again.

    A run that waited for people goes on waiting, without an attempt. A pause that the attempt went on with
    is ready again; after the last try it has failed, and the run with it. `since`: when its host was last
    heard of (UTC epoch milliseconds); None: now.
    """
    held = run_notes.hold(tx, run.run_id) or run
    if held.attempt != run.attempt:  # nothing of a later attempt may change
        return Fenced(held.status, held.attempt)
    if settlement.undone and not _has_own_pause(tx, run):
        settlement = settlement.otherwise or settlement
        if settlement.undone or not settlement.goes_on:
            return _ended(tx, run, settlement.status_code, settlement.why, actor=actor, used=used)
    undone = settlement.undone
    if crashed and not settlement.is_recovery:  # lost before it took the pause, it counts as well
        pause_claims.begin_resuming(tx, run.run_id, run.attempt)
    lost = pause_claims.attempt_lost(
        tx, run.run_id, run.attempt, cause=settlement.why, actor=actor, crashed=crashed, undone=undone
    )
    if lost is not None and lost.pause.status == "failed":
        return _give_up(tx, run, lost.pause, settlement.why, actor=actor, used=used)
    pause = pauses.unsettled(tx, run.run_id)
    if undone and settlement.action == "repeat":
        runs.rebase(tx, run.run_id)
    waits = pause is not None and pause.status in {"open", "needs_review"}
    if pause is not None and waits and settlement.action != "restart" and held.status == "running":
        cause = f"{settlement.why}; it still waits for people"
        told = pause_entries.after_loss(tx, pause)
        parked = park(tx, run, told, actor=actor, used=used, cause=cause, since=since)
        return parked if isinstance(parked, Fenced) else parked.moved
    delays = [settlement.delay_seconds * 1000 + tx.now] if settlement.delay_seconds and crashed else []
    if lost is not None and crashed:
        delays.append(lost.not_before)
    return begin_again(
        tx,
        run.run_id,
        run.attempt,
        cause=settlement.why,
        actor=actor,
        crashed=crashed and settlement.is_recovery,
        restart=settlement.action == "restart",
        not_before=max(delays, default=None),
        usage=used.usage,
        cost=used.cost,
    )


def _has_own_pause(tx: Tx, run: Run) -> bool:
    """Whether the run still goes on from a pause of its runner's own: it has asked people nothing since."""
    pause = pauses.unsettled(tx, run.run_id)
    return pause is not None and pause.form == "explicit"


def _give_up(tx: Tx, run: Run, pause: Pause, why: str, *, actor: str, used: Used) -> Moved | Fenced:
    tries = max(pause.attempts, pause.losses)
    error = f"going on after its pause was tried {tries} times and lost each time; the last time: {why}"
    return _ended(tx, run, "pause.failed", error, actor=actor, used=used)


def _ended(tx: Tx, run: Run, code: RunFailure, error: str, *, actor: str, used: Used) -> Moved | Fenced:
    end_waiting(tx, run, "failed", code, error, actor=actor, crashed=True, used=used)
    current = runs.by_id(tx, run.run_id)
    if current is None or current.status != "failed":
        return Fenced(run.status, run.attempt)
    return Moved(run.status, run.attempt, current.position, current.sequence)
