"""Projections of results: transcript items, state values, artifacts and actions.

Written in the transaction that writes the entry, so that neither exists without the other. A result has no
answer: what does not fit is left out, with a warning in the journal and an audit fact that say why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

import msgspec

from hostler.calls.scope import CallScope
from hostler.domain.accounts import person_of
from hostler.domain.outbound import files_of
from hostler.domain.outcomes import (
    ActionRequest,
    ArtifactShown,
    ArtifactWrite,
    StateWrite,
    Stored,
    TranscriptWrite,
)
from hostler.domain.place import NOWHERE, Place
from hostler.domain.quotas import Amounts, QuotaExceeded
from hostler.domain.scopes import area_of
from hostler.runs.queued_actions import ActionOutbox, queue_action
from hostler.runs.replies import Reply, reply_of
from hostler.storage.port import Database, Tx
from hostler.storage.stores import artifacts, audit, blobs, quotas, transcripts
from hostler.storage.stores import state_values as states
from hostler.storage.stores.artifacts import NewArtifact
from hostler.storage.stores.blobs import Blob, BlobFolder
from hostler.storage.stores.journal import Entries, NewEntry
from hostler.storage.stores.key_ranges import Full
from hostler_protocol.content import Message, text_of
from hostler_protocol.errors import HostError

LONG_TEXT_CHARS = 16_384
"""Longer texts are split into search words on another thread, which takes a millisecond or more."""


class Projected(NamedTuple):
    """Work for the run's log: a step to await before the transaction, one to do in it, and one after it."""

    before: Callable[[], Awaitable[None]] | None = None
    after: Callable[[Tx], Entries | None] | None = None
    settled: Callable[[], None] | None = None


class Projector:
    """Turns projections into work for the run's log."""

    def __init__(self, database: Database, folder: BlobFolder) -> None:
        self._db = database
        self._blobs = folder
        self.on_queued: Callable[[], None] = lambda: None
        """Called after messages were put into the outbox."""
        self.actor: ActionOutbox | None = None

    def project(self, scope: CallScope, stored: Stored) -> Projected:
        """Return the work for one result."""
        match stored.projection:
            case TranscriptWrite(message=message):
                reply = reply_of(scope, message, stored.sequence)
                return _transcript(self._db, scope, message, reply, self.on_queued)
            case StateWrite() if scope.effects:
                return Projected(after=partial(_write_state, scope=scope, write=stored.projection))
            case ArtifactWrite():
                return _Artifact(self._db, self._blobs, scope, stored.projection).projected()
            case ArtifactShown(artifact_id=artifact_id):
                return Projected(
                    after=lambda tx: artifacts.show(tx, scope.workspace_id, scope.run_id, artifact_id)
                )
            case ActionRequest() as request:
                sequence = stored.sequence
                return Projected(
                    after=lambda tx: queue_action(tx, scope, request, sequence, self.actor),
                    settled=self.on_queued,
                )
            case _:
                return Projected()


