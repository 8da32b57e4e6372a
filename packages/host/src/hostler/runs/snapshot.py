"""Read everything stored about an attempt in one snapshot, and derive its grant."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from hostler.calls.history import history_spans
from hostler.calls.spending import WaitingBefore
from hostler.domain.accounts import person_of
from hostler.domain.action_actors import Causer
from hostler.domain.agents import Agent
from hostler.domain.budgets import Account, accounts_of, merge_accounts
from hostler.domain.child_runs import ParentBounds
from hostler.domain.config_form import Configuration, configure
from hostler.domain.events import Event
from hostler.domain.granted_resources import ResourceCatalog
from hostler.domain.grants import Grant, decode_grant, grant_for
from hostler.domain.message_ids import MAX_MESSAGES_PER_RUN
from hostler.domain.outcomes import Uploaded
from hostler.domain.scopes import scopes_for
from hostler.domain.top_ups import asked_in
from hostler.journal.effects import had_effects
from hostler.journal.resume import RecordingReader, last_worked_at
from hostler.pauses.explicit import OwnPause, own_pause
from hostler.runs.charged_accounts import own_accounts, runs_above, spender_of
from hostler.runs.debounce import whole
from hostler.runs.turn_tools import with_tools_of_steers
from hostler.storage.port import Look, Tx
from hostler.storage.stores import (
    agents,
    artifacts,
    channel_people,
    events,
    journal,
    pause_calls,
    pauses,
    person_accounts,
    runs,
    transcripts,
)
from hostler.storage.stores import run_sources as sources
from hostler.storage.stores import state_values as states
from hostler.storage.stores.events import StoredEvent
from hostler.storage.stores.run_rows import Run
from hostler.storage.stores.run_sources import Source
from hostler_protocol._base import Lenient
from hostler_protocol.errors import HostError
from hostler_protocol.manifest import AgentRunnerManifest


class Origin(msgspec.Struct, frozen=True):
    """Event and agent of a run, and the position of its own message."""

    event: StoredEvent
    agent: Agent
    own_seq: int | None
    """The transcript sequence of the event's own item."""
    complete_ids: frozenset[str]
    uploads: dict[str, Uploaded]
    outer_deadline: int | None
    """The parent's deadline in UTC epoch milliseconds; the run may not outlast it."""
    source: Source | None
    """The run that it is a retry or a fork of."""
    above: tuple[Account, ...] = ()
    """The accounts of its parent runs."""

    def accounts_with(self, run: Run, grant: Grant) -> tuple[Account, ...]:
        """Return the accounts that calls are charged to: its own and those of its parent runs."""
        return merge_accounts([*accounts_of(spender_of(run), grant.budget), *self.above])


class ContextFacts(msgspec.Struct, frozen=True):
    """The parts of the run context that come from history and state."""

    history_before: int
    latest: int
    state: states.Snapshot


class Past(msgspec.Struct, frozen=True):
    """The state left by earlier attempts."""

    cause: str = ""
    """Why there is another attempt; empty for the first."""
    loaded: RecordingReader | None = None
    """The first page of the recording that it resumes from; None if it starts from nothing."""
    own_pause: OwnPause | None = None
    last_worked_at: int | None = None
    """When an attempt last worked on the run (UTC epoch milliseconds), if it resumes from `own_pause`."""
    had_effects: bool = False
    """Whether an attempt since the runner's own pause had an effect."""
    waiting: WaitingBefore = WaitingBefore()
    """The calls that wait in the run's pause."""


class AttemptFacts(NamedTuple):
    """The stored facts of an attempt, and the values derived from them."""

    origin: Origin
    event: Event
    configuration: Configuration
    grant: Grant
    context: ContextFacts
    past: Past


class Offer(NamedTuple):
    """What a runner asks for and what the workspace has, from which a first attempt gets its grant."""

    manifest: AgentRunnerManifest
    catalog: ResourceCatalog


class FactsAhead(NamedTuple):
    """The facts of a first attempt, read in the transaction that claims its run."""

    manifest: AgentRunnerManifest
    """The runner's form and permissions that they were read for."""
    facts: Look[AttemptFacts]


