"""Admit an event: one transaction that stores it and opens a run, or gives it to another run.

It reads the state of the lane, so that an event and the end of a run never miss each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from hostler.domain.agents import Agent, Concurrency
from hostler.domain.bindings import Ambiguous, Binding, Resolution, Undecided, Unrouted
from hostler.domain.caller_tools import among
from hostler.domain.deferral import MAX_DEFERRED
from hostler.domain.events import Event
from hostler.domain.ingest import InlineContent
from hostler.domain.lanes import MAX_QUEUED_PER_LANE, Admission, LaneState, admit
from hostler.domain.place import Place
from hostler.domain.quotas import UNBOUNDED, Allotment, Amounts, Quotas
from hostler.domain.record import Record
from hostler.domain.steering import MAX_STEERS_PER_RUN
from hostler.pauses.transitions import supersede
from hostler.runs import debounce
from hostler.runs.snapshot import FactsAhead
from hostler.runs.turn_tools import tools_ahead
from hostler.storage.port import Tx
from hostler.storage.stores import (
    agents,
    artifacts,
    conversations,
    deferred,
    events,
    quotas,
    run_lanes,
    runs,
    steering_outcomes,
    transcripts,
)
from hostler.storage.stores import waiting_messages as waiting
from hostler.storage.stores.artifacts import NewArtifact
from hostler.storage.stores.blobs import Blob
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.run_endings import RequestedEnd, request_cancel
from hostler.storage.stores.run_rows import NewRun, Run
from hostler.storage.stores.transcripts import NewTranscriptItem
from hostler_protocol._base import Lenient
from hostler_protocol.errors import ConflictError, HostlerError, UnavailableError
from hostler_protocol.events import CallerTool

INTERRUPTED = "interrupted by a newer message; the messages it had completed are kept"
SUPERSEDED = "superseded by a newer message"


class Opening(msgspec.Struct, frozen=True):
    """The input of the transaction. `can_steer` returns whether a runner, by id, pulls steered messages."""

    event: Event
    resolution: Resolution
    run: NewRun | None
    inline: list[tuple[InlineContent, Blob]]
    can_steer: Callable[[str], bool]
    not_before: int | None = None
    """When its run may begin, in UTC epoch milliseconds."""
    message: NewTranscriptItem | None = None
    history: Sequence[NewTranscriptItem] = ()
    """The messages that its sender kept, which go before it."""
    full: HostlerError | None = None
    """The error if the queue is full: an event whose run would have to wait is then not stored."""
    bounds: Quotas = UNBOUNDED
    """How much its workspace may keep stored."""

    @property
    def files(self) -> Amounts:
        """What the inline content counts."""
        return Amounts(len(self.inline), sum(blob.size_bytes for _, blob in self.inline))

    @property
    def agent(self) -> Agent | None:
        """The agent that receives the event."""
        return self.resolution.agent if isinstance(self.resolution, Binding) else None


Begins = Literal["now", "later", "not"]


class Opened(msgspec.Struct, frozen=True):
    """The result of the transaction.

    `run` has the event: its own (`begins` is now or later), or one that absorbed or debounces it (`not`).
    """

    outcome: events.Outcome
    run: Run | None = None
    begins: Begins = "not"
    duplicate: events.StoredEvent | None = None
    same_body: bool = True
    cancelled: list[RequestedEnd] = []
    reason: str | None = None
    refused: HostlerError | None = None
    """Why nothing was stored."""
    ahead: FactsAhead | None = None
    """The facts of the run's first attempt, if it begins now."""


def gathers(event: Event, agent: Agent) -> bool:
    """Whether the event waits for more messages of its author, which become one turn with it."""
    return agent.spec.concurrency.debounce > 0 and event.envelope.event_type == "message.received"


def open_event(tx: Tx, opening: Opening, claim: Membership | None) -> Opened:
    """Store an event, once, and open its run or give it to another. `claim`: the host that starts the run."""
    opening = _delayed(tx, opening)
    event, run = opening.event, opening.run
    refused = _refused(tx, opening, claim)
    if refused is not None:
        return Opened("rejected", refused=refused)
    first = _first_outcome(opening.resolution)
    routing = _routing(opening.resolution)
    run_id, agent_name = (None, None) if run is None else (run.run_id, run.agent_name)
    inserted = events.insert(tx, event, first, run_id, routing, agent_name=agent_name)
    if isinstance(inserted, events.Duplicate):
        return Opened(inserted.record.outcome, duplicate=inserted.record, same_body=inserted.same_body)
    _store_inline(tx, event, opening)
    opened = _routed(tx, opening, claim, first)
    if opening.message is not None and (opened.run is not None or opened.outcome == "deferred"):
        if opened.begins == "now":
            for item in (*opening.history, opening.message):
                transcripts.append(tx, event.workspace_id, item)
        else:
            waiting.put(tx, event.workspace_id, opening.message, opening.history)
    own = None if run is None else run.run_id
    if opened.outcome != first or (opened.run is not None and opened.run.run_id != own):
        _note(tx, opening, opened, routing)
    return opened


