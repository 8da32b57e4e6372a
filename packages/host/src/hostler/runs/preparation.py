"""Prepare an attempt: its grant, configuration, context and position in the logs."""

from __future__ import annotations

import asyncio
import base64
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from hostler.calls.cursors import Cursors
from hostler.calls.history import history_cursors
from hostler.calls.scope import CallScope, Meter, Services
from hostler.calls.spending import WaitingBefore
from hostler.domain.accounts import AcrossAccounts
from hostler.domain.agents import Recovery
from hostler.domain.allowances import Allowance, Allowances
from hostler.domain.budgets import Account
from hostler.domain.config_form import Configuration
from hostler.domain.context import Position, build_context
from hostler.domain.events import Event
from hostler.domain.granted_resources import ResourceCatalog
from hostler.domain.grants import Grant, apis_of, resources_of
from hostler.domain.outcomes import StreamState, Uploaded
from hostler.domain.pauses import OnMessage
from hostler.domain.recording import Recording
from hostler.domain.secret_refs import shown_reference, stored_name
from hostler.domain.stored_secrets import reference_to
from hostler.domain.trials import is_trial_agent
from hostler.journal.fork import Inherited, forked_context, inherited_of
from hostler.journal.resume import resumed_context
from hostler.pauses.explicit import ExplicitPauses
from hostler.runs.snapshot import AttemptFacts, ContextFacts, FactsAhead, read_facts
from hostler.secrets.known_values import remember
from hostler.secrets.resolver import resolve_secret
from hostler.storage.stores import artifacts, readers
from hostler.storage.stores import state_values as states
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.journal import NewEntry
from hostler.storage.stores.run_rows import Run
from hostler.tools.caller_tools import tools_of_run
from hostler_protocol.content import (
    ArtifactElement,
    ContentElement,
    FileBase64Element,
    ImageBase64Element,
    ModelMessage,
)
from hostler_protocol.errors import InvalidArgumentError, NotFoundError, UnauthorizedError
from hostler_protocol.events import AgentRunContext, Input
from hostler_protocol.ids import split_runner_id
from hostler_protocol.limits import INLINE_BASE64_TO_ARTIFACT_BYTES
from hostler_protocol.manifest import AgentRunnerManifest

log = logging.getLogger(__name__)
MIN_DEADLINE_LEFT_MS = 1_000
"""The least time of a resumed attempt, even if its deadline was nearly over: enough to report."""


StoredSecretsFor = Callable[[str, Sequence[str], str], Awaitable[Mapping[str, str]]]
"""Return the values of stored secrets of a workspace, by name, for the run of this id."""


async def no_stored_secrets(workspace_id: str, names: Sequence[str], run_id: str) -> Mapping[str, str]:
    """Raise InvalidArgumentError: there is no store."""
    raise InvalidArgumentError(f"{reference_to(names[0])}: there is no store of secrets")


WrittenSecretsFor = Callable[[str, str, Mapping[str, str]], Awaitable[Mapping[str, str]]]
"""Return the secrets that are sealed in the configuration of an agent, given by field."""


async def no_written_secrets(workspace_id: str, agent: str, sealed: Mapping[str, str]) -> Mapping[str, str]:
    """Raise InvalidArgumentError: there is nothing that opens them."""
    raise InvalidArgumentError(f"config.{min(sealed)}: nothing here opens a secret that is stored encrypted")


class PreparedAttempt(msgspec.Struct, frozen=True):
    """One attempt, ready to be started."""

    manifest: AgentRunnerManifest
    grant: Grant
    context: AgentRunContext
    context_entry: NewEntry | None
    event: Event
    services: Services
    history_before: int
    event_seq: int
    stream_state: StreamState
    uploads: dict[str, Uploaded]
    """Artifacts uploaded by earlier attempts."""
    deadline_at: float | None
    accounts: tuple[Account, ...]
    """The accounts that the attempt's calls are charged to, but for those of the workspace."""
    waiting: WaitingBefore
    """The calls that wait in the run's pause."""
    prompt: tuple[ModelMessage, ...]
    notes: tuple[str, ...]
    cause: str
    """Why there is another attempt; empty for the first."""
    recovery: Recovery
    on_message: OnMessage
    """How a message is treated that arrives while the run waits for people."""
    is_undone: bool = False
    """Whether it goes on from the runner's own pause, from which nothing has been done yet."""
    recording: Recording | None = None
    """The recording that the attempt resumes from; None: it starts from nothing."""
    inherited: Inherited | None = None
    """The recording that a fork inherits from its source."""

    def scope(self, meter: Meter, uploads: dict[str, Uploaded]) -> CallScope:
        """Return the scope of the attempt's calls."""
        return CallScope(
            run_id=self.context.run_id,
            attempt=self.context.attempt,
            grant=self.grant,
            event=self.event,
            services=replace(self.services, tools=tools_of_run(self.services.tools, self.grant)),
            meter=meter,
            history_before=self.history_before,
            event_seq=self.event_seq,
            deadline_at=self.deadline_at,
            prompt=self.prompt,
            uploads=uploads,
            effects=self.inherited is None or self.inherited.source.effects,
        )