def look_ahead(tx: Tx, run: Run, offer: Offer, agent: Agent) -> FactsAhead:
    """Have the facts of a first attempt read once the transaction is written. `agent`: the run's version."""
    return FactsAhead(offer.manifest, tx.look(lambda tx: read_facts(tx, run, *offer, agent)))


def read_facts(
    tx: Tx,
    run: Run,
    manifest: AgentRunnerManifest,
    catalog: ResourceCatalog,
    agent: Agent | None = None,
) -> AttemptFacts:
    """Read the facts of an attempt in one snapshot. `agent`: the run's version of it, if that is known."""
    agent = agent or agents.version(tx, run.workspace_id, run.agent_id, run.agent_version)
    if agent is None:
        raise HostError(f"version {run.agent_version} of agent {run.agent_name!r} is not stored")
    origin = _origin(tx, run, agent)
    event = _event_of(origin.event)
    changed = {} if origin.source is None else origin.source.config or {}
    configuration = configure(manifest.config_schema, {**origin.agent.spec.config, **changed})
    grant = (
        _grant(
            tx,
            origin.agent,
            event,
            _Offered(manifest, configuration, catalog),
            _bounds_above(tx, run, origin.source),
        )
        if run.grant_json is None
        else decode_grant(run.grant_json)
    )
    known = _context_facts(tx, run, grant, origin)
    past = Past() if run.attempt == 1 else _past(tx, run)
    return AttemptFacts(origin, event, configuration, grant, known, past)


def _past(tx: Tx, run: Run) -> Past:
    loaded = None
    goes_on = run.base_attempt < run.attempt
    if goes_on:
        loaded = RecordingReader(run.run_id, run.base_attempt)
        loaded.read_page(tx)
    own = own_pause(tx, run)
    return Past(
        cause=journal.queued_because(tx, run.run_id) or "",
        loaded=loaded,
        own_pause=own,
        last_worked_at=None if own is None else last_worked_at(tx, run.run_id, run.position + 1),
        had_effects=own is not None and goes_on and had_effects(tx, run.run_id, run.base_attempt),
        waiting=_waiting(tx, run),
    )


def _waiting(tx: Tx, run: Run) -> WaitingBefore:
    """Return the calls in the unsettled pause of a run that were not answered to its runner yet."""
    pause = pauses.unsettled(tx, run.run_id)
    if pause is None:
        return WaitingBefore()
    calls = [call for call in pause_calls.of_pause(tx, pause) if not call.handed_over]
    asked = [asked_in(call) for call in calls if call.kind == "budget"]
    return WaitingBefore(
        for_budgets={one.call["id"]: one for one in asked},
        counted=frozenset(call.call_id for call in calls if call.kind != "budget"),
    )


class _Offered(NamedTuple):
    """What the runner asks for, what the agent's configuration chooses, and what the workspace has."""

    manifest: AgentRunnerManifest
    configuration: Configuration
    catalog: ResourceCatalog


def _causer(tx: Tx, agent: Agent, event: Event) -> Causer | None:
    """Return who caused the event, if the agent's actions depend on it."""
    return channel_people.causer_in(tx, event) if agent.spec.resource_policy.action_actors else None


def _grant(tx: Tx, agent: Agent, event: Event, offered: _Offered, above: ParentBounds | None) -> Grant:
    """Build the grant; it is frozen with the first attempt."""
    across = person_accounts.across_in(tx, agent, event, above)
    scopes = scopes_for(
        workspace_id=event.workspace_id,
        runner_id=agent.spec.runner,
        agent_id=agent.agent_id,
        envelope=event.envelope,
        person=person_of(across),
    )
    return grant_for(
        manifest=offered.manifest,
        agent=agent,
        event=event,
        configuration=offered.configuration,
        catalog=offered.catalog,
        state_keys=scopes.keys,
        state_closed=scopes.missing,
        above=above,
        causer=_causer(tx, agent, event),
        across=across,
    )