def open_deferred(tx: Tx, opening: Opening, claim: Membership | None) -> Opened:
    """Open the run of an event that was stored before its agent was known; only the first caller does."""
    event = opening.event
    ws, event_id = event.workspace_id, event.event_id
    if not events.take_unsettled(tx, ws, event_id):
        known = events.find(tx, ws, event_id)
        return Opened("rejected") if known is None else Opened(known.outcome, duplicate=known)
    refused = _refused(tx, opening, claim)
    if refused is not None:
        return Opened("rejected", refused=refused)
    opened = _routed(tx, opening, claim, _first_outcome(opening.resolution))
    if opened.outcome != "deferred":
        deferred.remove(tx, ws, event_id)
    if opened.run is None and opened.outcome != "deferred":
        waiting.discard(tx, ws, [event_id])
    elif opening.message is not None:  # stored as waiting already, unless the event had failed
        message = msgspec.structs.replace(opening.message, created_at=event.created_at)
        waiting.put(tx, ws, message, opening.history)
        if opened.begins == "now":
            waiting.place(tx, ws, [event_id])
    _note(tx, opening, opened, _routing(opening.resolution))
    return opened


def fail_deferred(tx: Tx, workspace_id: str, event_id: str, routing: dict[str, Any]) -> bool:
    """Fail an event that cannot be routed, and say why in its record. False: another host has routed it."""
    deferred.remove(tx, workspace_id, event_id)
    if not events.take_unsettled(tx, workspace_id, event_id):
        return False
    waiting.discard(tx, workspace_id, [event_id])
    events.set_outcome(tx, workspace_id, event_id, "failed", None, routing)
    return True


def _delayed(tx: Tx, opening: Opening) -> Opening:
    """Count the delay of a new event by the clock of the database: those of hosts may differ from it."""
    if opening.not_before is None:
        return opening
    at = opening.not_before - opening.event.created_at + tx.now
    run = None if opening.run is None else msgspec.structs.replace(opening.run, not_before=at)
    return msgspec.structs.replace(opening, not_before=at, run=run)


def _first_outcome(resolution: Resolution) -> events.Outcome:
    match resolution:
        case Unrouted():
            return "unrouted"
        case Ambiguous():
            return "conflict"
        case Undecided():
            return "deferred"
    return "started"


def _routing(resolution: Resolution) -> dict[str, Any]:
    return resolution.record() if isinstance(resolution, Binding | Unrouted | Ambiguous | Undecided) else {}


def _refused(tx: Tx, opening: Opening, claim: Membership | None) -> HostlerError | None:
    """Return why the event cannot be accepted now, or None."""
    if opening.full is not None and _would_wait(tx, opening, claim):
        return opening.full
    ws = opening.event.workspace_id
    if opening.history and _is_late(tx, opening.event):
        return ConflictError(
            f"history: conversation {opening.event.envelope.conversation_id!r} has begun already; give a new "
            "conversation_id, or send the new message alone"
        )
    if isinstance(opening.resolution, Undecided) and deferred.count(tx, MAX_DEFERRED, ws) >= MAX_DEFERRED:
        return UnavailableError("too many events wait for their filters; send it again shortly")
    if opening.inline:
        exceeded = quotas.check(tx, ws, Allotment(bounds=opening.bounds), opening.files)
        if exceeded is not None and events.find(tx, ws, opening.event.event_id) is None:
            return exceeded.error
    return None


def _is_late(tx: Tx, event: Event) -> bool:
    """Whether a new event is not the first of its conversation."""
    ws, place = event.workspace_id, event.envelope.conversation_id
    is_new = events.find(tx, ws, event.event_id) is None
    return is_new and place is not None and conversations.begun(tx, ws, place)


def _routed(tx: Tx, opening: Opening, claim: Membership | None, first: events.Outcome) -> Opened:
    """Open the run of a stored event, or give the event to another run."""
    event, run, agent = opening.event, opening.run, opening.agent
    if first == "deferred":
        deferred.add(tx, event.workspace_id, event.event_id, opening.not_before)
    if run is None or agent is None:
        return Opened(first)
    return _joined(tx, opening, run, agent) or _admitted(tx, opening, run, agent, claim)


def _note(tx: Tx, opening: Opening, opened: Opened, routing: dict[str, Any]) -> None:
    event = opening.event
    reason = {"reason": opened.reason} if opened.reason else {}
    run_id = None if opened.run is None else opened.run.run_id
    events.set_outcome(tx, event.workspace_id, event.event_id, opened.outcome, run_id, {**routing, **reason})


