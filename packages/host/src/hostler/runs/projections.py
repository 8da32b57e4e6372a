"""Projections of results: transcript items, state values, artifacts and actions.

Written in the transaction that writes the entry, so that neither exists without the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hostler.calls.scope import CallScope
from hostler.domain.outcomes import ActionRequest, ArtifactWrite, StateWrite, Stored, TranscriptWrite
from hostler.domain.place import NOWHERE, Place
from hostler.domain.scopes import area_of
from hostler.storage.port import Tx
from hostler.storage.stores import artifacts, audit, transcripts
from hostler.storage.stores import state_values as states
from hostler.storage.stores.artifacts import NewArtifact
from hostler.storage.stores.blobs import Blob, BlobFolder
from hostler.storage.stores.key_ranges import Full
from hostler_protocol.content import Message, text_of
from hostler_protocol.errors import HostError

LONG_TEXT_CHARS = 16_384
"""Longer texts are split into search words on another thread, which takes a millisecond or more."""

Before = Callable[[], Awaitable[None]] | None
After = Callable[[Tx], None] | None


class Projector:
    """Turns projections into work for the run's log."""

    def __init__(self, blobs: BlobFolder) -> None:
        self._blobs = blobs

    def project(self, scope: CallScope, stored: Stored) -> tuple[Before, After]:
        """Return a step to await before the transaction, and the work to do in it."""
        match stored.projection:
            case TranscriptWrite(message=message):
                return _transcript(scope, message)
            case StateWrite() if not scope.effects:
                return None, None
            case StateWrite() as write:
                return None, lambda tx: _write_state(tx, scope, write)
            case ArtifactWrite() as write:
                return self._artifact(scope, write)
            case ActionRequest() as request:
                return None, lambda tx: _record_action(tx, scope, request)
            case None:
                return None, None

    def _artifact(self, scope: CallScope, write: ArtifactWrite) -> tuple[Before, After]:
        stored: list[Blob] = []

        async def put() -> None:
            stored.append(await self._blobs.put(write.content))

        def create(tx: Tx) -> None:
            artifacts.create(
                tx,
                scope.workspace_id,
                NewArtifact(
                    artifact_id=write.artifact_id,
                    artifact_type=write.artifact_type,
                    blob=stored[-1],
                    source="run",
                    mime_type=write.mime_type,
                    name=write.name,
                    place=_place(scope),
                    run_id=scope.run_id,
                    runner_id=scope.grant.runner_id,
                    metadata=write.metadata,
                ),
            )

        return put, create


def _place(scope: CallScope) -> Place:
    """Return the place of the run's messages and artifacts: NOWHERE for a run without effects."""
    return Place.of(scope.grant) if scope.effects else NOWHERE


def _transcript(scope: CallScope, message: Message) -> tuple[Before, After]:
    place = _place(scope)
    prepared: list[transcripts.NewTranscriptItem] = []

    def prepare() -> None:
        prepared.append(transcripts.item_of(message, place, run_id=scope.run_id))

    def append(tx: Tx) -> None:
        transcripts.append(tx, scope.workspace_id, prepared[-1])

    if len(text_of(message.content)) <= LONG_TEXT_CHARS:
        prepare()
        return None, append
    return lambda: asyncio.to_thread(prepare), append


def _write_state(tx: Tx, scope: CallScope, write: StateWrite) -> None:
    area = area_of(write.scope, write.scope_key, scope.grant.agent_id, scope.event.envelope)
    outcome = states.set(tx, scope.workspace_id, area, write.key, write.value)
    if isinstance(outcome, Full):
        audit.record(
            tx,
            scope.workspace_id,
            actor=scope.grant.runner_id,
            action="state.refused",
            target=scope.run_id,
            body={"key": write.key, "scope": write.scope, "limit": outcome.limit},
        )
    elif isinstance(outcome, states.VersionConflict):
        raise HostError("a state value without a version condition was refused")


def _record_action(tx: Tx, scope: CallScope, request: ActionRequest) -> None:
    """Record a requested action. No platform here carries actions out: a granted one is `unsupported`."""
    audit.record(
        tx,
        scope.workspace_id,
        actor=scope.grant.runner_id,
        action="action.unsupported" if request.granted and scope.effects else "action.refused",
        target=scope.run_id,
        body={"action": request.action, "target": request.target, "payload": request.payload},
    )
