"""Outcomes of steers: a run absorbs a message, its runner pulls it, or the next run gets it.

A claim is part of the transaction that stores the event, a pull part of the one that journals the call, and
unread messages are settled in the one that ends the run. So each steer ends exactly once.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.domain.agents import Agent
from hostler.domain.events import Event
from hostler.domain.steering import claim_record
from hostler.storage.port import Tx
from hostler.storage.stores import agents, audit, events, run_notes, runs, steering
from hostler.storage.stores import waiting_messages as waiting
from hostler.storage.stores.journal import NewEntry
from hostler.storage.stores.run_rows import Fenced, Run, new_run_after
from hostler.storage.stores.steering import Steer

_encode = msgspec.json.encode
_DELETED = "its content was deleted"


def absorb(tx: Tx, run: Run, event: Event) -> bool:
    """Let `run`, the last of its lane, absorb a stored event; return False if it cannot."""
    claimed = steering.claim(tx, run.workspace_id, run.run_id, event.event_id)
    if claimed is None:
        return False
    record = claim_record(run.run_id, claimed.runner_id, tx.now)
    events.set_steering(tx, run.workspace_id, event.event_id, record)
    entry = _entry("steering.queued", event.event_id, place=claimed.position)
    run_notes.note(tx, run.run_id, [entry])
    return True


def inject(
    tx: Tx, workspace_id: str, run_id: str, attempt: int, *, taken: list[Steer], gone: list[Steer]
) -> bool:
    """Record the messages that an attempt pulled; those in `gone`, whose content was deleted, are dropped.

    Return False, with nothing written, if the attempt was superseded.
    """
    entries = [_entry("steering.injected", one.event_id, place=one.position) for one in taken]
    entries += [_entry("steering.dropped", one.event_id, reason=_DELETED) for one in gone]
    appended = runs.append(tx, run_id, attempt, entries)
    if isinstance(appended, Fenced):
        return False
    sequence = appended.sequence - 1
    steering.mark_injected(tx, taken, attempt=attempt, step=appended.position, sequence=sequence)
    for number, one in enumerate(taken):
        _tell(
            tx,
            one,
            status="injected",
            injected_at=tx.now / 1000,
            attempt=attempt,
            step=appended.position + number,
            sequence=sequence,
        )
    waiting.place(tx, workspace_id, [one.event_id for one in taken])
    waiting.discard(tx, workspace_id, [one.event_id for one in gone])
    _drop(tx, gone, _DELETED)
    return True


def settle(tx: Tx, run_id: str) -> None:
    """Move the unread messages of an ended run to the next run of its lane, or drop them.

    The first becomes the event of that run, which takes the ended one's position in the lane; the others
    become its steers. So all of them come before newer messages.
    """
    run = runs.by_id(tx, run_id)
    if run is None:
        return
    left = steering.queued(tx, run.workspace_id, run_id)
    if not left:
        return
    agent = _agent(tx, run)
    if agent is None or agent.spec.concurrency.leftover == "drop":
        why = "the agent's policy drops what a run has not read" if agent else "its agent is not known"
        entries = [_entry("steering.dropped", one.event_id, reason=why) for one in left]
        _drop(tx, left, why)
        waiting.place(tx, run.workspace_id, [one.event_id for one in left])
        for one in left:
            body = {"run_id": run_id, "reason": why}
            audit.record(tx, run.workspace_id, "host", "steering.dropped", f"event:{one.event_id}", body)
    else:
        next_run = _open_next(tx, run, agent, left)
        entries = [_entry("steering.requeued", one.event_id, next_run_id=next_run) for one in left]
    run_notes.note(tx, run_id, entries, even_ended=True)


def give_back(tx: Tx, run_id: str) -> None:
    """Let the messages that a run pulled be pulled again, since it starts anew."""
    run = runs.by_id(tx, run_id)
    if run is None:
        return
    pulled = steering.give_back(tx, run.workspace_id, run_id)
    if pulled:
        entries = [_entry("steering.queued", one.event_id, place=one.position) for one in pulled]
        run_notes.note(tx, run_id, entries, even_ended=True)
        waiting.take_back(tx, run.workspace_id, [one.event_id for one in pulled])
    for one in pulled:
        record = claim_record(run_id, run.runner_id, one.claimed_at)
        events.set_steering(tx, run.workspace_id, one.event_id, record)


def _open_next(tx: Tx, run: Run, agent: Agent, left: list[Steer]) -> str:
    first, *rest = left
    ws = run.workspace_id
    event = events.find(tx, ws, first.event_id)
    following = new_run_after(
        run,
        agent,
        event_id=first.event_id,
        requester=None if event is None else event.requester,
        lane=run.lane,
        ordinal=run.ordinal,
        follows=run.run_id,
    )
    runs.open(tx, following, None)
    steering.mark_requeued(tx, left, following.run_id)
    steering.inherit(tx, ws, following.run_id, [one.event_id for one in rest])
    _tell(tx, first, status="requeued", next_run_id=following.run_id, requeued_at=tx.now / 1000)
    events.set_outcome(
        tx, ws, first.event_id, "queued", following.run_id, {} if event is None else event.routing
    )
    for one in rest:
        record = claim_record(following.run_id, following.runner_id, tx.now)
        events.set_steering(tx, ws, one.event_id, {**record, "requeued_from_run_id": run.run_id})
        known = events.find(tx, ws, one.event_id)
        routing = {} if known is None else known.routing
        events.set_outcome(tx, ws, one.event_id, "steered", following.run_id, routing)
    return following.run_id


def _agent(tx: Tx, run: Run) -> Agent | None:
    """Return the current agent for the next run, or the run's version if it was deleted or disabled."""
    current = agents.by_id(tx, run.workspace_id, run.agent_id)
    if current is not None and current.spec.enabled:
        return current
    return agents.version(tx, run.workspace_id, run.agent_id, run.agent_version)


def _drop(tx: Tx, left: list[Steer], why: str) -> None:
    steering.mark_dropped(tx, left)
    for one in left:
        _tell(tx, one, status="dropped", dropped_at=tx.now / 1000, reason=why)


def _tell(tx: Tx, steer: Steer, **changes: Any) -> None:
    """Update the steering status that the sender of a message sees."""
    event = events.find(tx, steer.workspace_id, steer.event_id)
    known = {} if event is None or event.steering is None else event.steering
    events.set_steering(tx, steer.workspace_id, steer.event_id, {**known, **changes})


def _entry(type_: str, event_id: str, **more: Any) -> NewEntry:
    return NewEntry("steering", type_, _encode({"source_event_id": event_id, **more}))