def _would_wait(tx: Tx, opening: Opening, claim: Membership | None) -> bool:
    """Whether the event is a new one whose run would be queued."""
    event, run, agent = opening.event, opening.run, opening.agent
    if run is None or agent is None:
        return False
    known = events.find(tx, event.workspace_id, event.event_id)
    if known is not None and known.outcome not in events.UNSETTLED:
        return False
    if run.not_before is not None or gathers(event, agent):
        return True
    lane = _lane(tx, opening, run)
    begins = claim is not None and (lane.free or lane.parallel)
    return lane.admit(agent.spec.concurrency).open and not begins


def _joined(tx: Tx, opening: Opening, run: NewRun, agent: Agent) -> Opened | None:
    """Add the event to a debounced turn; return None if there is none."""
    if run.not_before is not None or not gathers(opening.event, agent):
        return None
    joined = debounce.join(tx, run.lane, opening.event, agent.spec.concurrency.debounce)
    if joined is None:
        return None
    return Opened("queued", run=runs.get(tx, run.workspace_id, joined.run_id))


def _admitted(tx: Tx, opening: Opening, run: NewRun, agent: Agent, claim: Membership | None) -> Opened:
    event, concurrency = opening.event, agent.spec.concurrency
    lane = _lane(tx, opening, run)
    admission = lane.admit(concurrency)
    if admission.answer == "steered" and lane.steered is not None:
        if steering_outcomes.absorb(tx, lane.steered, event):
            return Opened("steered", run=runs.get(tx, run.workspace_id, lane.steered.run_id))
        lane = _lane(tx, opening, run, steers=False)  # it has ended, or is full, since it was read
        admission = lane.admit(concurrency)
    if not admission.open:
        return Opened("rejected", reason=admission.reason)
    if run.not_before is None and gathers(event, agent):
        run = debounce.held(run, event, concurrency.debounce, tx.now)
    begun = runs.open(tx, run, claim, lane_is_free=lane.free)
    if run.gathering is not None:
        debounce.begin(tx, run, event)
    sender = event.requester or "host"
    cancelled: list[RequestedEnd] = []
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


class _Lane(Record):
    """The state of a lane: the run that holds it, and the run that could absorb the event."""

    parallel: bool
    free: bool = False
    """No run holds it, and none waits in it that could begin."""
    holder: Run | None = None
    waiting: int = 0
    steered: Run | None = None

    def admit(self, concurrency: Concurrency) -> Admission:
        """Decide what becomes of the event."""
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
    if run_lanes.lane_is_free(tx, run.lane):
        return _Lane(parallel=False, free=True)
    holder = run_lanes.active_in_lane(tx, run.workspace_id, run.lane)
    waiting = run_lanes.count_waiting(tx, run.lane, MAX_QUEUED_PER_LANE)
    last = holder if not waiting else None
    if holder is None and waiting == 1:
        first = run_lanes.first_waiting(tx, run.workspace_id, run.lane)
        last = first if first is not None and (first.follows is not None or first.attempt > 1) else None
    steered = last if steers and last is not None and _takes(tx, opening, run, last) else None
    return _Lane(parallel=False, holder=holder, waiting=waiting, steered=steered)


class _Granted(Lenient):
    """The calls of a stored grant, and the tools of the caller in it."""

    calls: list[str] = []
    caller_tools: dict[str, CallerTool] = {}


def _takes(tx: Tx, opening: Opening, run: NewRun, holder: Run) -> bool:
    """Whether a run can absorb this event."""
    if opening.event.envelope.event_type != "message.received" or run.not_before is not None:
        return False
    if holder.cancel_reason is not None or holder.steers >= MAX_STEERS_PER_RUN:
        return False
    if _acts_for_some(tx, opening, holder) and not _is_of_its_author(tx, opening.event, holder):
        return False
    tools = opening.event.envelope.input.tools
    if holder.grant_json is None:  # its runner has not started yet
        return opening.can_steer(holder.runner_id) and (not tools or among(tools, tools_ahead(tx, holder)))
    granted = msgspec.json.decode(holder.grant_json, type=_Granted)
    return "steering.pull" in granted.calls and among(tools, granted.caller_tools)


def _acts_for_some(tx: Tx, opening: Opening, holder: Run) -> bool:
    """Whether who caused the events of an agent bounds its actions: a run's grant knows of one of them."""
    version = agents.version(tx, holder.workspace_id, holder.agent_id, holder.agent_version)
    return any(one is not None and one.spec.resource_policy.action_actors for one in (opening.agent, version))


def _is_of_its_author(tx: Tx, event: Event, run: Run) -> bool:
    """Whether an event has the author of the event that opened a run."""
    first = None if run.event_id is None else events.find(tx, run.workspace_id, run.event_id)
    opened = None if first is None else first.event()
    return opened is not None and debounce.author_of(opened) == debounce.author_of(event)


def _store_inline(tx: Tx, event: Event, opening: Opening) -> None:
    for content, blob in opening.inline:
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
                place=Place.of(event.envelope),
                event_id=event.event_id,
                metadata={"element": content.kind},
            ),
            opening.bounds,
        )