class _Artifact:
    """An artifact whose content came with a result."""

    def __init__(
        self, database: Database, folder: BlobFolder, scope: CallScope, write: ArtifactWrite
    ) -> None:
        self._db, self._blobs, self._scope, self._write = database, folder, scope, write
        self._put: Blob | None = None
        self._is_stored = False

    def projected(self) -> Projected:
        """Return the work."""
        return Projected(self._before, self._create, self._settled)

    def _exceeded(self, tx: Tx) -> QuotaExceeded | None:
        scope, more = self._scope, Amounts(1, self._write.size_bytes)
        return quotas.check(tx, scope.workspace_id, scope.allotment, more)

    async def _before(self) -> None:
        """Make the bytes durable, unless there is no room for them."""
        if await self._db.read(self._exceeded) is None:
            self._put = await self._blobs.put(self._write.content)

    def _create(self, tx: Tx) -> Entries | None:
        scope, write = self._scope, self._write
        made: object = self._exceeded(tx) if self._put is None else None
        if self._put is not None:
            made = artifacts.create(tx, scope.workspace_id, self._new(self._put), scope.allotment.bounds)
        self._is_stored = isinstance(made, artifacts.StoredArtifact)
        if self._is_stored:
            return None
        if isinstance(made, QuotaExceeded):
            why, details = made.error.message, made.error.details
        else:
            why, details = "there was no room for it when it came", {}
        body = {"artifact_id": write.artifact_id, "size_bytes": write.size_bytes, **details}
        return _refused(
            tx, scope, "artifact", body, f"the content of artifact {write.artifact_id} is not stored: {why}"
        )

    def _settled(self) -> None:
        if self._put is not None and not self._is_stored:
            blobs.discard_later(self._db, self._blobs, [self._put])

    def _new(self, blob: Blob) -> NewArtifact:
        scope, write = self._scope, self._write
        return NewArtifact(
            artifact_id=write.artifact_id,
            artifact_type=write.artifact_type,
            blob=blob,
            source="run",
            mime_type=write.mime_type,
            name=write.name,
            place=_place(scope),
            run_id=scope.run_id,
            agent_id=scope.grant.agent_id,
            runner_id=scope.grant.runner_id,
            metadata=write.metadata,
        )


def _place(scope: CallScope) -> Place:
    """Return the place of the run's messages and artifacts: NOWHERE for a run without effects."""
    return Place.of(scope.grant) if scope.effects else NOWHERE


def _transcript(
    db: Database, scope: CallScope, message: Message, reply: Reply | None, on_queued: Callable[[], None]
) -> Projected:
    place = _place(scope)
    prepared: list[transcripts.NewTranscriptItem] = []

    def prepare() -> None:
        prepared.append(transcripts.item_of(message, place, run_id=scope.run_id))

    def append(tx: Tx) -> None:
        transcripts.append(tx, scope.workspace_id, prepared[-1])
        if message.role == "assistant":
            for ref in files_of(message):
                artifacts.show(tx, scope.workspace_id, scope.run_id, ref.artifact_id)
        if reply is not None:
            reply.queue(tx)

    settled = None if reply is None else on_queued
    if len(text_of(message.content)) <= LONG_TEXT_CHARS and (reply is None or reply.size <= LONG_TEXT_CHARS):
        prepare()
        return Projected(after=append, settled=settled)

    async def before() -> None:
        await asyncio.to_thread(prepare)
        if reply is not None:
            await reply.prepare(db)

    return Projected(before, append, settled)


def _write_state(tx: Tx, scope: CallScope, write: StateWrite) -> Entries | None:
    """Store a state value; return what the journal says if it is not stored."""
    area = area_of(
        write.scope,
        write.scope_key,
        scope.grant.agent_id,
        scope.event.envelope,
        person_of(scope.grant.across),
    )
    outcome = states.set(tx, scope.workspace_id, area, write.key, write.value, bounds=scope.allotment.bounds)
    body: dict[str, Any] = {"key": write.key, "scope": write.scope}
    if isinstance(outcome, Full):
        why = f"the scope holds {outcome.limit:,} keys"
        return _refused(
            tx, scope, "state", {**body, "limit": outcome.limit}, f"{write.key!r:.80} is not stored: {why}"
        )
    if isinstance(outcome, QuotaExceeded):
        why, details = outcome.error.message, outcome.error.details
        return _refused(tx, scope, "state", {**body, **details}, f"{write.key!r:.80} is not stored: {why}")
    if isinstance(outcome, states.VersionConflict):
        raise HostError("a state value without a version condition was refused")
    return None


def _refused(tx: Tx, scope: CallScope, kind: str, body: dict[str, Any], reason: str) -> Entries:
    """Record that what a result brought is not stored; return what the journal says of it."""
    data = msgspec.json.encode({"reason": reason, "result_type": None})
    ws, runner = scope.workspace_id, scope.grant.runner_id
    audit.record(tx, ws, actor=runner, action=f"{kind}.refused", target=scope.run_id, body=body)
    return [NewEntry("warning", "dropped", data)]