def _bounds_above(tx: Tx, run: Run, source: Source | None) -> ParentBounds | None:
    """Return the bounds from the runs above; None if no run created it, or what it is a retry or fork of.

    A retried or forked child run keeps its bounds: its input is still what a runner wrote.
    """
    while run.parent_run_id is None:
        if source is None:
            return None
        made_from = runs.find(tx, run.workspace_id, source.source_run_id)
        if made_from is None:  # deleted meanwhile
            return ParentBounds()
        run, source = made_from, sources.find(tx, run.workspace_id, made_from.run_id)
    parent = runs.find(tx, run.workspace_id, run.parent_run_id)
    if parent is None or parent.grant_json is None:  # deleted meanwhile
        return ParentBounds()
    return decode_grant(parent.grant_json).bounds_below


def _origin(tx: Tx, run: Run, agent: Agent) -> Origin:
    event = None if run.event_id is None else events.find(tx, run.workspace_id, run.event_id)
    if event is None or event.envelope is None:
        raise HostError("the event of this run was deleted")
    event, first_id = whole(tx, run, event)
    event = with_tools_of_steers(tx, run, event)
    source = sources.find(tx, run.workspace_id, run.run_id)
    event = _edited(event, source)
    own = transcripts.of_event(tx, run.workspace_id, first_id)
    above = runs_above(tx, run)
    accounts = tuple(account for one in above for account in own_accounts(one))
    if run.attempt == 1:
        return Origin(event, agent, own, frozenset(), {}, run.deadline_at, source, accounts)
    said = transcripts.of_run(tx, run.workspace_id, run.run_id, MAX_MESSAGES_PER_RUN)
    ids = frozenset(message.message_id for message in said if message.message_id is not None)
    uploads = {
        made.artifact_id: Uploaded(made.size_bytes, made.sha256, made.mime_type, made.name)
        for made in artifacts.uploaded_by(tx, run.workspace_id, run.run_id)
    }
    outer_deadline = above[0].deadline_at if above else None
    return Origin(event, agent, own, ids, uploads, outer_deadline, source, accounts)


def _edited(event: StoredEvent, source: Source | None) -> StoredEvent:
    """Return the event with the input that a fork has instead of the original one.

    It keeps the tools of the original one if it brings none.
    """
    if source is None or source.input is None or event.envelope is None:
        return event
    tools = source.input.tools or event.envelope.input.tools
    edited = msgspec.structs.replace(source.input, tools=tools)
    return msgspec.structs.replace(event, envelope=msgspec.structs.replace(event.envelope, input=edited))


class _Access(Lenient):
    transcript_seq: int | None = None


class _RecordedContext(Lenient):
    """The end of the history in a recorded context."""

    context: _Access


def _history_end(tx: Tx, run: Run, origin: Origin) -> int:
    """Return the sequence that the run's history ends before; it is the same for each attempt.

    It is that of the run's own message. Other events have no transcript item: for them it is the end of the
    transcript when the first attempt began.
    """
    if origin.own_seq is not None:
        return origin.own_seq
    recorded = journal.first_context(tx, run.run_id) if run.attempt > 1 else None
    if recorded is not None:
        return (msgspec.json.decode(recorded, type=_RecordedContext).context.transcript_seq or 0) + 1
    return transcripts.latest_seq(tx, run.workspace_id) + 1


def _context_facts(tx: Tx, run: Run, grant: Grant, origin: Origin) -> ContextFacts:
    before = _history_end(tx, run, origin)
    # an event without a conversation has no history: not that of all such events
    latest = (
        0
        if grant.conversation_id is None
        else transcripts.latest_across(tx, run.workspace_id, history_spans(grant), before_seq=before)
    )
    snapshot = states.snapshot(tx, run.workspace_id, grant.state_keys, conversation_id=grant.conversation_id)
    return ContextFacts(before, latest, snapshot)


def _event_of(stored: StoredEvent) -> Event:
    event = stored.event()
    if event is None:
        raise HostError("the event of this run was deleted")
    return event
