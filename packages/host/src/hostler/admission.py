"""What becomes of an event: one transaction that stores it and opens its run, or lets another run have it.

How the lane stands is read inside, so that an event and the end of a run never miss each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from hostler import gathering, steering
from hostler.domain.agents import Agent, Concurrency
from hostler.domain.bindings import Ambiguous, Binding, Resolution, Unrouted
from hostler.domain.events import Event
from hostler.domain.ingest import InlineContent
from hostler.domain.lanes import MAX_QUEUED_PER_LANE, Admission, LaneState, admit
from hostler.domain.steering import MAX_STEERS_PER_RUN
from hostler.endings import Asked, request_cancel
from hostler.pause_steps import supersede
from hostler.ports import Tx
from hostler.stores import artifacts, events, runs, transcripts, waiting
from hostler.stores.artifacts import NewArtifact
from hostler.stores.blobs import Blob
from hostler.stores.hosts import Membership
from hostler.stores.run_rows import NewRun, Run
from hostler.stores.transcripts import NewTranscriptItem
from hostler_protocol._base import Lenient

INTERRUPTED = "interrupted by a newer message; the messages it had completed are kept"
SUPERSEDED = "superseded by a newer message"


@dataclass(frozen=True, slots=True)
class Opening:
    """What one transaction is to store. `can_steer`: whether a runner, by id, pulls steers."""

    event: Event
    resolution: Resolution
    run: NewRun | None
    agent: Agent | None
    message: NewTranscriptItem | None
    inline: list[tuple[InlineContent, Blob]]
    can_steer: Callable[[str], bool]
    may_wait: bool = True
    """False: as many runs wait as may; where this one would have to, nothing is stored."""


Begins = Literal["now", "later", "not"]


@dataclass(frozen=True, slots=True)
class Opened:
    """What it stored, or found.

    `run` has the event: its own (`begins` now or later), or one that absorbed it or gathers (`not`).
    """

    outcome: events.Outcome
    run: Run | None = None
    begins: Begins = "not"
    duplicate: events.StoredEvent | None = None
    same_body: bool = True
    cancelled: list[Asked] = field(default_factory=list)
    reason: str | None = None
    full: bool = False
    """Nothing was stored: the run would have to wait, and as many wait as may."""


def open_event(tx: Tx, opening: Opening, claim: Membership | None) -> Opened:
    """Store the event, once, and whatever follows from it. `claim`: who starts its run."""
    event, resolution, run, agent = opening.event, opening.resolution, opening.run, opening.agent
    if not opening.may_wait and _would_wait(tx, opening, claim):
        return Opened("rejected", full=True)
    first: events.Outcome = "started"
    if isinstance(resolution, Unrouted):
        first = "unrouted"
    elif isinstance(resolution, Ambiguous):
        first = "conflict"
    routing: dict[str, Any] = (
        resolution.record() if isinstance(resolution, Binding | Unrouted | Ambiguous) else {}
    )
    inserted = events.insert(tx, event, first, None if run is None else run.run_id, routing)
    if isinstance(inserted, events.Duplicate):
        return Opened(inserted.record.outcome, duplicate=inserted.record, same_body=inserted.same_body)
    _store_inline(tx, event, opening.inline)
    if run is None or agent is None:
        return Opened(first)
    opened = _joined(tx, opening, run, agent) or _admitted(tx, opening, run, agent, claim)
    if opened.run is not None and opening.message is not None:
        takes_it = transcripts.append if opened.begins == "now" else waiting.put
        takes_it(tx, event.workspace_id, opening.message)
    if opened.outcome != first or (opened.run is not None and opened.run.run_id != run.run_id):
        reason = {"reason": opened.reason} if opened.reason else {}
        run_id = None if opened.run is None else opened.run.run_id
        events.set_outcome(
            tx, event.workspace_id, event.event_id, opened.outcome, run_id, {**routing, **reason}
        )
    return opened


def _would_wait(tx: Tx, opening: Opening, claim: Membership | None) -> bool:
    """Whether the event is a new one whose run would be queued."""
    event, run, agent = opening.event, opening.run, opening.agent
    if run is None or agent is None or events.find(tx, event.workspace_id, event.event_id) is not None:
        return False
    if run.not_before is not None or gathering.gathers(event, agent.spec.concurrency.debounce):
        return True
    lane = _lane(tx, opening, run)
    begins = claim is not None and (lane.free or lane.parallel)
    return lane.admit(agent.spec.concurrency).open and not begins


def _joined(tx: Tx, opening: Opening, run: NewRun, agent: Agent) -> Opened | None:
    """The event as one more message of a turn that waits for it."""
    debounce = agent.spec.concurrency.debounce
    if not gathering.gathers(opening.event, debounce) or run.not_before is not None:
        return None
    joined = gathering.join(tx, run.lane, opening.event, debounce)
    if joined is None:
        return None
    return Opened("queued", run=runs.get(tx, run.workspace_id, joined.run_id))


def _admitted(tx: Tx, opening: Opening, run: NewRun, agent: Agent, claim: Membership | None) -> Opened:
    event, concurrency = opening.event, agent.spec.concurrency
    lane = _lane(tx, opening, run)
    admission = lane.admit(concurrency)
    if admission.answer == "steered" and lane.steered is not None:
        if steering.absorb(tx, lane.steered, event):
            return Opened("steered", run=runs.get(tx, run.workspace_id, lane.steered.run_id))
        lane = _lane(tx, opening, run, steers=False)  # it ended, or is full, since it was looked at
        admission = lane.admit(concurrency)
    if not admission.open:
        return Opened("rejected", reason=admission.reason)
    if gathering.gathers(event, concurrency.debounce):
        run = gathering.held(run, event, concurrency.debounce, tx.now)
    begun = runs.open(tx, run, claim, lane_is_free=lane.free)
    if run.gathering is not None:
        gathering.begin(tx, run, event)
    sender = event.requester or "host"
    cancelled: list[Asked] = []
    if admission.cancel_run_id is not None:
        cancelled = request_cancel(
            tx, run.workspace_id, admission.cancel_run_id, reason=INTERRUPTED, actor=sender
        )
    if admission.supersede_run_id is not None:
        done = supersede(tx, admission.supersede_run_id, cause=SUPERSEDED, actor=sender)
        cancelled = [] if done is None else list(done.asked)
    held_back = run.not_before is not None and run.not_before > tx.now
    return Opened(
        "queued" if held_back else admission.answer,
        run=begun,
        begins="now" if begun.status == "claimed" else "later",
        cancelled=cancelled,
    )


@dataclass(frozen=True, slots=True)
class _Lane:
    """A lane as the event finds it: who holds it, which run could absorb the event."""

    parallel: bool
    free: bool = False
    """Nobody holds it, and nobody waits in it that could begin."""
    holder: Run | None = None
    waiting: int = 0
    steered: Run | None = None

    def admit(self, concurrency: Concurrency) -> Admission:
        """What becomes of the event."""
        if self.parallel:
            return admit(LaneState(), "parallel")
        state = LaneState(
            active_run_id=None if self.holder is None else self.holder.run_id,
            waiting=self.waiting,
            paused=self.holder is not None and self.holder.status == "paused",
            can_steer=self.steered is not None,
        )
        return admit(state, concurrency.on_busy, concurrency.on_pause)


def _lane(tx: Tx, opening: Opening, run: NewRun, *, steers: bool = True) -> _Lane:
    if run.parallel:
        return _Lane(parallel=True)
    if runs.lane_is_free(tx, run.lane):
        return _Lane(parallel=False, free=True)
    holder = runs.active_in_lane(tx, run.workspace_id, run.lane)
    waiting = runs.count_waiting(tx, run.lane, MAX_QUEUED_PER_LANE)
    last = holder if not waiting else None
    if holder is None and waiting == 1:
        first = runs.first_waiting(tx, run.workspace_id, run.lane)
        last = first if first is not None and (first.follows is not None or first.attempt > 1) else None
    steered = last if steers and last is not None and _takes(opening, run, last) else None
    return _Lane(parallel=False, holder=holder, waiting=waiting, steered=steered)


class _Calls(Lenient):
    """Of a stored grant: which calls it opens."""

    calls: list[str] = []


def _takes(opening: Opening, run: NewRun, holder: Run) -> bool:
    """Whether a run can take this event in."""
    if opening.event.envelope.event_type != "message.received" or run.not_before is not None:
        return False
    if holder.cancel_reason is not None or holder.steers >= MAX_STEERS_PER_RUN:
        return False
    if holder.grant_json is None:  # its plugin has not taken it yet
        return opening.can_steer(holder.runner_id)
    return "steering.pull" in msgspec.json.decode(holder.grant_json, type=_Calls).calls


def _store_inline(tx: Tx, event: Event, inline: list[tuple[InlineContent, Blob]]) -> None:
    for content, blob in inline:
        artifacts.create(
            tx,
            event.workspace_id,
            NewArtifact(
                artifact_id=content.artifact_id,
                artifact_type="image" if content.kind == "image_base64" else "file",
                blob=blob,
                source="event",
                mime_type=content.mime_type,
                name=content.name,
                bot_id=event.envelope.bot_id,
                conversation_id=event.envelope.conversation_id,
                thread_id=event.envelope.thread_id,
                event_id=event.event_id,
                metadata={"element": content.kind},
            ),
        )