@dataclass(slots=True)
class Preparer:
    """Prepares attempts. `catalog` returns the current resources of a workspace."""

    services: Services
    blobs: BlobFolder
    catalog: Callable[[str], ResourceCatalog]
    allowances: Allowances
    host_version: str
    explicit_pauses: ExplicitPauses
    stored_secrets: StoredSecretsFor = no_stored_secrets
    written_secrets: WrittenSecretsFor = no_written_secrets

    async def prepare(
        self, run: Run, runners: Mapping[str, AgentRunnerManifest], ahead: FactsAhead | None = None
    ) -> PreparedAttempt:
        """Build grant and context; `runners` are those of the plugin, by name.

        `ahead`: the facts that were read with the claim. CallerError if configuration or runner are wrong;
        HostError if the run's event is gone.
        """
        manifest = _manifest(run, runners)
        may = self.allowances.of(run.workspace_id)
        if not may.runner(run.runner_id) and not is_trial_agent(run.agent_id):
            raise UnauthorizedError(may.refused("runner", run.runner_id))
        facts = None if ahead is None or ahead.manifest is not manifest else ahead.facts.value
        if facts is None:
            facts = await self._facts(run, manifest)
        if run.grant_json is None:
            facts = await self._noted(run, manifest, facts)
        origin, event, configuration, grant, known, past = facts
        config = await self._with_secrets(run, origin.agent.name, configuration, may)
        inherited = await inherited_of(self.services.db, self.blobs, origin.source)
        recording, recorded = None, None
        if past.loaded is not None:
            await past.loaded.read_rest(self.services.db)
            recorded = past.loaded.context
        if past.loaded is not None and recorded is not None:
            recording = past.loaded.recording
            deadline_at = _deadline_left(run, recording.last_at, origin.outer_deadline)
            context = resumed_context(recorded, run.attempt, config, deadline_at)
        else:
            deadline_at = _deadline(origin.outer_deadline, grant)
            if past.own_pause is not None and run.deadline_at is not None:
                deadline_at = _deadline_left(run, past.last_worked_at, origin.outer_deadline)
            context = await self._context(run, facts, config, deadline_at)
            context = context if inherited is None else forked_context(context, inherited)
        if past.own_pause is not None:
            continuation = await self.explicit_pauses.continuation(past.own_pause)
            context = msgspec.structs.replace(context, continuation=continuation)
        complete_ids = set(origin.complete_ids)
        if recording is not None:
            complete_ids -= recording.message_ids
        return PreparedAttempt(
            manifest=manifest,
            grant=grant,
            context=context,
            context_entry=None if recording is not None else _context_entry(context, configuration),
            event=event,
            services=self.services,
            history_before=known.history_before,
            event_seq=origin.event.seq,
            stream_state=StreamState(
                sequence=run.sequence,
                kept_sequence=run.kept_sequence,
                produced=bool(complete_ids) if recording is not None else run.kept_sequence > 0,
                complete_ids=complete_ids,
            ),
            uploads=origin.uploads,
            deadline_at=deadline_at,
            accounts=origin.accounts_with(run, grant),
            waiting=past.waiting,
            prompt=configuration.prompt,
            notes=() if recording is not None else tuple(grant.notes) + _omitted(known.state),
            cause=past.cause,
            recovery=origin.agent.spec.recovery,
            on_message=origin.agent.spec.concurrency.on_pause,
            is_undone=past.own_pause is not None and not past.had_effects,
            recording=recording,
            inherited=inherited,
        )

    async def _with_secrets(
        self, run: Run, agent: str, configuration: Configuration, may: Allowance
    ) -> dict[str, Any]:
        """Return the configuration for the runner.

        InvalidArgumentError names a secret that is not found, UnauthorizedError one that may not be used.
        """
        for value in configuration.written_out:
            remember(value)
        references = configuration.secrets
        for reference in references.values():
            if not may.secret(reference):
                raise UnauthorizedError(may.refused("secret", shown_reference(reference)))
        stored = {item: name for item, ref in references.items() if (name := stored_name(ref)) is not None}

        def resolved() -> dict[str, str]:
            others = references.items() - {(item, references[item]) for item in stored}
            within = may.secret_files
            return {item: resolve_secret(reference, within=within) or "" for item, reference in others}

        # a secret may be a file; most agents have none, and a hop to a thread costs as much as a query
        found = await asyncio.to_thread(resolved) if references else {}
        if stored:
            values = await self.stored_secrets(run.workspace_id, sorted(set(stored.values())), run.run_id)
            found |= {item: values[name] for item, name in stored.items()}
        if configuration.sealed:
            found |= await self.written_secrets(run.workspace_id, agent, configuration.sealed)
        return configuration.with_secrets(found)

    async def _noted(self, run: Run, manifest: AgentRunnerManifest, facts: AttemptFacts) -> AttemptFacts:
        """Note that copies from a person's other accounts come into this run's journal; then read them anew.

        So a deletion either finds the run, or has removed what it reads.
        """
        noted: AcrossAccounts | None = None
        while (across := facts.grant.across) is not None and across != noted:
            noted, actor = across, facts.event.envelope.actor
            note = partial(
                readers.note,
                grant=facts.grant,
                run_id=run.run_id,
                actor_id="" if actor is None else actor.actor_id or "",
                since=run.created_at,
                first_event=facts.origin.event.seq,
            )
            await self.services.db.write(note)
            facts = await self._facts(run, manifest)
        return facts

    async def _facts(self, run: Run, manifest: AgentRunnerManifest) -> AttemptFacts:
        catalog = self.catalog(run.workspace_id)
        brief = run.attempt == 1  # a later one may go on from a long recording
        return await self.services.db.read(lambda tx: read_facts(tx, run, manifest, catalog), brief=brief)

    async def _context(
        self, run: Run, facts: AttemptFacts, config: dict[str, Any], deadline_at: float | None
    ) -> AgentRunContext:
        origin, event, _, grant, known, _ = facts
        return build_context(
            run_id=run.run_id,
            attempt=run.attempt,
            envelope=event.envelope,
            given=await self._given(run.workspace_id, event.envelope.input),
            resources=resources_of(grant),
            primary_model=grant.primary_model,
            apis=apis_of(grant),
            position=_position(origin.event.seq, known, grant, self.services.cursors),
            state=known.state.values,
            config=config,
            host_version=self.host_version,
            trace_id=trace_id_of(run.run_id),
            deadline_at=deadline_at,
            policy=origin.agent.spec.delivery_policy,
        )

    async def _given(self, workspace_id: str, given: Input) -> Input:
        """Return the event's input with small files inline again, as they were sent."""
        contents = [await self._inline(workspace_id, element) for element in given.contents]
        return Input(text=given.text, contents=contents, attachments=given.attachments)

    async def _inline(self, workspace_id: str, element: ContentElement) -> ContentElement:
        if not isinstance(element, ArtifactElement):
            return element
        found = await self.services.db.read(lambda tx: artifacts.find(tx, workspace_id, element.artifact_id))
        kind = None if found is None else found.metadata.get("element")
        encoded_bytes = 0 if found is None else found.size_bytes * 4 // 3
        if found is None or kind is None or encoded_bytes > INLINE_BASE64_TO_ARTIFACT_BYTES:
            return element
        data = await self.blobs.read(found.blob.name, 0, found.size_bytes)
        text = base64.b64encode(data).decode()
        if kind == "image_base64":
            return ImageBase64Element(image_base64=text, mime_type=element.mime_type)
        return FileBase64Element(file_base64=text, file_name=element.file_name, mime_type=element.mime_type)


def trace_id_of(run_id: str) -> str:
    """Return the W3C trace id of a run: its UUID as 32 hexadecimal digits, the same for every attempt."""
    return uuid.UUID(run_id).hex


def _manifest(run: Run, runners: Mapping[str, AgentRunnerManifest]) -> AgentRunnerManifest:
    _, name = split_runner_id(run.runner_id)
    manifest = runners.get(name)
    if manifest is None:
        offered = ", ".join(sorted(runners)) or "none"
        raise NotFoundError(f"the plugin has no runner {name!r}; its runners are: {offered}")
    return manifest


def _position(event_seq: int, known: ContextFacts, grant: Grant, cursors: Cursors) -> Position:
    latest = known.latest or None
    return Position(
        event_seq=event_seq,
        transcript_seq=latest,
        latest_cursor=None if latest is None else history_cursors(cursors, grant).issue(latest),
        has_history_before=latest is not None,
    )


def _deadline_left(run: Run, last_at: int | None, outer_deadline: int | None) -> float | None:
    """Return the deadline that leaves as much time as there was at the last attempt's last entry.

    The deadline counts the time in which an attempt works on the run, not that in which the run waits for a
    person or a host.
    """
    if run.deadline_at is None:
        return None
    return _within(0 if last_at is None else run.deadline_at - last_at, outer_deadline)


def _within(left: int, outer_deadline: int | None) -> float:
    """Return the deadline of an attempt that has `left` milliseconds, at most that of its parent."""
    own = time.time() + max(left, MIN_DEADLINE_LEFT_MS) / 1000
    return own if outer_deadline is None else min(own, outer_deadline / 1000)


def _deadline(outer_deadline: int | None, grant: Grant) -> float | None:
    """Return the deadline of an attempt that starts now, at most that of its parent."""
    own = None if grant.timeout_seconds is None else time.time() + grant.timeout_seconds
    outer = None if outer_deadline is None else outer_deadline / 1000
    known = [deadline for deadline in (own, outer) if deadline is not None]
    return min(known) if known else None


def _context_entry(context: AgentRunContext, configuration: Configuration) -> NewEntry:
    """Return the context for the journal, with references in the place of secrets."""
    # a runner's state is kept with its pause, perhaps encrypted, and nowhere else
    shown = msgspec.structs.replace(context, config=configuration.shown, continuation=None)
    return NewEntry("context", "attempt", msgspec.json.encode(shown))


def _omitted(snapshot: states.Snapshot) -> tuple[str, ...]:
    return tuple(
        f"state scope {scope!r} is too large for the context: read its keys by state.get"
        for scope in sorted(snapshot.omitted)
    )
